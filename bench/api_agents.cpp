// A cluster of many nodes (`make bench-agents`): one process plays the agents of 1,000 nodes with
// 10,000 devices, on which 2,000 jobs run and tell their progress. The daemon is a real rubatod
// with its store on this disk. Printed: the processor time of a call of an agent, with everything
// else that the daemon does meanwhile; how long a decision takes to reach the nodes that it is
// about; and the daemon's memory. Exit code 1: a limit was exceeded.
//   api_agents [NODES [JOBS]]
#include <fmt/format.h>
#include <httplib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/json_text.h"
#include "base/sha256.h"
#include "base/stats.h"
#include "base/text.h"
#include "control/cluster/node_sync.h"
#include "control/live_controller.h"
#include "live/live_daemon.h"

namespace rubato::bench {
namespace {

using control::JobNumber;
using control::Notice;
using control::NumberedNotice;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kDevicesPerNode = 10;
constexpr int kThreads = 4;
constexpr auto kProgressEvery = std::chrono::milliseconds(500);  // as jobs tell it
constexpr double kWarmUp = 10;                                   // seconds
constexpr double kMeasured = 30;
constexpr int kDecisions = 40;         // jobs that are submitted while it is measured
constexpr double kSyncLimit = 1;       // ms of processor time
constexpr double kReachLimit = 2;      // s
constexpr double kMemoryLimit = 1024;  // MiB

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// When a node heard first that it should give devices to a job, in seconds since 1970.
class Heard {
 public:
  void note(JobNumber job) {
    const std::lock_guard lock(mutex_);
    at_.try_emplace(job, control::now_unix());
  }
  std::map<JobNumber, double> all() const {
    const std::lock_guard lock(mutex_);
    return at_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<JobNumber, double> at_;
};

// The agent of one node. Its jobs have the workers that they should have at once, and go on for
// ever.
class PlayedAgent {
 public:
  PlayedAgent(const std::string& url, int number, std::string join_token, Heard& heard)
      : name_(fmt::format("n{:05}", number)),
        token_(sha256_hex("agent " + name_)),
        join_token_(std::move(join_token)),
        http_(url),
        heard_(heard) {
    http_.set_keep_alive(true);
    http_.set_tcp_nodelay(true);
    http_.set_read_timeout(60);
  }

  Clock::time_point due() const { return due_; }
  std::int64_t calls() const { return calls_; }
  bool joined() const { return !session_.empty(); }
  std::string problem() const { return problem_; }

  void call() {
    const bool joins = session_.empty();
    control::NodeReport report{
        .node = {.name = name_, .device_type = "cpu", .devices = kDevicesPerNode},
        .start = 1,
        .session = session_,
        .epoch = epoch_,
        .obeyed = obeyed_,
        .notices = untold_};
    if (joins) report.token_sha256 = sha256_hex(token_);
    for (const auto& [number, job] : jobs_) {
      report.jobs.push_back({.job = number,
                             .held = job.devices,
                             .called_runtime = true,
                             .view = job.view,
                             .members = job.devices});
    }
    const httplib::Result answer =
        http_.Post("/api/v1/nodes/" + name_ + "/sync",
                   {{"Authorization", "Bearer " + (joins ? join_token_ : token_)}},
                   compact_json(control::to_json(report)), "application/json");
    ++calls_;
    due_ = Clock::now() + std::chrono::milliseconds(500);
    if (!answer || answer->status != 200) {
      problem_ = answer ? answer->body : httplib::to_string(answer.error());
      return;
    }
    const auto orders = control::node_orders_from(parse_json(answer->body));
    if (!orders.ok()) {
      problem_ = orders.error().message;
      return;
    }
    due_ = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * orders->next_s));
    obey(*orders);
  }

 private:
  struct Job {
    int devices = 0;
    std::int64_t view = 0;
    std::int64_t step = 0;
    Clock::time_point told{};
  };

  void tell(Notice notice) { untold_.push_back({++told_, std::move(notice)}); }

  void tell_progress(JobNumber number, Job& job) {
    job.step += 5;
    tell({.job = number,
          .kind = Notice::Kind::kProgress,
          .body = {{"step", job.step},
                   {"total_steps", 1'000'000},
                   {"loss", 1.5},
                   {"workers", job.devices},
                   {"logical_workers", 16},
                   {"batch", 512},
                   {"step_s", 0.1}}});
  }

