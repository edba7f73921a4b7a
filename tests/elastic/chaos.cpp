// Random schedules of resizes, migrations, kills, stops and restarts against real jobs. Each must
// end with the bits of the undisturbed run and with a ledger in which every sample occurs once per
// epoch. With --adaptive the jobs are adaptive and batches change, too. Then each must end with the
// bits of its replay in one process and with the requested amount of training.
//
//   chaos [--seeds 40] [--first 1] [--programs toy,device,mlp,cnn,lm,PATH.py] [--device cuda]
//   [--examples DIR] [--adaptive] [--nodes 1] [--keep]
//
// With several nodes (emulated on this machine) the job starts on one of them; nodes also join,
// leave and fail as a whole. Adaptive jobs have one node. Without --first, RUBATO_SEED=n takes the
// n-th group of seeds.
//
// Prints one line per schedule, and for a failed one also the command that repeats it. Exit code 0
// if all schedules kept the promise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/json_text.h"
#include "base/random.h"
#include "base/text.h"
#include "elastic/job/ledger.h"
#include "elastic/node_runner.h"

namespace rubato::elastic {
namespace {

struct ProgramUnderTest {
  std::string name;
  std::vector<std::string> command;
  int logical = 4;
  std::int64_t steps = 0;
  std::int64_t batch = 0;  // per (logical) worker
};

struct Options {
  int seeds = 40;
  int first = 1;
  std::string programs = "toy";
  std::string rubato;
  std::string toy;
  std::string examples;
  std::string device;  // empty: the programs' default
  bool adaptive = false;
  int nodes = 1;
  bool keep = false;
};

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream children(fmt::format("/proc/{}/task/{}/children", parent, parent));
  std::vector<pid_t> found;
  for (pid_t pid = 0; children >> pid;) found.push_back(pid);
  return found;
}

// Processes of the job that are not (yet) members: children of the launcher outside the view.
std::vector<pid_t> newcomers(RunningJob& job) {
  std::set<pid_t> members;
  for (const Member& member : job.view().members) {
    members.insert(static_cast<pid_t>(member.address.pid));
  }
  std::vector<pid_t> found = children_of(job.pid());
  std::erase_if(found, [&](pid_t pid) { return members.contains(pid); });
  return found;
}

// A job that takes longer hangs. The limit leaves time to restart from a checkpoint and to load
// LibTorch, all on a busy machine.
constexpr std::chrono::seconds kTimeToEnd{600};

class Schedule {
 public:
  Schedule(const ProgramUnderTest& program, const Options& options, const std::string& folder,
           std::uint64_t seed)
      : program_(program), options_(options), folder_(folder), random_(seed) {}

