#include "control/supervised_job.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "base/file.h"
#include "control/isolation.h"
#include "control/job_files.h"
#include "control/process_killer.h"
#include "control/supervise.h"
#include "elastic/launch/worker_processes.h"
#include "elastic/memory/shared_memory.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr double kPatienceWithStarter = 30;
constexpr double kLongestPause = 60;
constexpr double kKillEvery = 0.5;

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(value));
}

}  // namespace

SupervisedJob::SupervisedJob(JobNumber number, std::string folder,
                             const LocalExecutorOptions& options)
    : number_(number),
      folder_(std::move(folder)),
      options_(options),
      events_(folder_.path(), "events.jsonl"),
      progress_(folder_.path()) {}

SupervisedJob::~SupervisedJob() {
  if (starter_ > 0) waitpid(starter_, nullptr, 0);  // exits within moments
}

void SupervisedJob::tell(std::vector<Notice>& notices, Notice::Kind kind, json body) const {
  if (body.is_null()) body = json::object();
  notices.push_back({.job = number_,
                     .kind = kind,
                     .devices = static_cast<int>(held_.size()),
                     .body = std::move(body)});
}

void SupervisedJob::tell_held(std::vector<Notice>& notices) {
  if (static_cast<int>(held_.size()) == told_held_) return;
  told_held_ = static_cast<int>(held_.size());
  tell(notices, Notice::Kind::kHeld);
}

void SupervisedJob::want(const JobDocument& document, int devices, std::int64_t batch) {
  document_ = document;
  if (devices > 0 && wanted_ == 0) next_start_ = {};
  wanted_ = devices;
  batch_ = batch;
  asked_ = true;
}

void SupervisedJob::cancel(bool at_once) {
  cancelled_ = true;
  at_once_ = at_once_ || at_once;
  asked_ = true;
}

void SupervisedJob::leave_missing(const std::vector<std::string>& present) {
  leaves_missing_ = std::any_of(held_.begin(), held_.end(), [&](const std::string& device) {
    return std::find(present.begin(), present.end(), device) == present.end();
  });
}

// --- What happened to the job --------------------------------------------------------------------

void SupervisedJob::reap_starter() {
  if (starter_ <= 0) return;
  int status = 0;
  if (waitpid(starter_, &status, WNOHANG) == 0) {
    // This is not our supervisor program, or it hangs while starting.
    if (seconds_since(started_at_) > kPatienceWithStarter) kill(starter_, SIGKILL);
    return;
  }
  starter_ = 0;
  state_ = State::kRunning;  // its lock shows whether it really runs
}

void SupervisedJob::observe(std::vector<Notice>& notices) {
  if (state_ == State::kIdle) {
    // Lines that an earlier daemon may not have reported.
    if (asked_ && !read_last_events(notices)) return;
    tell_held(notices);  // it may have ended while nobody looked
    if (!asked_ || !(should_stop() || status_.known)) return;
    conclude(notices, false);
    if (!asked_) remove_memory();
    return;
  }
  reap_starter();
  const bool gone = state_ == State::kRunning && all_gone();
  read_status();
  if (gone && !read_last_events(notices)) return;
  if (!gone) {
    read_events(notices);
    count_held();
    if (registry_ && progress_.look(*registry_) && !cancelled_) {
      tell(notices, Notice::Kind::kProgress, progress_.body());
    }
    tell_held(notices);
    return;
  }
  state_ = State::kIdle;
  leaves_missing_ = false;
  progress_.ended();
  targets_.clear();
  count_held();
  conclude(notices, true);
  // The next supervisor, if there is one, finds there how far the job had come.
  if (restart_reason_.empty()) remove_memory();
  tell_held(notices);
}

// Removes the shared memory that workers left behind.
// Only that of this node: another one may be on the same machine.
void SupervisedJob::remove_memory() const {
  const std::string prefix = memory_prefix(folder_.path());
  if (!prefix.empty()) elastic::remove_segments(prefix + options_.node_of_jobs + ".");
}

