// Random schedules against a cluster: a daemon and three or four nodes, each a network namespace
// with an agent and a folder of its own, on which jobs train. Agents, nodes, the daemon and workers
// are killed, nodes stand still, cables are cut, nodes are drained, jobs are resized. In the end
// every job has finished with the bits of one worker, no device was given twice, and no two views
// of a job have trained.
//
//   cluster_chaos [--seeds 4] [--first 1] [--keep]
//
// Without --first, RUBATO_SEED=n takes the n-th group of seeds. Prints a line per schedule, and for
// a failed one also the command that repeats it. Exit code 0: all kept the promises; 77: this
// machine does not allow network namespaces.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "base/random.h"
#include "base/text.h"
#include "cluster/checks.h"
#include "cluster/hosts.h"
#include "cluster/world.h"
#include "test_paths.h"

namespace rubato::cluster {
namespace {

using nlohmann::json;

constexpr int kNodes = 4;
constexpr int kDevices = 2;
constexpr int kLogical = 8;
constexpr std::int64_t kSteps = 1500;
constexpr double kPatience = 120;  // for all jobs to end when nothing happens any more

struct Options {
  int seeds = 4;
  int first = 1;
  bool keep = false;
};

std::vector<std::string> toy(int seed) {
  return {test_paths::program("toy_train"),
          "--steps",
          std::to_string(kSteps),
          "--seed",
          std::to_string(seed),
          "--compute-us",
          "8000"};
}

// The bits that one worker gives.
std::string undisturbed(const std::string& folder, int seed) {
  const std::string job = fmt::format("{}/one-{}", folder, seed);
  const int code =
      std::system(fmt::format("'{}' run --workers 1 --logical {} --quiet --dir '{}' -- "
                              "'{}' --steps {} --seed {} >/dev/null 2>&1",
                              test_paths::program("rubato"), kLogical, job,
                              test_paths::program("toy_train"), kSteps, seed)
                      .c_str());
  const Result<std::string> result = read_file(job + "/result.json");
  if (code != 0 || !result.ok()) return "";
  return parse_json(*result).value("state_sha256", "");
}

class Schedule {
 public:
  Schedule(const Hosts& hosts, const std::string& folder, std::uint64_t seed)
      : folder_(folder),
        world_(hosts,
               {.folder = folder, .rubatod = test_paths::program("rubatod"), .devices = kDevices}),
        random_(seed) {}

  // Returns the problem, or "".
  std::string run(const std::vector<std::string>& bits) {
    if (!world_.start_daemon()) return "the daemon does not start";
    for (int host = 1; host <= world_.nodes(); ++host) world_.start_agent(host);
    if (!wait_until([&] { return ready_nodes() == world_.nodes(); })) return "nodes do not join";
    for (int i = random_.between(1, 3); i > 0; --i) submit();
    const int actions = random_.between(4, 10);
    for (int i = 0; i < actions; ++i) {
      pause(0.1 + 1.8 * random_.uniform());
      act();
      repair(0.5);
      if (jobs_.size() < 4 && random_.chance(0.2)) submit();
    }
    const bool repaired = wait_until(
        [&] {
          repair(0.7);
          return repairs_.empty();
        },
        kPatience);
    if (!repaired) return "it cannot be repaired: " + world_.last_error();
    std::ofstream(folder_ + "/hurry").put('\n');
    for (const auto& [job, seed] : jobs_) {
      static_cast<void>(seed);
      if (!wait_until([&, id = job] { return ended(id); }, kPatience)) {
        return fmt::format("j{} does not end: {}", job, described(job));
      }
    }
    if (!wait_until([&] { return idle(); }, kPatience)) return "processes are left";
    return check(bits);
  }

