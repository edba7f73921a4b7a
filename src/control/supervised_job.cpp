#include "control/supervised_job.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "control/supervise.h"
#include "elastic/board.h"
#include "elastic/shared_memory.h"
#include "elastic/worker_processes.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr double kPatienceWithStarter = 30;
constexpr double kLongestPause = 60;

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(value));
}

DeviceSet strings_of(const json& array) {
  DeviceSet strings;
  if (!array.is_array()) return strings;
  for (const json& entry : array) {
    if (entry.is_string()) strings.insert(entry.get<std::string>());
  }
  return strings;
}

template <typename T>
T value_or(const json& object, const char* name, T otherwise) {
  try {
    return object.is_object() ? object.value(name, otherwise) : otherwise;
  } catch (const json::exception&) {
    return otherwise;
  }
}

}  // namespace

SupervisedJob::SupervisedJob(JobNumber number, std::string folder,
                             const LocalExecutorOptions& options)
    : number_(number),
      folder_(std::move(folder)),
      options_(options),
      events_(folder_.events_file()) {}

SupervisedJob::~SupervisedJob() {
  if (starter_ > 0) waitpid(starter_, nullptr, 0);  // ends within moments
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

void SupervisedJob::cancel() {
  cancelled_ = true;
  asked_ = true;
}

// The one place where a job's document becomes settings of the runtime.
elastic::LaunchOptions SupervisedJob::launch_options() const {
  elastic::LaunchOptions launch{.folder = folder_.path(), .command = document_.run};
  elastic::JobSettings& settings = launch.settings;
  settings.name = document_.name;
  if (settings.name.empty()) {
    settings.name = std::filesystem::path(document_.run.front()).filename().string();
  }
  settings.logical_workers = document_.resolved_logical_workers();
  settings.max_workers =
      std::min({document_.max_devices, settings.logical_workers, elastic::kMaxWorkers});
  settings.checkpoint_every_s = document_.checkpoint_every_s;
  settings.checkpoint_keep = document_.checkpoint_keep;
  elastic::ProcessOptions& processes = launch.processes;
  processes.directory = document_.dir.empty() ? folder_.path() + "/work" : document_.dir;
  processes.environment.assign(document_.env.begin(), document_.env.end());
  if (!options_.machine.visible.empty()) processes.device_variable = "CUDA_VISIBLE_DEVICES";
  processes.core_files = false;
  processes.most_files = options_.worker_files;
  processes.most_memory_bytes = options_.worker_memory_bytes;
  processes.log_bytes = options_.log_bytes;
  processes.log_files = options_.log_files;
  processes.term_after_s = options_.term_after_s;
  processes.kill_after_s = options_.kill_after_s;
  return launch;
}

Status SupervisedJob::write_target(int workers, const DeviceSet& devices, bool stop) {
  Status changed = elastic::change_target(*registry_, [&](elastic::Target& target) {
    target.workers = workers;
    target.devices.assign(devices.begin(), devices.end());
    target.stop = stop;
    target.at = elastic::unix_seconds();
    return ok_status();
  });
  if (!changed.ok()) return changed;
  std::int64_t version = 0;
  const Result<elastic::Target> newest = elastic::newest_target(*registry_, &version);
  if (!newest.ok()) return newest.error();
  targets_[version] = devices;
  target_workers_ = workers;
  target_batch_ = batch_;
  count_held();
  return ok_status();
}

// --- What the folder says ------------------------------------------------------------------------

void SupervisedJob::adopt(std::int64_t events_offset) {
  events_ = EventTail(folder_.events_file(), events_offset);
  const Result<Supervision> order = read_supervision(folder_.path());
  auto registry = elastic::FileRegistry::open(folder_.registry_folder());
  if (registry.ok()) registry_ = std::move(*registry);
  // As long as it has not been retired it may run, or be about to.
  if (!order.ok() && order.error().code == ErrorCode::kNotFound) {
    read_status();
    return;
  }
  state_ = State::kRunning;
  if (!registry_) return;
  read_status();
  std::int64_t newest = 0;
  const Result<elastic::Target> target = elastic::newest_target(*registry_, &newest);
  if (!target.ok()) return;
  const auto obeyed = value_or(status_, "target", std::int64_t{0});
  const std::int64_t first = obeyed > 0 ? obeyed + 1 : order.ok() ? order->first_target : 1;
  for (std::int64_t version = first; version <= newest; ++version) {
    const Result<std::optional<std::string>> text = registry_->at(elastic::kTargetRecord, version);
    if (!text.ok() || !text->has_value()) continue;
    const json record = json::parse(**text, nullptr, false);
    targets_[version] = strings_of(record.is_object() ? record["devices"] : json());
  }
  target_workers_ = target->workers;
  if (target->stop) stop_since_ = Clock::now();
  count_held();
}

void SupervisedJob::ignore_earlier_events() {
  struct stat now {};
  if (stat(folder_.events_file().c_str(), &now) == 0) {
    events_ = EventTail(folder_.events_file(), now.st_size);
  }
}

void SupervisedJob::read_status() {
  struct stat now {};
  if (stat(folder_.status_file().c_str(), &now) != 0) {
    status_ = json();
    status_version_ = {};
    return;
  }
  const FileVersion version{now.st_ino, now.st_mtim.tv_sec * 1'000'000'000L + now.st_mtim.tv_nsec};
  if (version == status_version_) return;
  status_version_ = version;
  const Result<std::string> text = read_file(folder_.status_file());
  status_ = json::parse(text.ok() ? *text : "", nullptr, false);
  if (!status_.is_object()) status_ = json();
  // A status from before the first look at the target says nothing about devices.
  if (const auto obeyed = value_or(status_, "target", std::int64_t{0}); obeyed > 0) {
    targets_.erase(targets_.begin(), targets_.upper_bound(obeyed));
    kept_ = strings_of(status_.value("devices", json()));
  }
  processes_.clear();
  for (const json& worker : status_.value("workers", json::array())) {
    std::string device = value_or(worker, "device", std::string());
    if (!device.empty()) processes_.insert(std::move(device));
  }
}

void SupervisedJob::count_held() {
  held_.clear();
  if (state_ == State::kIdle) return;
  held_ = processes_;
  held_.insert(kept_.begin(), kept_.end());
  for (const auto& [version, devices] : targets_) held_.insert(devices.begin(), devices.end());
}

void SupervisedJob::read_events(std::vector<Notice>& notices) {
  for (EventTail::Line& line : events_.read()) {
    if (value_or(line.value, "type", std::string()) == "started") progress_.started(line.value);
    line.value["events_offset"] = line.end;
    tell(notices, Notice::Kind::kEvent, std::move(line.value));
  }
}

// --- What becomes of it --------------------------------------------------------------------------

void SupervisedJob::reap_starter() {
  if (starter_ <= 0) return;
  int status = 0;
  if (waitpid(starter_, &status, WNOHANG) == 0) {
    // Not our supervisor, or one that cannot even start.
    if (seconds_since(started_at_) > kPatienceWithStarter) kill(starter_, SIGKILL);
    return;
  }
  starter_ = 0;
  state_ = State::kRunning;  // whether it does is seen from its lock
}

void SupervisedJob::observe(std::vector<Notice>& notices) {
  if (state_ == State::kIdle) {
    if (asked_ && (should_stop() || status_.is_object())) conclude(notices, false);
    return;
  }
  reap_starter();
  const bool gone = state_ == State::kRunning && all_gone();
  read_status();
  read_events(notices);
  if (!gone) {
    count_held();
    if (registry_ && progress_.look(*registry_) && !cancelled_) {
      json body = progress_.body();
      body["events_offset"] = events_.offset();
      tell(notices, Notice::Kind::kProgress, std::move(body));
    }
    tell_held(notices);
    return;
  }
  state_ = State::kIdle;
  progress_.ended();
  targets_.clear();
  kept_.clear();
  processes_.clear();
  count_held();
  const Result<elastic::JobSettings> settings = folder_.read_settings();
  if (settings.ok()) elastic::remove_segments(fmt::format("rubato.{}.", settings->token));
  conclude(notices, true);
  tell_held(notices);
}

// Nobody runs, and nobody will.
bool SupervisedJob::all_gone() {
  if (is_supervised(folder_.path())) return false;
  if (has_workers(folder_.path())) {
    if (!orphaned_since_) orphaned_since_ = Clock::now();
    if (seconds_since(*orphaned_since_) > options_.kill_after_s) kill_supervised(folder_.path());
    return false;
  }
  orphaned_since_.reset();
  return retire(folder_.path());
}

void SupervisedJob::conclude(std::vector<Notice>& notices, bool just_ended) {
  const bool stop_was_asked = stop_since_.has_value();
  stop_since_.reset();
  terminated_ = false;
  const std::string state = value_or(status_, "state", std::string());
  const std::string message = value_or(status_, "message", std::string());
  status_ = json();
  status_version_ = {};
  if (cancelled_) {
    asked_ = false;
    tell(notices, Notice::Kind::kStopped);
    return;
  }
  if (const Result<std::string> text = read_file(folder_.result_file()); text.ok()) {
    json result = json::parse(*text, nullptr, false);
    asked_ = false;
    wanted_ = 0;
    tell(notices, Notice::Kind::kFinished, result.is_object() ? std::move(result) : json::object());
    return;
  }
  if (state == "failed") {
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
  // Wanted again while it stopped, or some time after.
  if (stop_was_asked || (state == "stopped" && !just_ended)) return;
  std::string why = message;
  if (why.empty()) why = elastic::last_line(folder_.path() + "/supervisor.log");
  vanished(notices, why.empty() ? "it was killed" : why);
}

void SupervisedJob::vanished(std::vector<Notice>& notices, const std::string& why) {
  if (progress_.steps() > best_step_) restarts_ = 0;
  best_step_ = std::max(best_step_, progress_.steps());
  if (restarts_ >= options_.most_restarts) {
    const std::string message = fmt::format(
        "its supervisor vanished {} times without progress; the last time: {}", restarts_ + 1, why);
    static_cast<void>(write_final_status(folder_.path(), "failed", message));
    asked_ = false;
    wanted_ = 0;
    tell(notices, Notice::Kind::kFailed, {{"message", message}});
    return;
  }
  const double pause = std::ldexp(options_.restart_after_s, restarts_);
  next_start_ = Clock::now() + seconds(std::min(pause, kLongestPause));
  ++restarts_;
  restart_reason_ = why;
}

// --- What it should have -------------------------------------------------------------------------

void SupervisedJob::give_back() {
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
    static_cast<void>(write_target(wanted_, held_, false));  // tried again at the next look
  }
}

void SupervisedJob::escalate() {
  const double passed = seconds_since(*stop_since_);
  if (passed > options_.term_after_s + options_.kill_after_s) {
    kill_supervised(folder_.path());
  } else if (passed > options_.term_after_s && !terminated_) {
    terminated_ = signal_supervisor(folder_.path(), SIGTERM);
  }
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
    static_cast<void>(write_target(wanted_, all, false));  // tried again at the next look
    tell_held(notices);
    return;
  }
  const Status ready = make_ready(devices);
  Result<pid_t> starter = 0;
  if (ready.ok()) starter = start_supervisor(options_.supervisor, folder_.path());
  if (!ready.ok() || !starter.ok()) {
    if (!retire(folder_.path())) {
      state_ = State::kRunning;  // an earlier one runs
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

Status SupervisedJob::make_ready(const std::vector<std::string>& devices) {
  const elastic::LaunchOptions launch = launch_options();
  const bool own_directory = document_.dir.empty();
  Status made = make_directories(own_directory ? launch.processes.directory : folder_.path());
  if (!made.ok()) return made;
  mend_folder();
  auto registry = elastic::FileRegistry::open(folder_.registry_folder());
  if (!registry.ok()) return registry.error();
  registry_ = std::move(*registry);
  std::remove(folder_.status_file().c_str());
  status_ = json();
  status_version_ = {};
  targets_.clear();
  kept_.clear();
  processes_.clear();
  state_ = State::kStarting;
  Status targeted = write_target(wanted_, DeviceSet(devices.begin(), devices.end()), false);
  if (!targeted.ok()) return targeted;
  return write_supervision(launch, targets_.rbegin()->first);
}

// After a power failure, small files that were written last may be empty. None of them is needed:
// what counts is in the checkpoints.
void SupervisedJob::mend_folder() const {
  if (is_file(folder_.settings_file()) && !folder_.read_settings().ok()) {
    std::remove(folder_.settings_file().c_str());
  }
  if (is_file(folder_.secret_file()) && !folder_.read_secret().ok()) {
    std::remove(folder_.secret_file().c_str());
  }
  if (!is_directory(folder_.registry_folder())) return;
  auto registry = elastic::FileRegistry::open(folder_.registry_folder());
  if (!registry.ok()) return;
  if (!elastic::newest_view(**registry).ok() || !elastic::newest_target(**registry).ok()) {
    remove_tree(folder_.registry_folder());
  }
}

}  // namespace rubato::control