// No process of the job runs now or will run later.
bool SupervisedJob::all_gone() {
  if (options_.killer->pending(folder_.path())) return false;
  if (is_supervised(folder_.path())) return false;
  if (Clock::now() < starter_until_) return false;
  if (has_workers(folder_.path())) {
    if (!orphaned_since_) orphaned_since_ = Clock::now();
    if (seconds_since(*orphaned_since_) > options_.kill_after_s) kill_all();
    return false;
  }
  orphaned_since_.reset();
  // In this order: a supervisor that an earlier daemon started a moment ago may be about to take
  // its lock. Once the job is retired it does not start anything, so the sweep cannot end the
  // program that it would have started.
  return retire(folder_.path()) && swept();
}

void SupervisedJob::conclude(std::vector<Notice>& notices, bool just_ended) {
  const std::string broken = std::exchange(broken_, std::string());
  const bool stop_was_asked = stop_since_.has_value() && broken.empty();
  stop_since_.reset();
  terminated_ = false;
  const std::string state = status_.state;
  const std::string message = status_.message;
  forget_status();
  if (cancelled_) {
    asked_ = false;
    tell(notices, Notice::Kind::kStopped);
    return;
  }
  Result<std::optional<json>> delivered = result();
  if (!delivered.ok() && delivered.error().code == ErrorCode::kInvalidInput) {
    errors_.note("result", "result.json", delivered.error().message + "; the job has failed");
    give_up(notices, "it ended with a result that cannot be read: " + delivered.error().message);
    return;
  }
  if (delivered.ok() && delivered->has_value()) {
    asked_ = false;
    wanted_ = 0;
    tell(notices, Notice::Kind::kFinished, std::move(**delivered));
    return;
  }
  // Other nodes have the result, or begin the job again.
  if (spread() && broken.empty() && (state == "finished" || state == "gone")) {
    asked_ = false;
    wanted_ = 0;
    tell(notices, Notice::Kind::kStopped, {{"left", state}});
    return;
  }
  if (state == "failed" && broken.empty()) {
    asked_ = false;
    wanted_ = 0;
    tell(notices, Notice::Kind::kFailed, {{"message", message}});
    return;
  }
  if (wanted_ == 0) {
    asked_ = false;
    tell(notices, Notice::Kind::kStopped);
    return;
  }
  // The job was wanted again while it was stopping or after it had stopped.
  if (stop_was_asked || (state == "stopped" && !just_ended)) return;
  std::string why = message;
  if (!broken.empty()) why = broken;
  if (!broken.empty() && ++times_broken_ > options_.most_restarts) {
    give_up(notices, fmt::format("its registry was broken {} times; the last time: {}",
                                 times_broken_, broken));
    return;
  }
  if (why.empty()) why = last_line_of(folder_.path(), "supervisor.log");
  vanished(notices, why.empty() ? "it was killed" : why);
}

void SupervisedJob::vanished(std::vector<Notice>& notices, const std::string& why) {
  if (progress_.steps() > best_step_) restarts_ = 0;
  best_step_ = std::max(best_step_, progress_.steps());
  if (restarts_ >= options_.most_restarts) {
    const std::string message = fmt::format(
        "its supervisor died {} times without progress; the last time: {}", restarts_ + 1, why);
    give_up(notices, message);
    return;
  }
  const double pause = std::ldexp(options_.restart_after_s, restarts_);
  next_start_ = Clock::now() + seconds(std::min(pause, kLongestPause));
  ++restarts_;
  restart_reason_ = why;
}

void SupervisedJob::give_up(std::vector<Notice>& notices, const std::string& message) {
  static_cast<void>(write_final_status(folder_.path(), "failed", message));
  asked_ = false;
  wanted_ = 0;
  tell(notices, Notice::Kind::kFailed, {{"message", message}});
}

// --- What its program is told ---

void SupervisedJob::describe_program(elastic::LaunchOptions& launch) const {
  launch.settings.program = document_.program;
  launch.settings.retries = document_.retries;
  launch.settings.grace_s = document_.grace_s;
  launch.settings.encrypt = document_.encrypt.value_or(false);
  launch.processes.retry_after_s = options_.restart_after_s;
  // After the owner's variables, because these are true.
  launch.processes.environment.emplace_back("RUBATO_JOB_ID", job_name_of(number_));
  launch.processes.environment.emplace_back("RUBATO_JOB_NAME", launch.settings.name);
  launch.processes.environment.emplace_back("RUBATO_OUTPUT_DIR", outputs_folder());
}