  void obey(const control::NodeOrders& orders) {
    epoch_ = orders.epoch;
    if (orders.session.empty()) return;
    if (orders.session != session_) {
      session_ = orders.session;
      untold_.clear();
      told_ = 0;
      jobs_.clear();
    }
    std::erase_if(untold_, [&](const NumberedNotice& notice) {
      return notice.number <= orders.acknowledged;
    });
    for (const control::NodeOrders::Job& wanted : orders.jobs) {
      Job& job = jobs_[wanted.job];
      if (wanted.devices > 0 && job.devices == 0) heard_.note(wanted.job);
      if (wanted.devices != job.devices) {
        job.devices = wanted.devices;
        ++job.view;
        tell({.job = wanted.job, .devices = job.devices});
      }
      if (job.devices == 0 || wanted.guest) continue;
      for (; job.told + kProgressEvery < Clock::now(); job.told += kProgressEvery) {
        if (job.step == 0) job.told = Clock::now();
        tell_progress(wanted.job, job);
      }
    }
    std::erase_if(jobs_, [&](const auto& job) {
      return job.second.devices == 0 ||
             std::none_of(orders.jobs.begin(), orders.jobs.end(),
                          [&](const auto& wanted) { return wanted.job == job.first; });
    });
    obeyed_ = orders.number;
  }

  const std::string name_;
  const std::string token_;
  const std::string join_token_;
  httplib::Client http_;
  Heard& heard_;
  Clock::time_point due_ = Clock::now();
  std::string session_{};
  std::int64_t epoch_ = 0;
  std::int64_t obeyed_ = 0;
  std::int64_t told_ = 0;
  std::vector<NumberedNotice> untold_{};
  std::map<JobNumber, Job> jobs_{};
  std::int64_t calls_ = 0;
  std::string problem_{};
};

// Some agents, each called when it is due.
class Players {
 public:
  Players(const live::LiveDaemon& daemon, int nodes, Heard& heard) {
    for (int i = 0; i < nodes; ++i) {
      agents_.push_back(std::make_unique<PlayedAgent>(daemon.url(), i, daemon.join_token(), heard));
    }
    for (int t = 0; t < kThreads; ++t) threads_.emplace_back([this, t] { play(t); });
  }
  ~Players() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    for (const auto& agent : agents_) {
      if (agent->problem().empty()) continue;
      fmt::print("an agent's last problem: {}\n", agent->problem());
      break;
    }
  }
  std::int64_t calls() const { return calls_; }
  double late_s() const { return latest_; }  // the longest that a call had to wait here

 private:
  void play(int thread) {
    while (!stop_) {
      PlayedAgent* next = nullptr;
      for (std::size_t i = static_cast<std::size_t>(thread); i < agents_.size(); i += kThreads) {
        if (next == nullptr || agents_[i]->due() < next->due()) next = agents_[i].get();
      }
      if (next == nullptr) return;  // there are fewer nodes than threads
      const auto now = Clock::now();
      if (next->due() > now) {
        std::this_thread::sleep_for(
            std::min<Clock::duration>(next->due() - now, std::chrono::milliseconds(50)));
        continue;
      }
      double late = std::chrono::duration<double>(now - next->due()).count();
      double most = latest_;
      while (late > most && !latest_.compare_exchange_weak(most, late)) {
      }
      next->call();
      ++calls_;
    }
  }

  std::vector<std::unique_ptr<PlayedAgent>> agents_;
  std::vector<std::thread> threads_;
  std::atomic<std::int64_t> calls_{0};
  std::atomic<double> latest_{0};
  std::atomic<bool> stop_{false};
};

double processor_seconds(pid_t pid) {
  const Result<std::string> text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text.ok()) return 0;
  std::vector<std::string> words;
  for (const auto word : split(text->substr(text->rfind(')') + 2), ' ')) words.emplace_back(word);
  return (std::stod(words.at(11)) + std::stod(words.at(12))) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

double resident_mib(pid_t pid) {
  const Result<std::string> text = read_file(fmt::format("/proc/{}/status", pid));
  const std::size_t at = text.ok() ? text->find("VmHWM:") : std::string::npos;
  return at == std::string::npos ? 0 : std::stod(text->substr(at + 6)) / 1024;
}

bool within(const char* what, double value, const char* unit, double limit) {
  fmt::print("{:<58} {:>9.2f} {:<4} (limit {:g}: {:.0f} %)\n", what, value, unit, limit,
             100 * value / limit);
  return value <= limit;
}

