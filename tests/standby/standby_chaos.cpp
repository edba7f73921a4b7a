// Random schedules against two daemons that share a log in an etcd of three members, with two nodes
// on which jobs train: the leader is killed or stopped, the standby is killed, a member of etcd is
// killed, its leader stopped, while jobs are submitted, scaled and cancelled. In the end nothing
// that was acknowledged is lost, nothing has happened twice, no device was given twice, every job
// has the bits of one worker, and both stores have the same history.
//
//   standby_chaos [--seeds 4] [--first 1] [--keep]
//
// Prints a line per schedule, with how long nobody led, and for a failed one also the command that
// repeats it. Without --first, RUBATO_SEED=n takes the n-th group of seeds. Exit code 77: etcd is
// not installed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "base/random.h"
#include "cluster/checks.h"
#include "control/store.h"
#include "standby/real_daemons.h"
#include "test_paths.h"

namespace rubato::standby {
namespace {

using elastic::EtcdCluster;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kDevices = 2;
constexpr int kAgents = 2;
constexpr int kLogical = 4;
constexpr std::int64_t kSteps = 1200;
constexpr double kPatience = 120;
constexpr double kStopped = 2.5;  // seconds for which a leader stands still

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// The bits that one worker gives.
std::string undisturbed(const std::string& folder, int seed) {
  const std::string job = fmt::format("{}/one-{}", folder, seed);
  const int code = std::system(fmt::format("'{}' run --workers 1 --logical {} --quiet --dir '{}' "
                                           "-- '{}' --steps {} --seed {} >/dev/null 2>&1",
                                           test_paths::program("rubato"), kLogical, job,
                                           test_paths::program("toy_train"), kSteps, seed)
                                   .c_str());
  const Result<std::string> result = read_file(job + "/result.json");
  if (code != 0 || !result.ok()) return "";
  return parse_json(*result).value("state_sha256", "");
}

class Schedule {
 public:
  Schedule(EtcdCluster& etcd, const std::string& folder, std::uint64_t seed)
      : etcd_(etcd),
        folder_(folder),
        random_(seed),
        daemons_(etcd, {.folder = folder,
                        .prefix = fmt::format("/chaos/{}", seed),
                        .agents = kAgents,
                        .devices = kDevices}) {}

  // Returns the problem, or "".
  std::string run(const std::vector<std::string>& bits) {
    daemons_.start(0);
    if (!wait_until([&] { return daemons_.leader() == 0; })) return "no daemon leads";
    daemons_.start(1);
    for (int agent = 1; agent <= kAgents; ++agent) daemons_.start_agent(agent);
    if (!wait_until([&] { return devices() == kAgents * kDevices; })) return "nodes do not join";
    for (int i = random_.between(1, 2); i > 0; --i) submit();
    const int actions = random_.between(5, 9);
    for (int i = 0; i < actions && problem_.empty(); ++i) {
      pause(0.1 + 1.2 * random_.uniform());
      act();
      repair(0.6);
    }
    while (!repairs_.empty()) {
      pause(0.1);
      repair(0.8);
    }
    for (int i = 0; i < daemons_.count(); ++i) {
      if (std::string death = daemons_.death_of(i); !death.empty()) problem_ = std::move(death);
    }
    if (!problem_.empty()) return problem_;
    std::ofstream(folder_ + "/hurry").put('\n');
    for (const auto& [key, job] : jobs_) {
      if (!wait_until([&, number = job.number] { return ended(number); }, kPatience)) {
        return fmt::format("j{} does not end", job.number);
      }
    }
    if (!wait_until([&] { return held() == 0; }, kPatience)) return "devices are still held";
    const std::string problem = check(bits);
    return problem.empty() ? compare_stores() : problem;
  }

  const std::string& story() const { return story_; }
  std::size_t jobs() const { return jobs_.size(); }
  const std::vector<double>& gaps() const { return gaps_; }
  std::string logs() const { return daemons_.logs(); }