  const std::string& story() const { return story_; }
  std::int64_t views() const { return views_; }
  std::size_t jobs() const { return jobs_.size(); }
  std::string logs() const {
    std::string all = world_.logs();
    for (const json& event : world_.events()) {
      const std::string type = event.value("type", "");
      if (type == "learned" || type == "progress") continue;
      all += compact_json(event) + "\n";
    }
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Repair {
    Clock::time_point not_before;
    std::function<void()> act;
  };

  static void pause(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  void note(const std::string& what) { story_ += (story_.empty() ? "" : ", ") + what; }
  int any_host() { return random_.between(1, world_.nodes()); }

  int ready_nodes() const {
    const auto list = world_.get("/api/v1/cluster");
    return list ? list->value("devices", 0) / kDevices : 0;
  }
  bool ended(std::int64_t job) const {
    const auto record = world_.get(fmt::format("/api/v1/jobs/{}", job));
    if (!record) return false;
    const std::string phase = record->value("phase", "");
    return phase == "finished" || phase == "failed" || phase == "cancelled";
  }
  bool idle() const {
    const auto cluster = world_.get("/api/v1/cluster");
    return cluster && cluster->value("held", -1) == 0;
  }
  std::string described(std::int64_t job) const {
    const auto why = world_.get(fmt::format("/api/v1/jobs/{}/why", job));
    return why ? compact_json(*why) : world_.last_error();
  }

  void submit() {
    const int seed = random_.between(1, 2);
    const std::string trace = fmt::format("{}/trace-{}", folder_, jobs_.size() + 1);
    const json document = {{"run", toy(seed)},
                           {"devices", fmt::format("1..{}", kLogical)},
                           {"logical_workers", kLogical},
                           {"checkpoint", {{"every", 1}}},
                           {"env", {{"TOY_TRACE", trace}, {"TOY_HURRY_FILE", folder_ + "/hurry"}}}};
    // Until it is acknowledged: the key makes it one job.
    const std::string key = fmt::format("job-{}", jobs_.size());
    std::optional<json> made;
    if (!wait_until([&] {
          if (repairs_daemon_) repair(1);
          made = world_.call("POST", "/api/v1/jobs", document, key);
          return made.has_value();
        })) {
      note("a submission was not taken: " + world_.last_error());
      return;
    }
    const std::int64_t job = made->value("number", std::int64_t{0});
    if (!jobs_.contains(job)) jobs_[job] = seed;
    note(fmt::format("submit j{}", job));
  }

  void later(double least, double most, std::function<void()> act) {
    const double seconds = least + (most - least) * random_.uniform();
    repairs_.push_back({Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(seconds)),
                        std::move(act)});
  }
  // Undoes what is due, each with this chance.
  void repair(double chance) {
    for (std::size_t i = 0; i < repairs_.size();) {
      if (Clock::now() < repairs_[i].not_before || !random_.chance(chance)) {
        ++i;
        continue;
      }
      const Repair due = std::move(repairs_[i]);
      repairs_.erase(repairs_.begin() + static_cast<std::ptrdiff_t>(i));
      due.act();
    }
  }

  void act() {
    const int host = any_host();
    const std::string node = World::node(host);
    switch (random_.below(11)) {
      case 0:
        note("kill agent " + node);
        world_.kill_agent(host);
        later(0, 4, [this, host] { bring_back(host); });
        return;
      case 1:
      case 2: {
        const bool wiped = random_.chance(0.3);
        note(fmt::format("kill {}{}", node, wiped ? " and its disk" : ""));
        world_.kill_host(host, wiped);
        if (wiped) wiped_.insert(host);
        later(0, 5, [this, host] { bring_back(host); });
        return;
      }
      case 3:
        if (repairs_daemon_) return;
        note("kill the daemon");
        world_.kill_daemon();
        repairs_daemon_ = true;
        later(0, 3, [this] {
          if (!world_.start_daemon()) note("the daemon does not come back");
          repairs_daemon_ = false;
        });
        return;
      case 4:
      case 5:
        note("cut " + node);
        world_.hosts().cut(host);
        later(0.2, 5, [this, host] { world_.hosts().mend(host); });
        return;
      case 6:
        note("cut the daemon");
        world_.hosts().cut(0);
        later(0.2, 4, [this] { world_.hosts().mend(0); });
        return;
      case 7:
        note("drain " + node);
        world_.post(fmt::format("/api/v1/nodes/{}/drain", node), json::object());
        later(0.5, 4, [this, node] { undrain(node); });
        return;
      case 8: {
        if (jobs_.empty()) return;
        const std::int64_t job = random_.between(1, static_cast<int>(jobs_.size()));
        const int devices = random_.between(0, kLogical);
        note(fmt::format("scale j{} to {}", job, devices));
        world_.post(fmt::format("/api/v1/jobs/{}/scale", job), {{"devices", devices}});
        if (devices > 0) later(1, 4, [this, job] { unpin(job); });
        return;
      }
      case 9: {
        note("stop " + node);
        world_.hosts().signal_all(host, SIGSTOP);
        later(0.3, 5, [this, host] { world_.hosts().signal_all(host, SIGCONT); });
        return;
      }
      default: {
        const std::set<pid_t> all = world_.hosts().processes(host);
        if (all.empty()) return;
        auto one = all.begin();
        std::advance(one, random_.below(static_cast<std::uint32_t>(all.size())));
        const Result<std::string> words = read_file(fmt::format("/proc/{}/cmdline", *one));
        if (!words.ok() || words->find("agent") != std::string::npos) return;
        note(fmt::format(
            "kill {} on {}",
            words->find("supervise") != std::string::npos ? "a supervisor" : "a worker", node));
        ::kill(*one, SIGKILL);
        return;
      }
    }
  }
  // A node that has lost its token can have its name again when the old one is forgotten.
  void bring_back(int host) {
    const std::string node = World::node(host);
    if (wiped_.contains(host) && known(node) && !world_.call("DELETE", "/api/v1/nodes/" + node)) {
      later(0.3, 0.6, [this, host] { bring_back(host); });
      return;
    }
    wiped_.erase(host);
    world_.start_agent(host);
  }
  // Whether it is one of these; true if nobody can tell now.
  bool is_node(const std::string& node, const std::function<bool(const json&)>& which) const {
    const auto list = world_.get("/api/v1/nodes");
    if (!list || !list->contains("nodes")) return true;
    return std::any_of((*list)["nodes"].begin(), (*list)["nodes"].end(), [&](const json& each) {
      return each.value("name", "") == node && which(each);
    });
  }
  bool known(const std::string& node) const {
    return is_node(node, [](const json&) { return true; });
  }
  bool drained(const std::string& node) const {
    return is_node(node, [](const json& each) { return each.value("state", "") != "ready"; });
  }
  void undrain(const std::string& node) {
    if (!drained(node)) return;  // the request to drain it was lost, or the node was forgotten
    if (!world_.post(fmt::format("/api/v1/nodes/{}/undrain", node), json::object())) {
      later(0.5, 1, [this, node] { undrain(node); });
    }
  }
  void unpin(std::int64_t job) {
    if (!world_.post(fmt::format("/api/v1/jobs/{}/scale", job), {{"devices", 0}}) && !ended(job)) {
      later(0.5, 1, [this, job] { unpin(job); });
    }
  }

  std::string check(const std::vector<std::string>& bits) {
    const std::vector<json> events = world_.events();
    std::map<std::string, int> devices;
    for (int host = 1; host <= world_.nodes(); ++host) devices[World::node(host)] = kDevices;
    std::string problem = check_devices(events, devices);
    if (!problem.empty()) return problem;
    for (const auto& [job, seed] : jobs_) {
      const auto record = world_.get(fmt::format("/api/v1/jobs/{}", job));
      if (!record) return fmt::format("j{} is lost", job);
      if (record->value("phase", "") != "finished") {
        return fmt::format("j{} is {}: {}", job, record->value("phase", ""),
                           record->value("message", ""));
      }
      if (world_.hash(job) != bits.at(static_cast<std::size_t>(seed - 1))) {
        return fmt::format("j{} has other bits", job);
      }
      problem =
          check_views(world_.copy(job), fmt::format("{}/trace-{}", folder_, job), kSteps, events);
      if (!problem.empty()) return fmt::format("j{}: {}", job, problem);
      for (const json& event : events) {
        const bool view =
            event.value("type", "") == "view" && event["body"].value("type", "") == "view";
        views_ += view && event.value("job", std::int64_t{0}) == job ? 1 : 0;
      }
    }
    return "";
  }

  const std::string folder_;
  World world_;
  Random random_;
  std::map<std::int64_t, int> jobs_;  // and the seeds of their programs
  std::vector<Repair> repairs_;
  std::set<int> wiped_;  // hosts whose agents have lost their tokens
  bool repairs_daemon_ = false;
  std::string story_;
  std::int64_t views_ = 0;
};

int run(const Options& options, const std::string& self) {
  const std::string folder = fmt::format(
      "{}/rubato-cluster-{}", std::filesystem::temp_directory_path().string(), ::getpid());
  std::filesystem::create_directories(folder);
  const std::vector<std::string> bits{undisturbed(folder, 1), undisturbed(folder, 2)};
  if (bits[0].empty() || bits[1].empty()) {
    fmt::print("an undisturbed run failed\n");
    return 1;
  }
  const std::optional<Hosts> hosts = Hosts::make(kNodes + 1);
  if (!hosts || !hosts->enter(0)) {
    fmt::print("SKIPPED: no network namespaces here: {}\n", Hosts::why());
    return 77;
  }
  int failed = 0;
  for (int seed = options.first; seed < options.first + options.seeds; ++seed) {
    const std::string place = fmt::format("{}/{}", folder, seed);
    std::filesystem::create_directories(place);
    const auto began = std::chrono::steady_clock::now();
    std::string problem;
    {
      Schedule schedule(*hosts, place, static_cast<std::uint64_t>(seed));
      problem = schedule.run(bits);
      fmt::print("seed {}: {} ({} jobs, {} views, {:.1f} s): {}\n", seed,
                 problem.empty() ? "ok" : "FAILED: " + problem, schedule.jobs(), schedule.views(),
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(),
                 schedule.story());
      if (!problem.empty()) {
        const std::string log = fmt::format("{}/history", place);
        static_cast<void>(write_file(log, schedule.logs()));
        fmt::print("  its history is in {}\n  repeat with: {} --first {} --seeds 1 --keep\n", log,
                   self, seed);
      }
      std::fflush(stdout);
    }
    for (int host = 0; host < hosts->count(); ++host) {
      hosts->mend(host);
      if (host > 0) hosts->kill_all(host);
    }
    failed += problem.empty() ? 0 : 1;
    std::error_code error;
    if (problem.empty() && !options.keep) std::filesystem::remove_all(place, error);
  }
  fmt::print("{} of {} schedules kept the promises\n", options.seeds - failed, options.seeds);
  std::error_code error;
  if (failed == 0 && !options.keep) std::filesystem::remove_all(folder, error);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rubato::cluster

int main(int argc, char** argv) {
  rubato::cluster::Options options;
  bool chosen = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--keep") options.keep = true;
    if (i + 1 < argc && name == "--seeds") options.seeds = std::atoi(argv[++i]);
    if (i + 1 < argc && name == "--first") {
      options.first = std::atoi(argv[++i]);
      chosen = true;
    }
  }
  const char* group = std::getenv("RUBATO_SEED");
  if (!chosen && group != nullptr) options.first = 1 + (std::atoi(group) - 1) * options.seeds;
  return rubato::cluster::run(options, argv[0]);
}
