// What a change of membership costs the workers that stay: the example CNN under this runtime and
// under torchrun elastic with checkpoint restore, and a model of 100 million parameters under this
// runtime. Prints a page in Markdown; scripts/bench-elastic stores it.
//
// usage: elastic_changes [--repetitions 5] [--torchrun 3] [--only cnn|python|large|torchrun]
//                        [--verbose]
//
// Run it from the top of the source tree. The figures are computed from the times at which steps
// were complete, observed from outside (step_watch.h; the Python worker of torchrun logs them
// itself):
//   stall       the gap between two complete steps around the change, minus the median step of the
//               membership the step ran in; the worse of the two gaps around the switch
//   redone      steps computed again
//   full speed  from the request, the kill, or the start of torchrun's second agent to the first of
//               five steps whose median is within 1.2 of the new membership's. After a failure that
//               is the membership with the replacement
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/result.h"
#include "elastic/job_runner.h"
#include "step_watch.h"

namespace bench {
namespace {

using rubato::elastic::Board;
using rubato::elastic::RunningJob;
using rubato::elastic::Target;
using rubato::elastic::View;

constexpr double kFailureTimeoutS = 2;  // the default of 'rubato run'

struct Options {
  int repetitions = 5;
  int torchrun = 3;
  std::string only;
  bool verbose = false;
};

// One change, measured once, in seconds.
struct Change {
  double stall = 0;
  double redone = 0;
  double full_speed = 0;
  double step = 0;       // median step before a planned change, or of the survivor of a failure
  double own_stall = 0;  // as reported by the runtime
  double prepare = 0;
  double slowest = 0;  // longest step while a newcomer prepared, in median steps
  double resume = 0;   // failures: from the kill to the end of the repeated step
  double detect = 0;   // failures: from the kill to the end of the process, when it becomes visible
};
using Changes = std::map<std::string, std::vector<Change>>;

// The same measurement while nothing changes: what the machine alone does to steps.
struct Control {
  int looks = 0;
  int slow = 0;  // with a stall of at least one step
};

double median_of(const std::vector<Change>& changes, double Change::*field) {
  std::vector<double> values;
  values.reserve(changes.size());
  for (const Change& change : changes) values.push_back(change.*field);
  return median(std::move(values));
}

double worst_of(const std::vector<Change>& changes, double Change::*field) {
  double worst = 0;
  for (const Change& change : changes) worst = std::max(worst, change.*field);
  return worst;
}

// Sends the signal and, if it kills, returns when the process had ended: the kernel frees its
// memory first, and until then nobody can know.
double killed_at(pid_t pid, int signal) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  kill(pid, signal);
  pollfd entry{.fd = process, .events = POLLIN, .revents = 0};
  const bool ended = signal == SIGKILL && poll(&entry, 1, 60'000) == 1;
  const double now = seconds_now();
  if (process >= 0) close(process);
  return ended ? now : 0;
}

// A job that is watched while its membership changes.
class WatchedJob {
 public:
  struct Spec {
    std::vector<std::string> arguments;
    std::int64_t settle = 40;  // steps before and after a change whose median is taken
    bool stop_a_worker = false;
    bool verbose = false;
  };
  WatchedJob(const std::string& rubato, const std::string& folder, Spec spec)
      : spec_(std::move(spec)), job_(rubato, folder, spec_.arguments) {}
  WatchedJob(const WatchedJob&) = delete;
  WatchedJob& operator=(const WatchedJob&) = delete;
  ~WatchedJob() {
    // The second signal makes the launcher end its workers and remove the shared memory.
    while (!job_.ended()) {
      kill(job_.pid(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  std::string logs() const { return job_.logs(); }
  const Changes& changes() const { return changes_; }
  const Control& control() const { return control_; }
  bool step_lost() const { return lost_ || (watch_ && watch_->went_back()); }

  bool start() {
    if (!job_.until([&] { return job_.step() > 2; })) return false;
    rubato::Result<Board> board = Board::open(job_.view().board);
    if (!board.ok()) return false;
    watch_ = std::make_unique<StepWatch>(std::move(*board));
    return settle(watch_->next());
  }

  // Makes every kind of change once; begins and ends with one worker.
  bool all_changes() {
    return planned("join", 2) && failure("worker kill -9", SIGKILL, false) &&
           failure("leader kill -9", SIGKILL, true) &&
           (!spec_.stop_a_worker || failure("worker stopped", SIGSTOP, false)) &&
           planned("leave", 1);
  }

 private:
  bool settle(std::int64_t from) {
    return until([&] { return watch_->next() > from + spec_.settle; });
  }
  bool until(const std::function<bool()>& condition) {
    for (int patience = 0; patience < 3; ++patience) {  // 60 s each
      if (job_.until(condition)) return true;
    }
    return false;
  }
  // The first view after `before` with this many members.
  bool view_with(std::size_t members, std::int64_t before, View& view) {
    return until([&] {
      view = job_.view();
      return view.number > before && view.members.size() == members;
    });
  }
  // The event of a view; the leader writes it after the view's first step.
  nlohmann::json event(std::int64_t view) const {
    for (const nlohmann::json& event : job_.events()) {
      if (event.value("type", "") == "view" && event.value("view", 0) == view) return event;
    }
    return nlohmann::json::object();
  }
  double steady_before() const {
    return watch_->median_gap(watch_->next() - spec_.settle, watch_->next());
  }
  double steady_after(const View& view) const {
    return watch_->median_gap(view.first_step + spec_.settle / 4, watch_->next());
  }
  double full_speed_at(const View& view, double steady) const {
    const std::int64_t window = 5;
    for (std::int64_t s = view.first_step; s + window <= watch_->next(); ++s) {
      if (watch_->median_gap(s, s + window) <= 1.2 * steady) return watch_->time(s);
    }
    return watch_->time(watch_->next() - 1);
  }

  void keep(const std::string& name, const View& view, Change change) {
    const nlohmann::json told = event(view.number);
    change.own_stall = told.value("stall_ms", 0.0) / 1e3;
    change.prepare = told.value("prepare_s", 0.0);
    change.redone = told.value("steps_redone", 0.0);
    if (spec_.verbose) {
      fmt::print(stderr,
                 "{:<16} stall {:8.1f} ms (told {:8.1f}) step {:7.1f} ms full speed {:6.2f} s "
                 "redone {} slowest {:.1f} steps resume {:.1f} ms detect {:.1f} ms\n",
                 name, change.stall * 1e3, change.own_stall * 1e3, change.step * 1e3,
                 change.full_speed, change.redone, change.slowest, change.resume * 1e3,
                 change.detect * 1e3);
    }
    changes_[name].push_back(change);
  }

  void look_at_quiet_steps(double median) {
    for (std::int64_t at = watch_->next() - spec_.settle + 1; at < watch_->next(); ++at) {
      ++control_.looks;
      control_.slow += std::max(watch_->gap(at - 1), watch_->gap(at)) >= 2 * median ? 1 : 0;
    }
  }

  bool planned(const std::string& name, int workers) {
    const double before = steady_before();
    look_at_quiet_steps(before);
    const std::int64_t number = job_.view().number;
    const std::int64_t first = watch_->next();
    const double asked = seconds_now();
    job_.change([&](Target& target) { target.workers = workers; });
    View view;
    if (!view_with(static_cast<std::size_t>(workers), number, view)) return false;
    if (!settle(view.first_step)) return false;
    const double after = steady_after(view);
    const std::int64_t at = view.first_step;
    Change change{.step = before};
    change.stall = std::max({watch_->gap(at - 1) - before, watch_->gap(at) - after, 0.0});
    change.full_speed = full_speed_at(view, after) - asked;
    change.slowest = watch_->longest_gap(first, at - 1) / before;
    if (workers > 1) alone_ = before;
    keep(name, view, change);
    return true;
  }

  bool failure(const std::string& name, int signal, bool leader) {
    const View whole = job_.view();
    const auto victim = std::find_if(
        whole.members.begin(), whole.members.end(),
        [&](const auto& member) { return (member.address.id == whole.leader) == leader; });
    const double killed = seconds_now();
    const double ended = killed_at(static_cast<pid_t>(victim->address.pid), signal);
    View survivor;
    if (!view_with(whole.members.size() - 1, whole.number, survivor)) return false;
    View repaired;
    if (!view_with(whole.members.size(), survivor.number, repaired)) return false;
    if (!settle(repaired.first_step)) return false;
    const std::int64_t at = survivor.first_step;
    if (watch_->time(at) < killed) lost_ = true;  // it was complete and is repeated
    // The survivor's step time while the replacement boots, if there were enough steps.
    const double alone =
        repaired.first_step - at > 3 ? watch_->median_gap(at + 1, repaired.first_step) : alone_;
    Change change{.step = alone};
    change.stall = std::max(watch_->gap(at) - alone, 0.0);
    change.resume = watch_->time(at) - killed;
    change.detect = ended > 0 ? ended - killed : kFailureTimeoutS;
    change.full_speed = full_speed_at(repaired, steady_after(repaired)) - killed;
    keep(name, survivor, change);
    return true;
  }

  Spec spec_;
  RunningJob job_;
  std::unique_ptr<StepWatch> watch_;
  Changes changes_;
  Control control_;
  double alone_ = 0;  // median step of one worker
  bool lost_ = false;
};

struct Measured {
  Changes changes;
  Control control;
  bool step_lost = false;
};

std::optional<Measured> measure(const std::string& rubato, const std::string& folder,
                                const WatchedJob::Spec& spec, int repetitions) {
  WatchedJob job(rubato, folder, spec);
  bool done = job.start();
  for (int i = 0; done && i < repetitions; ++i) done = job.all_changes();
  if (!done) {
    fmt::print(stderr, "elastic_changes: the job in {} did not complete its changes:\n{}", folder,
               job.logs());
    return std::nullopt;
  }
  return Measured{job.changes(), job.control(), job.step_lost()};
}

struct Rival {
  std::optional<Changes> changes;
  std::string absent;  // why there are none
};

// Runs bench/elastic_torchrun.py.
Rival measure_torchrun(const Options& options, const std::string& folder) {
  const std::string script = "bench/elastic_torchrun.py";
  if (!std::filesystem::exists(script)) {
    return {.absent = "skipped: " + script + " is not here; run from the top of the source tree"};
  }
  const std::string command = fmt::format("/usr/bin/python3 {} drive {} {}{}", script, folder,
                                          options.torchrun, options.verbose ? " --verbose" : "");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {.absent = "failed: cannot start /usr/bin/python3"};
  std::string text;
  char part[4096];
  while (const std::size_t got = fread(part, 1, sizeof(part), pipe)) text.append(part, got);
  const int status = pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 3 || code == 127) {
    return {.absent = "skipped: /usr/bin/python3 has no torch; install python3-torch"};
  }
  const nlohmann::json all = rubato::parse_json(text);
  if (code != 0 || !all.is_array()) {
    return {.absent = fmt::format("failed with code {}; its output is above", code)};
  }
  Changes changes;
  for (const nlohmann::json& one : all) {
    changes[one.value("case", "")].push_back({.stall = one.value("stall_s", 0.0),
                                              .redone = one.value("redone", 0.0),
                                              .full_speed = one.value("full_speed_s", 0.0),
                                              .step = one.value("step_s", 0.0)});
  }
  return {.changes = std::move(changes)};
}

std::string verdict(bool holds) { return holds ? "holds" : "**not always**"; }

void print_against_torchrun(const char* title_of_table, const Changes& ours, const Rival& rival,
                            const Options& options) {
  fmt::print("## {}\n\n", title_of_table);
  fmt::print(
      "Medians of {} repetitions here and {} there ({} of its joins), in one run. Ratios are "
      "torchrun's figure divided by ours.\n\n"
      "| change | stall, ours | torchrun | ratio | redone, ours | torchrun | full speed, ours | "
      "torchrun | ratio |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
      options.repetitions, options.torchrun, 2 * options.torchrun);
  const std::vector<std::pair<std::string, std::string>> rows{{"join", "join"},
                                                              {"leave", "leave"},
                                                              {"worker kill -9", "worker kill -9"},
                                                              {"leader kill -9", "agent kill -9"}};
  for (const auto& [name, peer] : rows) {
    const auto& mine = ours.at(name);
    const double stall = median_of(mine, &Change::stall);
    const double speed = median_of(mine, &Change::full_speed);
    const std::string title = name == peer ? name : fmt::format("{} / {}", name, peer);
    if (!rival.changes || !rival.changes->contains(peer)) {
      fmt::print("| {} | {:.1f} ms | - | - | {:.0f} | - | {:.2f} s | - | - |\n", title, stall * 1e3,
                 median_of(mine, &Change::redone), speed);
      continue;
    }
    const auto& other = rival.changes->at(peer);
    const double other_stall = median_of(other, &Change::stall);
    const double other_speed = median_of(other, &Change::full_speed);
    fmt::print(
        "| {} | {:.1f} ms | {:.0f} ms | {:.0f}x | {:.0f} | {:.0f} | {:.2f} s | {:.2f} s | {:.1f}x "
        "|\n",
        title, stall * 1e3, other_stall * 1e3,
        // Anything shorter than the watch's interval counts as one interval.
        other_stall / std::max(stall, 2e-4), median_of(mine, &Change::redone),
        median_of(other, &Change::redone), speed, other_speed, other_speed / speed);
  }
  if (!rival.changes) {
    fmt::print("\n**torchrun {}**\n", rival.absent);
    return;
  }
  fmt::print("\nMedian step with one worker: ours {:.1f} ms, torchrun {:.1f} ms.\n",
             median_of(ours.at("join"), &Change::step) * 1e3,
             median_of(rival.changes->at("leave"), &Change::step) * 1e3);
}

void print_ours(const std::string& title, const Measured& measured, double limit_ms) {
  fmt::print(
      "\n## {}\n\nMedians, with the worst in brackets. *Said* is `stall_ms` from the job's own "
      "events. "
      "*Slowest step* is the longest step while a newcomer boots and copies the state, in median "
      "steps. For failures, *resumed* is the time from the kill to the end of the repeated step, "
      "and "
      "*detected* the time from the kill to the end of the process (the kernel frees its memory "
      "before its connections break), or the failure timeout. The verdict counts the changes that "
      "kept the bound; "
      "it holds if all did.\n\n"
      "| change | stall | said | median step | redone | preparation | slowest step | detected | "
      "resumed | verdict |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
      title);
  for (const char* name : {"join", "leave", "worker kill -9", "leader kill -9", "worker stopped"}) {
    const auto found = measured.changes.find(name);
    if (found == measured.changes.end()) continue;
    const std::vector<Change>& all = found->second;
    const double stall = median_of(all, &Change::stall) * 1e3;
    const double step = median_of(all, &Change::step) * 1e3;
    const double resume = median_of(all, &Change::resume) * 1e3;
    const bool planned = resume == 0;
    const double detect = median_of(all, &Change::detect) * 1e3;
    const auto kept = std::count_if(all.begin(), all.end(), [&](const Change& change) {
      return planned
                 ? change.stall < change.step && (limit_ms == 0 || change.stall * 1e3 < limit_ms)
                 : change.resume <= change.detect + 2 * change.step;
    });
    const bool holds = static_cast<std::size_t>(kept) == all.size();
    const std::string bound =
        planned ? (limit_ms > 0 ? fmt::format("< 1 step and < {:.0f} ms", limit_ms) : "< 1 step")
                : "<= detection + 2 steps";
    fmt::print(
        "| {} | {:.1f} ms [{:.1f}] | {:.1f} ms | {:.1f} ms | {:.0f} [{:.0f}] | {} | {} | {} | {} "
        "| {} {}/{} ({}) |\n",
        name, stall, worst_of(all, &Change::stall) * 1e3, median_of(all, &Change::own_stall) * 1e3,
        step, median_of(all, &Change::redone), worst_of(all, &Change::redone),
        planned ? fmt::format("{:.2f} s", median_of(all, &Change::prepare)) : "",
        std::string(name) == "join" ? fmt::format("{:.1f}x", median_of(all, &Change::slowest)) : "",
        planned ? "" : fmt::format("{:.1f} ms", detect),
        planned ? "" : fmt::format("{:.1f} ms", resume), verdict(holds), kept, all.size(), bound);
  }
  fmt::print("\nFinished steps lost: {}.\n", measured.step_lost ? "**some**" : "none");
  fmt::print(
      "For comparison: while nothing changed, {} of {} observed steps were late by one step or "
      "more.\n",
      measured.control.slow, measured.control.looks);
}

// The median of a file with one number per line.
double median_line(const std::string& path) {
  std::ifstream file(path);
  std::vector<double> values;
  for (double value = 0; file >> value;) values.push_back(value);
  return values.empty() ? 0 : median(std::move(values));
}

int run(const Options& options) {
  setenv("RUBATO_AUDIT", "0", 1);  // a step of an audit is longer
  const std::string modules = std::filesystem::absolute("build/python").string();
  setenv("PYTHONPATH", modules.c_str(), 1);
  std::string root = (std::filesystem::temp_directory_path() / "rubato-elastic-XXXXXX").string();
  if (mkdtemp(root.data()) == nullptr) return 1;
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string rubato = (here / "rubato").string();
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  const std::vector<std::string> common{"--workers",          "1", "--max-workers", "2",
                                        "--checkpoint-every", "0", "--quiet"};
  std::optional<Measured> cnn;
  if (wanted("cnn")) {
    WatchedJob::Spec spec{.stop_a_worker = true, .verbose = options.verbose};
    spec.arguments = common;
    for (const std::string& word : {std::string("--logical"), std::string("4"), std::string("--"),
                                    (here / "examples" / "train_cnn").string(),
                                    std::string("--epochs"), std::string("100000")}) {
      spec.arguments.push_back(word);
    }
    cnn = measure(rubato, root + "/cnn", spec, options.repetitions);
    if (!cnn) return 1;
  }
  Rival torchrun{.absent = "skipped: not requested"};
  if (wanted("torchrun")) torchrun = measure_torchrun(options, root + "/torchrun");
  if (cnn) {
    print_against_torchrun("The example CNN: this runtime and torchrun", cnn->changes, torchrun,
                           options);
    print_ours("The example CNN under this runtime", *cnn, 50);
    std::fflush(stdout);
  }
  if (wanted("python")) {
    const auto in_python = [&](const std::string& name) {
      WatchedJob::Spec spec{.stop_a_worker = true, .verbose = options.verbose};
      spec.arguments = common;
      for (const std::string& word : {std::string("--"), std::string("/usr/bin/python3"),
                                      std::string("bench/elastic_torchrun.py"),
                                      std::string("elastic"), root + "/imports-" + name}) {
        spec.arguments.push_back(word);
      }
      return measure(rubato, root + "/" + name, spec, options.repetitions);
    };
    const std::optional<Measured> python = in_python("forked");
    setenv("RUBATO_WARM", "0", 1);
    const std::optional<Measured> executed = in_python("executed");
    unsetenv("RUBATO_WARM");
    if (!python || !executed) return 1;
    print_against_torchrun("The same CNN in Python: this runtime and torchrun", python->changes,
                           torchrun, options);
    print_ours("The same CNN in Python under this runtime", *python, 50);
    fmt::print(
        "From the request to full speed, a join took {:.2f} s with a worker that was forked from a "
        "copy of the first one, and {:.2f} s with one that was executed (`RUBATO_WARM=0`), of "
        "which "
        "importing PyTorch and Rubato took {:.2f} s (medians).\n",
        median_of(python->changes.at("join"), &Change::full_speed),
        median_of(executed->changes.at("join"), &Change::full_speed),
        median_line(root + "/imports-executed"));
    std::fflush(stdout);
  }
  std::optional<Measured> large;
  if (wanted("large")) {
    WatchedJob::Spec spec{.settle = 8, .verbose = options.verbose};
    spec.arguments = common;
    for (const std::string& word : {std::string("--logical"), std::string("2"), std::string("--"),
                                    (here / "train_large").string()}) {
      spec.arguments.push_back(word);
    }
    large = measure(rubato, root + "/large", spec, options.repetitions);
    if (!large) return 1;
    print_ours("100.8 million parameters, 0.8 GB of state", *large, 0);
  }
  std::filesystem::remove_all(root);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Options options;
  CLI::App app("Measure what a change of membership costs the workers that stay");
  app.add_option("--repetitions", options.repetitions,
                 "Repetitions of every change under this runtime")
      ->check(CLI::PositiveNumber);
  app.add_option("--torchrun", options.torchrun, "Repetitions under torchrun")
      ->check(CLI::PositiveNumber);
  app.add_option("--only", options.only, "Run only one part")
      ->check(CLI::IsMember({"cnn", "python", "large", "torchrun"}));
  app.add_flag("--verbose", options.verbose, "Print every change to stderr");
  CLI11_PARSE(app, argc, argv);
  return bench::run(options);
}