 private:
  struct Job {
    std::int64_t number = 0;
    int seed = 1;
    bool cancelled = false;  // that was acknowledged
    bool may_be_cancelled = false;
  };
  struct Repair {
    Clock::time_point not_before;
    std::function<void()> act;
  };

  static void pause(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  void note(const std::string& what) { story_ += (story_.empty() ? "" : ", ") + what; }
  void later(double least, double most, std::function<void()> act) {
    const double seconds = least + (most - least) * random_.uniform();
    repairs_.push_back({Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(seconds)),
                        std::move(act)});
  }
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
  json cluster() const {
    const auto answer = daemons_.ask_leader("GET", "/api/v1/cluster", nullptr, "", 10);
    return answer.ok() ? answer.body : json::object();
  }
  int devices() const { return cluster().value("devices", 0); }
  int held() const { return cluster().value("held", -1); }
  std::string phase(std::int64_t job) const {
    const auto answer = daemons_.ask_leader("GET", fmt::format("/api/v1/jobs/{}", job));
    return answer.ok() ? answer.body.value("phase", "") : "";
  }
  bool ended(std::int64_t job) const {
    const std::string now = phase(job);
    return now == "finished" || now == "failed" || now == "cancelled";
  }

  void submit() {
    const std::string key = fmt::format("job-{}", jobs_.size());
    const int seed = random_.between(1, 2);
    const json document = {{"run",
                            {test_paths::program("toy_train"), "--steps", std::to_string(kSteps),
                             "--seed", std::to_string(seed), "--compute-us", "6000"}},
                           {"name", key},
                           {"devices", fmt::format("1..{}", kLogical)},
                           {"logical_workers", kLogical},
                           {"checkpoint", {{"every", 1}}},
                           {"env",
                            {{"TOY_TRACE", fmt::format("{}/trace-{}", folder_, key)},
                             {"TOY_HURRY_FILE", folder_ + "/hurry"}}}};
    const auto made = daemons_.ask_leader("POST", "/api/v1/jobs", document, key);
    note("submit");
    if (!made.ok()) {
      problem_ = fmt::format("a submission was not taken: {} {}", made.status, made.body.dump());
      return;
    }
    jobs_[key] = {.number = made.body.value("number", std::int64_t{0}), .seed = seed};
  }
  Job* any_job() {
    if (jobs_.empty()) return nullptr;
    auto at = jobs_.begin();
    std::advance(at, random_.below(static_cast<std::uint32_t>(jobs_.size())));
    return &at->second;
  }

  // Measures how long it takes until another one than this leads. One that was stopped may go on
  // leading: the standby may have been busy with its own start.
  void without_leader(int former, bool stopped, Clock::time_point from) {
    const auto led = [&] {
      return daemons_.ask(1 - former, "GET", "/api/v1/cluster").ok() ||
             (stopped && since(from) > kStopped && daemons_.leader() >= 0);
    };
    if (!wait_until(led, 60)) {
      problem_ = "nobody takes over; " + daemons_.death_of(1 - former);
      return;
    }
    gaps_.push_back(since(from));
    note(fmt::format("led again after {:.1f} s", gaps_.back()));
  }