int run(int nodes, int jobs) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("rubato-agents-{}", getpid())).string();
  const std::string programs =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  int exceeded = 0;
  {
    live::LiveDaemon daemon(programs + "/rubatod", folder + "/state", 0);
    if (!daemon.start()) {
      fmt::print("the daemon does not start; see {}\n", daemon.log_file());
      return 1;
    }
    Heard heard;
    auto begin = Clock::now();
    Players players(daemon, nodes, heard);
    const auto cluster = [&] { return daemon.get("/api/v1/cluster").value_or(json::object()); };
    if (!live::wait_until(
            [&] { return cluster().value("devices", 0) == nodes * kDevicesPerNode; })) {
      fmt::print("only {} of {} devices joined\n", cluster().value("devices", 0),
                 nodes * kDevicesPerNode);
      return 1;
    }
    fmt::print("{} nodes with {} devices joined in {:.1f} s\n", nodes, nodes * kDevicesPerNode,
               seconds_since(begin));
    std::fflush(stdout);
    const auto submit = [&](int number) {
      return daemon.post("/api/v1/jobs",
                         {{"run", {"/bin/true", std::to_string(number)}},
                          {"name", fmt::format("job-{}", number)},
                          {"devices", fmt::format("1..{}", number % 4 == 0 ? 16 : 8)},
                          {"logical_workers", 16}},
                         fmt::format("job-{}", number));
    };
    begin = Clock::now();
    for (int i = 0; i < jobs; ++i) {
      if (!submit(i)) fmt::print("job {} was not accepted\n", i);
    }
    fmt::print("{} jobs submitted in {:.1f} s\n", jobs, seconds_since(begin));
    std::fflush(stdout);
    begin = Clock::now();
    const bool all = live::wait_until([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return static_cast<int>(heard.all().size()) >= jobs;
    });
    fmt::print("{} of them were ordered to run after {:.1f} s more\n", heard.all().size(),
               seconds_since(begin));
    std::fflush(stdout);
    if (!all) ++exceeded;
    std::this_thread::sleep_for(std::chrono::duration<double>(kWarmUp));

    const double used_before = processor_seconds(daemon.pid());
    const std::int64_t calls_before = players.calls();
    begin = Clock::now();
    for (int i = 0; i < kDecisions; ++i) {
      const auto until =
          begin + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double>(kMeasured * (i + 1) / kDecisions));
      if (!submit(jobs + i)) fmt::print("job {} was not accepted\n", jobs + i);
      std::this_thread::sleep_until(until);
    }
    const double took = seconds_since(begin);
    const auto calls = static_cast<double>(players.calls() - calls_before);
    const double used = processor_seconds(daemon.pid()) - used_before;
    live::wait_until([&] { return static_cast<int>(heard.all().size()) >= jobs + kDecisions; },
                     std::chrono::seconds(30));

    std::map<JobNumber, double> granted;
    for (const control::Event& event : daemon.events()) {
      if (event.type == "granted" && event.body.value("devices", 0) > 0) {
        granted.try_emplace(event.job, event.at);
      }
    }
    std::vector<double> reached;
    for (const auto& [job, at] : heard.all()) {
      if (granted.contains(job)) reached.push_back(at - granted.at(job));
    }
    std::sort(reached.begin(), reached.end());
    if (reached.empty()) return 1;
    fmt::print(
        "{:.0f} calls per second for {:.0f} s; the daemon used {:.0f} % of a processor; the "
        "longest "
        "a call waited in the playing process: {:.2f} s\n\n",
        calls / took, took, 100 * used / took, players.late_s());
    exceeded += within("processor time per call, all of the daemon's work included",
                       1000 * used / calls, "ms", kSyncLimit)
                    ? 0
                    : 1;
    fmt::print("{:<58} {:>9.2f} s\n", "a decision reaches its node: median",
               percentile_sorted(reached, 50));
    exceeded += within("a decision reaches its node: the slowest", reached.back(), "s", kReachLimit)
                    ? 0
                    : 1;
    exceeded += within("most resident memory of the daemon", resident_mib(daemon.pid()), "MiB",
                       kMemoryLimit)
                    ? 0
                    : 1;
  }
  std::filesystem::remove_all(folder);
  return exceeded == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int jobs = argc > 2 ? std::atoi(argv[2]) : 2000;
  return rubato::bench::run(nodes, jobs);
}