// --- What the job should have --------------------------------------------------------------------

void SupervisedJob::give_back() {
  if (state_ != State::kIdle && at_once_) return kill_all();
  if (state_ == State::kIdle || !registry_) return;
  if (should_stop()) {
    if (!stop_since_ && write_target(target_workers_, {}, true).ok()) stop_since_ = Clock::now();
    if (stop_since_) escalate();
    return;
  }
  if (stop_since_) {
    escalate();
    return;
  }
  if (wanted_ < target_workers_ || (wanted_ == target_workers_ && batch_ != target_batch_)) {
    static_cast<void>(write_target(wanted_, held_, false));  // retried at the next poll
  }
}

// How long the supervisor gives a program that is not a worker before it kills it.
double SupervisedJob::grace_s() const {
  const bool worker =
      document_.program == elastic::ProgramKind::kRuntime ||
      (document_.program == elastic::ProgramKind::kUnknown && is_file(folder_.hello_file()));
  return worker ? 0 : document_.grace_s;
}

void SupervisedJob::escalate() {
  // Workers that leave while others train on wait for a change that is being prepared.
  const double patience = options_.term_after_s * (spread() && !cancelled_ ? 3 : 1);
  const double passed = seconds_since(*stop_since_) - grace_s();
  if (passed > patience + options_.kill_after_s) {
    kill_all();
  } else if (passed > patience && !terminated_) {
    terminated_ = signal_supervisor(folder_.path(), SIGTERM);
  }
}

// Searches all processes of the machine, so it does not run at every poll.
void SupervisedJob::kill_all() {
  if (seconds_since(killed_at_) < kKillEvery) return;
  killed_at_ = Clock::now();
  options_.killer->kill(folder_.path());
}

bool SupervisedJob::unpacked(std::vector<Notice>& notices) {
  if (document_.upload.empty()) return true;
  std::optional<Status> done = make_directories(folder_.path());
  if (done->ok()) done = unpack_.look(options_.uploads, document_.upload, folder_.path());
  if (!done || done->ok()) return done.has_value();
  if (done->error().code == ErrorCode::kIo) {
    vanished(notices, done->error().message);  // a full disk, perhaps
  } else {
    give_up(notices, done->error().message);
  }
  return false;
}

bool SupervisedJob::wants_more() const {
  if (should_stop() || stop_since_) return false;
  if (state_ == State::kIdle) return Clock::now() >= next_start_;
  return registry_ != nullptr && wanted_ > target_workers_;
}

void SupervisedJob::take(const std::vector<std::string>& devices, std::vector<Notice>& notices) {
  if (state_ != State::kIdle) {
    DeviceSet all = held_;
    all.insert(devices.begin(), devices.end());
    static_cast<void>(write_target(wanted_, all, false));  // retried at the next poll
    tell_held(notices);
    return;
  }
  if (!unpacked(notices)) return;
  // Trying again would not help.
  if (const Status possible = check_startable(); !possible.ok()) {
    give_up(notices, possible.error().message);
    return;
  }
  const Status ready = make_ready(devices);
  Result<pid_t> starter = 0;
  if (ready.ok()) {
    const Result<Confinement> how =
        confinement_of(options_.isolation, document_, options_.machine, folder_.path());
    starter = how.ok() ? start_supervisor(options_.supervisor, folder_.path(), *how) : how.error();
  }
  if (!ready.ok() || !starter.ok()) {
    if (!retire(folder_.path())) {
      state_ = State::kRunning;  // an earlier supervisor is running
      return;
    }
    state_ = State::kIdle;
    targets_.clear();
    count_held();
    vanished(notices, ready.ok() ? starter.error().message : ready.error().message);
    return;
  }
  starter_ = *starter;
  started_at_ = Clock::now();
  if (!restart_reason_.empty()) {
    tell(notices, Notice::Kind::kRestarted,
         {{"message", std::exchange(restart_reason_, std::string())}});
  }
  tell_held(notices);
}

}  // namespace rubato::control