  void act() {
    const int leader = daemons_.leader();
    switch (random_.below(9)) {
      case 0:
      case 1: {
        if (leader < 0 || !repairs_.empty()) return;
        note(fmt::format("kill the leader d{}", leader));
        const auto at = Clock::now();
        daemons_.end(leader, SIGKILL);
        later(0.2, 2, [this, leader] { daemons_.start(leader); });
        if (random_.chance(0.5)) submit();
        without_leader(leader, false, at);
        return;
      }
      case 2:
      case 3: {
        if (leader < 0 || !repairs_.empty()) return;
        note(fmt::format("stop the leader d{}", leader));
        const auto at = Clock::now();
        daemons_.signal(leader, SIGSTOP);
        std::thread other([this, leader] {
          pause(kStopped);
          daemons_.signal(leader, SIGCONT);
        });
        without_leader(leader, true, at);
        other.join();
        return;
      }
      case 4: {
        if (leader < 0 || !repairs_.empty()) return;
        note("kill the standby");
        const int standby = 1 - leader;
        daemons_.end(standby, SIGKILL);
        later(0.2, 1.5, [this, standby] { daemons_.start(standby); });
        return;
      }
      case 5: {
        if (!repairs_.empty()) return;
        const std::size_t member = random_.below(3);
        note("kill a member of etcd");
        etcd_.kill_member(member);
        later(0.3, 2, [this, member] { etcd_.restart_member(member); });
        return;
      }
      case 6: {
        const std::size_t member = etcd_.leader();
        if (member == etcd_.size() || !repairs_.empty()) return;
        note("stop the leader of etcd");
        etcd_.stop_member(member);
        later(0.5, 2, [this, member] { etcd_.continue_member(member); });
        return;
      }
      case 7: {
        Job* job = any_job();
        if (job == nullptr) return;
        if (random_.chance(0.4)) {
          job->may_be_cancelled = true;
          const auto done =
              daemons_.ask_leader("POST", fmt::format("/api/v1/jobs/{}/cancel", job->number));
          job->cancelled = job->cancelled || done.ok();
          note(fmt::format("cancel j{}: {}", job->number, done.status));
          return;
        }
        const int count = random_.between(0, kLogical);
        const auto done = daemons_.ask_leader(
            "POST", fmt::format("/api/v1/jobs/{}/scale", job->number), {{"devices", count}});
        note(fmt::format("scale j{} to {}: {}", job->number, count, done.status));
        return;
      }
      default:
        if (jobs_.size() < 4) submit();
    }
  }

  std::string check(const std::vector<std::string>& bits) const {
    const std::vector<json> events = daemons_.events();
    std::int64_t seq = 0;
    std::map<std::string, int> submitted;
    for (const json& event : events) {
      if (event.value("seq", std::int64_t{0}) != ++seq) return fmt::format("no event {}", seq);
      if (event.value("type", "") != "submitted") continue;
      ++submitted[event["body"]["document"].value("name", "")];
    }
    std::map<std::string, int> devices;
    for (int agent = 1; agent <= kAgents; ++agent) devices[daemons_.node(agent)] = kDevices;
    std::string problem = cluster::check_devices(events, devices);
    if (!problem.empty()) return problem;
    for (const auto& [key, job] : jobs_) {
      if (submitted[key] != 1) return fmt::format("{} was submitted {} times", key, submitted[key]);
      const auto record = daemons_.ask_leader("GET", fmt::format("/api/v1/jobs/{}", job.number));
      if (!record.ok()) return fmt::format("j{} is lost", job.number);
      const std::string now = record.body.value("phase", "");
      if (job.cancelled && now != "cancelled") {
        return fmt::format("j{} was cancelled, and is {}", job.number, now);
      }
      if (now == "cancelled" && job.may_be_cancelled) continue;
      if (now != "finished") {
        return fmt::format("j{} is {}: {}", job.number, now, compact_json(record.body));
      }
      const json result = record.body.value("result", json::object());
      if (result.value("state_sha256", "") != bits.at(static_cast<std::size_t>(job.seed - 1))) {
        return fmt::format("j{} has other bits", job.number);
      }
      // If its registry is where the job ended: no two views have trained.
      const std::string copy =
          fmt::format("{}/jobs/{}", daemons_.state(daemons_.leader()), job.number);
      if (!is_file(copy + "/registry/view.1")) continue;
      problem =
          cluster::check_views(copy, fmt::format("{}/trace-{}", folder_, key), kSteps, events);
      if (!problem.empty()) return fmt::format("j{}: {}", job.number, problem);
    }
    return "";
  }