  // Returns the problem, or "".
  std::string run(const std::string& expected, std::int64_t steps) {
    steps_ = steps;
    start(random_.between(1, options_.nodes > 1 ? 2 : program_.logical));
    if (options_.nodes > 1 && job_->until([&] { return job_->step() > 0; })) join_node();
    const int actions = random_.between(3, 8);
    for (int i = 0; i < actions; ++i) {
      // Somewhere in the rest of the job, so that both early and late steps are hit.
      const std::int64_t now = std::max<std::int64_t>(job_->step(), 0);
      const std::int64_t span = std::max<std::int64_t>(1, (steps_ - now) / (actions - i + 1));
      const std::int64_t at =
          now + static_cast<std::int64_t>(random_.uniform() * 2.0 * static_cast<double>(span));
      if (!job_->until([&] { return job_->step() >= std::min(at, steps_ - 2); })) break;
      act();
      if (random_.chance(0.4)) {  // another one at once, so that requests and failures coincide
        pause_us(random_.between(0, 300'000));
        act();
      }
    }
    const auto deadline = std::chrono::steady_clock::now() + kTimeToEnd;
    while (!job_->ended()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return fmt::format("the job did not end within {} s", kTimeToEnd.count());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!finished_ && job_->wait() != 0) return "the job failed";
    if (options_.adaptive) {
      std::string problem = check_adaptive();
      if (!problem.empty()) return problem;
      steps_ = job_->result().value("steps", std::int64_t{0});
    } else if (job_->hash() != expected) {
      return fmt::format("the result has other bits: {}; expected {}", job_->hash(), expected);
    }
    const Result<LedgerSummary> ledger = check_ledger(folder_ + "/ledger", samples());
    if (!ledger.ok()) return ledger.error().message;
    if (ledger->steps != steps_) return fmt::format("the ledger has {} steps", ledger->steps);
    for (auto& node : nodes_) {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (!node->ended()) {
        if (std::chrono::steady_clock::now() > end) return "a node did not end with the job";
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    for (const nlohmann::json& event : job_->events()) {
      if (event.value("cause", "") != "restart" && event.value("steps_redone", 0) > 1) {
        return "more than the interrupted step was repeated: " + compact_json(event);
      }
    }
    return "";
  }

  std::string story() const { return story_; }
  int views() const { return job_->result().value("views", 0); }
  std::string logs() const {
    std::string all = job_->logs();
    for (const auto& node : nodes_) all += "--- launcher of " + node->node() + "\n" + node->log();
    return all;
  }

 private:
  // Checks the bits against the replay, the number of samples, and that the loss is finite.
  std::string check_adaptive() const {
    const int code = std::system(
        fmt::format("'{}' replay '{}/job' >'{}/replay.log' 2>&1", options_.rubato, folder_, folder_)
            .c_str());
    if (code != 0) return *read_file(folder_ + "/replay.log");
    const double loss = job_->result().value("final_loss", std::nan(""));
    if (!std::isfinite(loss)) return "the final loss is not finite";
    std::ifstream ledger(folder_ + "/ledger");
    std::int64_t used = 0;
    for (std::string line; std::getline(ledger, line);) {
      const nlohmann::json step = parse_json_or_throw(line);
      for (const auto& share : step["samples"]) {
        used += static_cast<std::int64_t>(share.size());
      }
    }
    const std::int64_t first = program_.batch * first_workers_;
    const std::int64_t per_epoch = (samples() + first - 1) / first;
    const std::int64_t expected = program_.steps / per_epoch * samples() +
                                  std::min(program_.steps % per_epoch * first, samples());
    if (used == expected) return "";
    return fmt::format("{} samples were used; expected {}", used, expected);
  }

  void start(int workers) {
    note(fmt::format("start {}", workers));
    // A continued adaptive job may have other limits.
    const int most = options_.adaptive && first_workers_ > 0
                         ? random_.between(workers, program_.logical)
                         : program_.logical;
    if (first_workers_ == 0) first_workers_ = workers;
    std::vector<std::string> arguments{"--workers", std::to_string(workers), "--node", "home"};
    const std::vector<std::string> mode =
        options_.adaptive ? std::vector<std::string>{"--mode",        "adaptive",
                                                     "--max-workers", std::to_string(most),
                                                     "--lr-rule",     "sqrt",
                                                     "--batch-range", to_string(batch_range())}
                          : std::vector<std::string>{"--logical", std::to_string(program_.logical)};
    arguments.insert(arguments.end(), mode.begin(), mode.end());
    arguments.insert(arguments.end(), {"--failure-timeout", "0.6", "--checkpoint-steps", "20",
                                       "--ledger", folder_ + "/ledger", "--"});
    arguments.insert(arguments.end(), program_.command.begin(), program_.command.end());
    job_.reset();
    job_ = std::make_unique<RunningJob>(options_.rubato, folder_ + "/job", arguments);
  }

  std::int64_t samples() const { return job_->result().value("samples", std::int64_t{1}); }
  BatchRange batch_range() const { return {program_.batch, program_.batch * program_.logical * 2}; }

  void note(const std::string& what) {
    story_ += fmt::format("{}{}@{}", story_.empty() ? "" : ", ", what, job_ ? job_->step() : 0);
  }
  static void pause_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

  std::optional<pid_t> member(bool leader) {
    const View view = job_->view();
    if (view.empty()) return std::nullopt;
    const Member& chosen =
        leader ? *view.find(view.leader)
               : view.members[random_.below(static_cast<std::uint32_t>(view.members.size()))];
    return static_cast<pid_t>(chosen.address.pid);
  }

  // Starts the next node, unless all are running.
  void join_node() {
    std::erase_if(nodes_, [](const auto& node) { return node->ended(); });
    if (static_cast<int>(nodes_.size()) + 1 >= options_.nodes) return;
    const std::string name = fmt::format("n{}", ++joined_);
    const int workers = random_.between(1, 2);
    note(fmt::format("join {} {}", name, workers));
    nodes_.push_back(
        std::make_unique<RunningNode>(options_.rubato, folder_ + "/job", name, workers));
  }
  RunningNode* any_node() {
    std::erase_if(nodes_, [](const auto& node) { return node->ended(); });
    if (nodes_.empty()) return nullptr;
    return nodes_[random_.below(static_cast<std::uint32_t>(nodes_.size()))].get();
  }

  void act_on_node() {
    switch (random_.below(6)) {
      case 0:
      case 1:
        join_node();
        break;
      case 2:
        if (RunningNode* node = any_node()) {
          note("leave " + node->node());
          node->leave();
        }
        break;
      case 3:
        if (RunningNode* node = any_node()) {
          note("kill node " + node->node());
          node->kill_all();
        }
        break;
      case 4: {  // all workers of a node at once
        const View view = job_->view();
        if (view.empty()) break;
        const std::string name =
            view.members[random_.below(static_cast<std::uint32_t>(view.members.size()))]
                .address.node;
        note("kill workers of " + name);
        for (const Member& m : members_on(view, name)) {
          kill(static_cast<pid_t>(m.address.pid), SIGKILL);
        }
        break;
      }
      default: {
        const View view = job_->view();
        if (view.empty()) break;
        const std::string name =
            view.members[random_.below(static_cast<std::uint32_t>(view.members.size()))]
                .address.node;
        const int us = random_.between(50'000, 1'500'000);
        note(fmt::format("stop node {} {} ms", name, us / 1000));
        for (const Member& m : members_on(view, name)) {
          kill(static_cast<pid_t>(m.address.pid), SIGSTOP);
        }
        pause_us(us);
        for (const Member& m : members_on(view, name)) {
          kill(static_cast<pid_t>(m.address.pid), SIGCONT);
        }
        break;
      }
    }
  }

  void act() {
    if (job_->ended()) return;
    if (options_.nodes > 1 && random_.chance(0.5)) {
      act_on_node();
      return;
    }
    switch (random_.below(10)) {
      case 0:
      case 1:
      case 2: {
        const int workers = random_.between(1, program_.logical);
        std::int64_t batch = 0;
        if (options_.adaptive && random_.chance(0.6)) {
          const BatchRange range = batch_range();
          batch = random_.between(static_cast<int>(range.low), static_cast<int>(range.high));
        }
        // Sometimes only change the batch, not the workers.
        const bool same = batch > 0 && random_.chance(0.4);
        note(fmt::format("scale {}{}", same ? "same" : std::to_string(workers),
                         batch > 0 ? fmt::format(" batch {}", batch) : ""));
        job_->change([&](Target& target) {
          if (!same) target.workers = workers;
          target.batch = batch;
        });
        break;
      }
      case 3: {
        const View view = job_->view();
        if (view.empty()) break;
        const std::vector<int> ids = view.ids();
        const int id = ids[random_.below(static_cast<std::uint32_t>(ids.size()))];
        note(fmt::format("migrate {}", id));
        job_->change([&](Target& target) { target.migrate.push_back(id); });
        break;
      }
      case 4:
      case 5:
        if (const auto pid = member(false)) {
          // A child of a Python worker loads data for it.
          const std::vector<pid_t> loaders = children_of(*pid);
          const bool loader = !loaders.empty() && random_.chance(0.5);
          note(loader ? "kill loader" : "kill worker");
          kill(loader ? loaders.front() : *pid, SIGKILL);
        }
        break;
      case 6:
        if (const auto pid = member(true)) {
          note("kill leader");
          kill(*pid, SIGKILL);
        }
        break;
      case 7:
        for (const pid_t pid : newcomers(*job_)) {
          note("kill newcomer");
          kill(pid, SIGKILL);
          break;
        }
        break;
      case 8:
        if (const auto pid = member(random_.chance(0.4))) {
          const int us = random_.between(50'000, 1'500'000);  // shorter or longer than the timeout
          note(fmt::format("stop worker {} ms", us / 1000));
          kill(*pid, SIGSTOP);
          pause_us(us);
          kill(*pid, SIGCONT);
        }
        break;
      default:
        if (random_.chance(0.5)) {
          note("kill all");
          for (const Member& m : job_->view().members) {
            kill(static_cast<pid_t>(m.address.pid), SIGKILL);
          }
        } else {
          note("kill launcher");
          kill(job_->pid(), SIGKILL);
          job_->wait();
          const int workers = random_.between(1, program_.logical);
          finished_ = is_file(job_->folder().result_file());  // then nothing is left to continue
          if (!finished_) start(workers);
        }
        break;
    }
  }

  const ProgramUnderTest& program_;
  const Options& options_;
  std::string folder_;
  Random random_;
  std::int64_t steps_ = 0;
  int first_workers_ = 0;
  bool finished_ = false;  // before its launcher was killed
  std::unique_ptr<RunningJob> job_;
  std::vector<std::unique_ptr<RunningNode>> nodes_;
  int joined_ = 0;
  std::string story_;
};

std::vector<ProgramUnderTest> programs(const Options& options) {
  std::vector<ProgramUnderTest> all;
  for (const std::string_view part : split(options.programs, ',')) {
    const std::string name(part);
    if (name.ends_with(".py")) {
      const char* const python = std::getenv("RUBATO_PYTHON");
      all.push_back({name, {python != nullptr ? python : "python3", name}, 4, 0, 0});
      continue;
    }
    if (name == "toy" || name == "device") {  // see toy_device.h
      all.push_back(
          {name,
           {options.toy, "--compute-us", "3000", "--device", name == "device" ? "1" : "0"},
           7,
           300,
           3});
    } else if (name == "mlp") {
      all.push_back({name, {options.examples + "/train_mlp"}, 8, 240, 32});
    } else {
      all.push_back({name, {options.examples + "/train_" + name}, 4, 72, 16});
    }
    ProgramUnderTest& program = all.back();
    if (!options.device.empty() && name != "toy" && name != "device") {
      program.command.insert(program.command.end(), {"--device", options.device});
    }
    program.command.insert(program.command.end(), {"--steps", std::to_string(program.steps)});
    if (options.adaptive) {
      program.command.insert(program.command.end(), {"--batch", std::to_string(program.batch)});
    }
  }
  return all;
}

// The undisturbed run on one worker and on N workers, which must agree.
struct Expected {
  std::string hash;
  std::int64_t steps = 0;
};
std::optional<Expected> undisturbed(const ProgramUnderTest& program, const Options& options,
                                    const std::string& folder) {
  Expected expected;
  for (const int workers : {1, program.logical}) {
    const std::string ledger = fmt::format("{}/ledger-{}", folder, workers);
    std::vector<std::string> arguments{"--workers", std::to_string(workers),
                                       "--logical", std::to_string(program.logical),
                                       "--ledger",  ledger,
                                       "--"};
    arguments.insert(arguments.end(), program.command.begin(), program.command.end());
    RunningJob job(options.rubato, fmt::format("{}/undisturbed-{}", folder, workers), arguments);
    if (job.wait() != 0) {
      fmt::print("{}: the undisturbed run failed\n{}", program.name, job.logs());
      return std::nullopt;
    }
    if (workers == 1) {
      expected = {job.hash(), job.result().value("steps", std::int64_t{0})};
    } else if (job.hash() != expected.hash) {
      fmt::print("{}: {} undisturbed workers give other bits than one\n", program.name, workers);
      return std::nullopt;
    }
  }
  return expected;
}

int run(const Options& options) {
  std::string root = (std::filesystem::temp_directory_path() / "rubato-chaos-XXXXXX").string();
  if (mkdtemp(root.data()) == nullptr) return 1;
  int failures = 0;
  int done = 0;
  int views = 0;
  std::vector<ProgramUnderTest> all = programs(options);
  std::vector<std::optional<Expected>> expected;
  for (const ProgramUnderTest& program : all) {
    expected.push_back(options.adaptive ? Expected{.steps = program.steps}
                                        : undisturbed(program, options, root + "/" + program.name));
    if (!expected.back()) return 1;
  }
  for (int seed = options.first; seed < options.first + options.seeds; ++seed) {
    const std::size_t which = static_cast<std::size_t>(seed) % all.size();
    const std::string folder = fmt::format("{}/{}", root, seed);
    std::filesystem::create_directories(folder);
    Schedule schedule(all[which], options, folder, static_cast<std::uint64_t>(seed));
    const std::string problem = schedule.run(expected[which]->hash, expected[which]->steps);
    fmt::print("seed {:>4} {:<4} {:>3} views {} [{}]\n", seed, all[which].name, schedule.views(),
               problem.empty() ? "same bits" : "FAILED: " + problem, schedule.story());
    std::fflush(stdout);
    ++done;
    views += schedule.views();
    if (!problem.empty()) {
      ++failures;
      fmt::print(
          "repeat with: chaos --first {} --seeds 1 --programs {} --nodes {}{} (files in {})\n{}",
          seed, options.programs, options.nodes, options.adaptive ? " --adaptive" : "", folder,
          schedule.logs());
    } else if (!options.keep) {
      std::filesystem::remove_all(folder);
    }
  }
  fmt::print("{} schedules, {} views, {} with other bits or lost samples\n", done, views, failures);
  if (failures == 0 && !options.keep) std::filesystem::remove_all(root);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rubato::elastic

int main(int argc, char** argv) {
  rubato::elastic::Options options;
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  options.rubato = (here / "rubato").string();
  options.toy = (here / "toy_train").string();
  options.examples = (here / "examples").string();
  const char* const round = std::getenv("RUBATO_SEED");  // of scripts/nightly
  bool first_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--keep" || name == "--adaptive") {
      (name == "--keep" ? options.keep : options.adaptive) = true;
      continue;
    }
    if (i + 1 >= argc) return 2;
    const std::string value = argv[++i];
    if (name == "--seeds") {
      options.seeds = std::stoi(value);
    } else if (name == "--first") {
      options.first = std::stoi(value);
      first_given = true;
    } else if (name == "--programs") {
      options.programs = value;
    } else if (name == "--nodes") {
      options.nodes = std::stoi(value);
    } else if (name == "--device") {
      options.device = value;
    } else if (name == "--examples") {
      options.examples = value;
    } else {
      fmt::print(stderr, "chaos: unknown option {}\n", name);
      return 2;
    }
  }
  if (round != nullptr && !first_given) options.first = 1 + (std::atoi(round) - 1) * options.seeds;
  return rubato::elastic::run(options);
}
