// Runs jobs of the toy program on an executor with named devices. Every poll checks the invariants
// against the processes that really exist.
//
// A job takes minutes, so that a test can disturb it no matter how busy the machine is, until
// finish() makes the remaining steps fast. In every test, a worker that a busy machine does not
// schedule for long may be replaced (a view with the cause "failure", which repeats a step) or may
// host fewer logical workers for a while ("straggler", "rebalance").
#pragma once

#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/local_executor.h"
#include "control/process_lock.h"
#include "elastic/job/job_folder.h"
#include "elastic/job_runner.h"
#include "test_paths.h"

namespace rubato::control {

using elastic::kPatience;

// A live process of a job, as its environment describes it.
struct LiveProcess {
  pid_t pid = 0;
  std::string folder;  // of its job
  std::string device;
};

inline std::optional<LiveProcess> live_process(pid_t pid) {
  const Result<std::string> text = read_file(fmt::format("/proc/{}/environ", pid));
  if (!text.ok() || text->empty()) return std::nullopt;  // zombies have none
  LiveProcess process{.pid = pid};
  for (const std::string_view variable : split(*text, '\0')) {
    if (variable.starts_with("RUBATO_JOB_DIR=")) process.folder = variable.substr(15);
    if (variable.starts_with("CUDA_VISIBLE_DEVICES=")) process.device = variable.substr(21);
  }
  if (process.folder.empty()) return std::nullopt;
  return process;
}

inline std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = readdir(folder)) {
    const auto pid = static_cast<pid_t>(parse_int(entry->d_name).value_or(0));
    if (pid > 0) found.push_back(pid);
  }
  closedir(folder);
  return found;
}

// Processes of jobs below root that were all alive at the same moment: those that still exist after
// the last one was found.
inline std::vector<LiveProcess> live_processes(const std::string& root) {
  std::vector<LiveProcess> seen;
  for (const pid_t pid : all_processes()) {
    const std::optional<LiveProcess> process = live_process(pid);
    if (process && process->folder.starts_with(root + "/")) seen.push_back(*process);
  }
  std::vector<LiveProcess> alive;
  for (const LiveProcess& process : seen) {
    if (live_process(process.pid)) alive.push_back(process);
  }
  return alive;
}

// Only the workers, which lead a process group in their supervisor's session, without processes
// that they started.
inline std::vector<LiveProcess> live_workers(const std::string& root) {
  std::vector<LiveProcess> workers = live_processes(root);
  std::erase_if(workers, [](const LiveProcess& process) {
    return getpgid(process.pid) != process.pid || getsid(process.pid) == process.pid;
  });
  return workers;
}

// Processes `PROGRAM supervise FOLDER` for folders below root. Zombies have no command line. For a
// moment there are more: the process that hands over to the supervisor, and workers that have not
// yet become their program.
inline std::vector<pid_t> supervisors(const std::string& root) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const Result<std::string> text = read_file(fmt::format("/proc/{}/cmdline", pid));
    if (!text.ok()) continue;
    const auto words = split(*text, '\0');
    if (words.size() > 2 && words[1] == "supervise" && words[2].starts_with(root + "/")) {
      found.push_back(pid);
    }
  }
  return found;
}

class ExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-exec-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    options_.folder = root_ + "/jobs";
    options_.supervisor = test_paths::program("test_supervisor");
    options_.machine = {.type = "toy", .devices = 4, .visible = {"A", "B", "C", "D"}};
    options_.restart_after_s = 0.05;
  }
  void TearDown() override {
    executor_.reset();
    // A supervisor that has given back all its devices is about to end.
    std::vector<pid_t> left = supervisors(root_);
    for (int i = 0; i < 500 && !left.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      left = supervisors(root_);
    }
    for (const pid_t pid : left) {
      const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
      ADD_FAILURE() << "a supervisor is left: " << (stat.ok() ? *stat : "gone by now");
      kill(pid, SIGKILL);
    }
    EXPECT_TRUE(live_processes(root_).empty()) << "processes are left";
    for (const LiveProcess& process : live_processes(root_)) kill(process.pid, SIGKILL);
    if (!HasFailure()) {
      std::filesystem::remove_all(root_);
    } else {
      ADD_FAILURE() << "files are kept in " << root_ << "\n" << told();
    }
  }

  void start_executor() {
    auto made = LocalExecutor::make(options_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    executor_ = std::move(*made);
  }
  // The daemon dies. Another one starts and knows what was wanted last.
  void restart_executor() {
    executor_.reset();
    start_executor();
    for (const auto& [number, record] : records_) {
      const Status adopted = executor_->adopt(record);
      ASSERT_TRUE(adopted.ok()) << adopted.error().message;
    }
  }

  JobDocument toy(int steps, int logical = 4, int compute_us = 20000) const {
    JobDocument document;
    document.program = elastic::ProgramKind::kRuntime;
    document.env["TOY_HURRY_FILE"] = hurry_file();
    document.name = "toy";
    // The time must come last; see undisturbed().
    document.run = {test_paths::program("toy_train"), "--steps", std::to_string(steps),
                    "--compute-us", std::to_string(compute_us)};
    document.max_devices = document.logical_workers = logical;
    return document;
  }
  void want(JobNumber job, const JobDocument& document, int devices) {
    JobRecord& record = records_[job];
    record.number = job;
    record.document = document;
    record.granted = devices;
    record.phase = devices > 0 ? Phase::kRunning : Phase::kPaused;
    record.nodes = here(devices);
    const Status wanted = executor_->want(job, document, record.nodes, 0);
    ASSERT_TRUE(wanted.ok()) << wanted.error().message;
  }
  void want(JobNumber job, int devices) { want(job, records_[job].document, devices); }

  // So many devices of the machine.
  JobPlacement here(int devices) const {
    if (devices == 0) return {};
    return {{options_.machine.name, options_.machine.type, devices}};
  }

  // Polls once and checks everything that must always hold.
  void look() {
    for (Notice& notice : executor_->poll()) {
      JobRecord& record = records_[notice.job];
      if (notice.kind == Notice::Kind::kHeld) {
        EXPECT_EQ(notice.nodes, here(notice.devices));
        record.held = notice.devices;
        record.held_nodes = notice.nodes;
      }
      // Keeps the offset like the daemon's state (event_types.cpp).
      if (notice.kind == Notice::Kind::kEvent) {
        record.progress["events_offset"] = notice.body["events_offset"];
      }
      if (notice.kind == Notice::Kind::kProgress) record.progress.update(notice.body);
      if (notice.kind == Notice::Kind::kFinished) record.phase = Phase::kFinished;
      if (notice.kind == Notice::Kind::kFailed) record.phase = Phase::kFailed;
      if (ended(record.phase)) record.granted = 0;
      notices_.push_back(std::move(notice));
    }
    EXPECT_LE(executor_->held(), options_.machine.devices);
    check_processes();
  }
  void check_processes() const {
    const std::vector<LiveProcess> workers = live_workers(root_);
    EXPECT_LE(workers.size(), static_cast<std::size_t>(options_.machine.devices));
    std::set<std::string> devices;
    for (const LiveProcess& worker : workers) {
      EXPECT_TRUE(devices.insert(worker.device).second)
          << "two processes on device " << worker.device << ", one of " << worker.folder;
    }
  }
  // Polls until the condition holds. False after kPatience.
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (HasFailure() || std::chrono::steady_clock::now() > deadline) return false;
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  std::string hurry_file() const { return root_ + "/hurry"; }
  // Makes the remaining steps of all jobs take no time.
  void hurry() const { ASSERT_TRUE(write_file(hurry_file(), "").ok()); }
  // Lets the job finish quickly and waits for its end.
  bool finish(JobNumber job) {
    hurry();
    return until([&] { return finished(job); });
  }

  std::vector<Notice> told(JobNumber job, Notice::Kind kind) const {
    std::vector<Notice> found;
    for (const Notice& notice : notices_) {
      if (notice.job == job && notice.kind == kind) found.push_back(notice);
    }
    return found;
  }
  bool was_told(JobNumber job, Notice::Kind kind) const { return !told(job, kind).empty(); }
  std::string told() const {
    static constexpr const char* kNames[] = {"held",     "event",  "progress", "stopped",
                                             "finished", "failed", "error",    "restarted"};
    std::string text;
    for (const Notice& notice : notices_) {
      text += fmt::format("{} {} {} {}\n", notice.job, kNames[static_cast<int>(notice.kind)],
                          notice.devices, compact_json(notice.body));
    }
    return text;
  }
  std::int64_t step(JobNumber job) const {
    const std::vector<Notice> all = told(job, Notice::Kind::kProgress);
    return all.empty() ? 0 : all.back().body.value("step", std::int64_t{0});
  }
  int workers(JobNumber job) const {
    const std::vector<Notice> all = told(job, Notice::Kind::kProgress);
    return all.empty() ? 0 : all.back().body.value("workers", 0);
  }
  bool finished(JobNumber job) const { return was_told(job, Notice::Kind::kFinished); }
  std::string hash(JobNumber job) const {
    const std::vector<Notice> all = told(job, Notice::Kind::kFinished);
    return all.empty() ? "" : all.back().body.value("state_sha256", "");
  }
  pid_t supervisor_pid(JobNumber job) const {
    const Result<std::string> text = read_file(executor_->job_folder(job) + "/supervisor.lock");
    return text.ok() ? static_cast<pid_t>(std::atoi(text->c_str())) : 0;
  }
  std::vector<LiveProcess> workers_of(JobNumber job) const {
    std::vector<LiveProcess> found;
    for (LiveProcess& worker : live_workers(root_)) {
      if (worker.folder == executor_->job_folder(job)) found.push_back(std::move(worker));
    }
    return found;
  }
  // The bits of the job without disturbances. They do not depend on how long a step takes.
  std::string undisturbed(JobDocument document) {
    constexpr JobNumber kReference = 1000;
    document.run.back() = "0";
    want(kReference, document, 1);
    EXPECT_TRUE(until([&] { return finished(kReference) && executor_->held() == 0; }));
    return hash(kReference);
  }

  std::string root_;
  LocalExecutorOptions options_;
  std::unique_ptr<LocalExecutor> executor_;
  std::map<JobNumber, JobRecord> records_;
  std::vector<Notice> notices_;
};

}  // namespace rubato::control