  // The leader dies once more. Whoever leads then must have all of its history.
  std::string compare_stores() {
    const int former = daemons_.leader();
    if (former < 0) return "nobody leads";
    const int next = 1 - former;
    daemons_.start(next);
    const auto follows = [&] {
      return daemons_.ask(next, "GET", "/healthz").body.value("behind", -1) == 0;
    };
    if (!wait_until(follows)) return "the standby does not follow";
    daemons_.end(former, SIGKILL);
    if (!wait_until([&] { return daemons_.leader() == next; })) return "nobody takes over";
    daemons_.end(next, SIGKILL);
    std::string problem = lacks(daemons_.state(former), daemons_.state(next));
    if (!problem.empty()) return problem;
    const auto checked = control::Store::check(daemons_.state(next));
    return checked.ok() ? checked->difference : checked.error().message;
  }

  EtcdCluster& etcd_;
  const std::string folder_;
  Random random_;
  RealDaemons daemons_;
  std::map<std::string, Job> jobs_;  // by key
  std::vector<Repair> repairs_;
  std::vector<double> gaps_;
  std::string story_;
  std::string problem_;
};

int run(int first, int seeds, bool keep, const std::string& self) {
  if (EtcdCluster::program().empty()) {
    fmt::print("SKIPPED: {}\n", EtcdCluster::kAbsent);
    return 77;
  }
  const std::string folder = fmt::format(
      "{}/rubato-standby-{}", std::filesystem::temp_directory_path().string(), ::getpid());
  std::filesystem::create_directories(folder);
  const std::vector<std::string> bits{undisturbed(folder, 1), undisturbed(folder, 2)};
  if (bits[0].empty() || bits[1].empty()) {
    fmt::print("an undisturbed run failed\n");
    return 1;
  }
  const auto etcd = EtcdCluster::start(3);
  if (!etcd) return 1;
  int failed = 0;
  std::vector<double> gaps;
  for (int seed = first; seed < first + seeds; ++seed) {
    const std::string place = fmt::format("{}/{}", folder, seed);
    std::filesystem::create_directories(place);
    const auto began = Clock::now();
    {
      Schedule schedule(*etcd, place, static_cast<std::uint64_t>(seed));
      const std::string problem = schedule.run(bits);
      fmt::print("seed {}: {} ({} jobs, {:.1f} s): {}\n", seed,
                 problem.empty() ? "ok" : "FAILED: " + problem, schedule.jobs(), since(began),
                 schedule.story());
      gaps.insert(gaps.end(), schedule.gaps().begin(), schedule.gaps().end());
      if (!problem.empty()) {
        ++failed;
        static_cast<void>(write_file(place + "/history", schedule.logs()));
        fmt::print(
            "  its history is in {}/history\n  repeat with: {} --first {} --seeds 1 --keep\n",
            place, self, seed);
      }
      std::fflush(stdout);
    }
    for (std::size_t member = 0; member < etcd->size(); ++member) {
      etcd->continue_member(member);
      if (!etcd->answers(member)) {
        etcd->kill_member(member);
        etcd->restart_member(member);
      }
    }
    std::error_code error;
    if (failed == 0 && !keep) std::filesystem::remove_all(place, error);
  }
  std::sort(gaps.begin(), gaps.end());
  if (!gaps.empty()) {
    fmt::print(
        "{} times the leader was killed or stopped (a standby waits for 1 s): led again after "
        "{:.1f} s (median), {:.1f} s (at most)\n",
        gaps.size(), gaps[gaps.size() / 2], gaps.back());
  }
  std::error_code error;
  if (failed == 0 && !keep) std::filesystem::remove_all(folder, error);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rubato::standby

int main(int argc, char** argv) {
  int seeds = 4;
  int first = 0;
  bool keep = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seeds" && i + 1 < argc) seeds = std::atoi(argv[++i]);
    if (word == "--first" && i + 1 < argc) first = std::atoi(argv[++i]);
    keep = keep || word == "--keep";
  }
  const char* group = std::getenv("RUBATO_SEED");
  if (first == 0) first = group == nullptr ? 1 : 1 + (std::atoi(group) - 1) * seeds;
  return rubato::standby::run(first, seeds, keep, argv[0]);
}
