// One job of the local executor. Observes the job's folder and processes, and takes the next step
// towards what is wanted.
//
//   idle ──start()──▶ starting ──handed over──▶ running ──lock free, workers gone, retired──▶ idle
//
// From writing supervise.json until a successful retire() the job holds devices, even if this
// object is destroyed: a later object finds them in the folder (adopt).
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/event_tail.h"
#include "control/job_errors.h"
#include "control/job_progress.h"
#include "control/local_executor.h"
#include "control/upload_unpack.h"
#include "elastic/job/job_folder.h"
#include "elastic/launch/launcher.h"

namespace rubato::control {

using DeviceSet = std::set<std::string>;

// The contents of a launcher's status.json (elastic/launch/launcher.h).
struct LauncherStatus {
  bool known = false;  // the file exists and is readable
  std::string state;
  std::string message;
  std::int64_t target = 0;  // version that it obeys; 0: it has not read one yet
  DeviceSet devices;        // devices that it keeps
  DeviceSet in_use;         // devices of its live workers
  LocalExecutor::Share share{};
};

class SupervisedJob {
 public:
  SupervisedJob(JobNumber number, std::string folder, const LocalExecutorOptions& options);
  SupervisedJob(const SupervisedJob&) = delete;
  SupervisedJob& operator=(const SupervisedJob&) = delete;
  ~SupervisedJob();

  void want(const JobDocument& document, int devices, std::int64_t batch);
  // `at_once`: its processes are killed, not asked to end.
  void cancel(bool at_once = false);
  // Starts reading events.jsonl at this offset. An earlier object reported the lines before it.
  void go_on_at(std::int64_t events_offset);
  std::int64_t events_offset() const { return events_.offset(); }  // after the last line reported
  // Takes over what an earlier daemon left. `started`: it knew processes of the job, or may have
  // started some. Call `want` or `cancel` before.
  // `told` devices are what it held by the last notice.
  void adopt(bool started, int told);
  // If the job occupies a device that is not in the list, it stops first, and starts again on
  // others if it is still wanted.
  void leave_missing(const std::vector<std::string>& present);

  // Call these repeatedly, in this order:
  void observe(std::vector<Notice>& notices);
  void give_back();  // shrinks or stops, if that is wanted
  // Whether the job waits for devices, and how many it is missing.
  bool wants_more() const;
  int missing() const { return std::max(0, wanted_ - static_cast<int>(held_.size())); }
  void take(const std::vector<std::string>& devices, std::vector<Notice>& notices);
  void tell_held(std::vector<Notice>& notices);
  // What is wrong with the job's files, once per kind.
  void tell_errors(std::vector<Notice>& notices);
  JobErrors& errors() { return errors_; }
  // Reading its folder threw: nothing in it is read any more, and the job ends as failed.
  void distrust(const std::string& problem, std::vector<Notice>& notices);
  bool distrusted() const { return distrusted_; }

  const DeviceSet& held() const { return held_; }
  LocalExecutor::Share share() const { return status_.share; }
  // True if the job has no processes and none are wanted: nothing happens until the next want().
  bool at_rest() const { return state_ == State::kIdle && !asked_ && told_held_ == 0; }

 private:
  enum class State { kIdle, kStarting, kRunning };
  using Clock = std::chrono::steady_clock;

  // Whether it may have workers on other nodes, too.
  bool spread() const;
  elastic::LaunchOptions launch_options() const;
  void describe_program(elastic::LaunchOptions& launch) const;
  Status check_startable() const;
  // True once the job's upload, if it has one, is unpacked.
  bool unpacked(std::vector<Notice>& notices);
  Status make_ready(const std::vector<std::string>& devices);
  Status write_target(int workers, const DeviceSet& devices, bool stop);
  void mend_folder() const;
  std::string outputs_folder() const;
  Status make_outputs() const;
  void reap_starter();
  void read_status();
  void forget_status();
  DeviceSet devices_in(const nlohmann::json* list) const;
  void check_locks();
  void end_unseen();
  void expect_starter();
  // Whether it is certain that no process is left although no lock is held.
  bool swept();
  // Nothing if there is none; an error if there is one that cannot be read.
  Result<std::optional<nlohmann::json>> result() const;
  void count_held();
  // False if there is more to read. A call reads a bounded number of bytes.
  bool read_events(std::vector<Notice>& notices);
  bool read_last_events(std::vector<Notice>& notices);  // when its processes have ended
  void registry_broken(const Error& error);
  bool all_gone();
  void remove_memory() const;
  void escalate();
  double grace_s() const;
  void kill_all();
  void conclude(std::vector<Notice>& notices, bool just_ended);
  void vanished(std::vector<Notice>& notices, const std::string& why);
  void give_up(std::vector<Notice>& notices, const std::string& message);
  void tell(std::vector<Notice>& notices, Notice::Kind kind, nlohmann::json body = {}) const;
  bool should_stop() const { return wanted_ == 0 || cancelled_ || leaves_missing_; }

  const JobNumber number_;
  const elastic::JobFolder folder_;
  const LocalExecutorOptions& options_;
  JobDocument document_;
  int wanted_ = 0;
  std::int64_t batch_ = 0;
  bool cancelled_ = false;
  bool at_once_ = false;         // with cancelled_: there is nothing to save
  bool leaves_missing_ = false;  // until its processes are gone
  bool asked_ = false;           // a want() or cancel() whose end has not been reported
  State state_ = State::kIdle;
  pid_t starter_ = 0;  // to be reaped
  Clock::time_point started_at_;
  std::unique_ptr<elastic::Registry> registry_;
  UploadUnpack unpack_;

  // --- What it holds ---
  // The devices of all targets that the supervisor may be obeying, by version.
  std::map<std::int64_t, DeviceSet> targets_;
  int target_workers_ = 0;  // of the newest target
  std::int64_t target_batch_ = 0;
  DeviceSet held_;
  int told_held_ = 0;

  // --- Its end ---
  std::optional<Clock::time_point> stop_since_;  // when a stop was requested
  bool terminated_ = false;
  Clock::time_point killed_at_;
  std::optional<Clock::time_point> orphaned_since_;  // workers without a supervisor
  int restarts_ = 0;                                 // without progress
  std::int64_t best_step_ = 0;                       // when its processes last died
  Clock::time_point next_start_;
  std::string restart_reason_;

  // --- What its folder says ---
  struct FileVersion {
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const FileVersion&) const = default;
  } status_version_;
  LauncherStatus status_;
  EventTail events_;
  JobProgress progress_;
  JobErrors errors_;
  LineBudget budget_;
  std::int64_t read_after_end_ = 0;  // bytes of events.jsonl
  std::int64_t target_version_ = 0;  // newest target in the registry
  std::string broken_;               // why its processes are being ended; empty: they are not
  int times_broken_ = 0;
  bool distrusted_ = false;
  Clock::time_point next_lock_check_;
  std::map<std::string, std::uint64_t> locks_;  // inodes of its locks, as first seen
  bool adopted_ = false;                        // an earlier daemon started its processes
  Clock::time_point starter_until_{};           // an adopted job: its supervisor may be starting
  bool swept_ = false;
};

}  // namespace rubato::control
