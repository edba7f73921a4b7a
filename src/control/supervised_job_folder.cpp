// The folder of a supervised job: reads its contents and writes what a supervisor needs. The job
// can write everything in it, so everything is read with job_files.h and checked with
// job_schemas.h; docs/live.md has the rules for what is wrong.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "control/job_files.h"
#include "control/job_owner.h"
#include "control/job_registry.h"
#include "control/job_schemas.h"
#include "control/json_fields.h"
#include "control/process_killer.h"
#include "control/supervise.h"
#include "control/supervised_job.h"
#include "elastic/job/checkpoint_place.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/command_check.h"
#include "elastic/memory/board.h"
#include "elastic/transport/secret.h"

namespace rubato::control {

namespace {

using nlohmann::json;

// Largest batch of an adaptive job whose owner gave no range. Memory is reserved for it.
constexpr std::int64_t kAnyBatch = 65'536;

elastic::LrRule rule_of(LearningRateRule rule) {
  switch (rule) {
    case LearningRateRule::kLinear:
      return elastic::LrRule::kLinear;
    case LearningRateRule::kSqrt:
      return elastic::LrRule::kSqrt;
    case LearningRateRule::kNone:
      return elastic::LrRule::kNone;
  }
  return elastic::LrRule::kNone;
}

// How much of events.jsonl is read where an earlier object has been: enough for its first lines,
// and for hundreds of its last ones.
constexpr std::int64_t kFirstLines = 64 << 10;
constexpr std::int64_t kLastLines = 256 << 10;
// After the end of the job, as much of events.jsonl is read before the rest is skipped.
constexpr std::int64_t kMostAfterEnd = 2 << 20;
// A supervisor that obeys an older target than this many versions ago is not expected.
constexpr std::int64_t kMostTargets = 1000;
constexpr auto kLockCheckEvery = std::chrono::seconds(1);
constexpr auto kPatienceWithUnseen = std::chrono::seconds(5);  // when the daemon starts
constexpr auto kPatienceWithUnlocked = std::chrono::seconds(2);

// The newest event `started` in this part of the file.
void find_started(const OpenFile& file, std::int64_t from, std::int64_t most,
                  JobProgress& progress) {
  const std::string text = file.read(from, most);
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (static_cast<std::int64_t>(end) > kMostLineBytes ||
        line.find("\"started\"") == std::string_view::npos) {
      continue;
    }
    const json value = parse_untrusted(line);
    if (text_of(value, "type") == "started" && line_problem(value).empty()) progress.started(value);
  }
}

}  // namespace

// Only devices of this machine can be held, whatever the job writes.
DeviceSet SupervisedJob::devices_in(const json* list) const {
  DeviceSet devices;
  if (list == nullptr || !list->is_array()) return devices;
  const Machine& machine = options_.machine;
  for (const json& entry : *list) {
    if (!entry.is_string()) continue;
    const auto& name = entry.get_ref<const std::string&>();
    const auto number = machine.visible.empty() ? parse_int(name) : std::nullopt;
    const bool known =
        machine.visible.empty()
            ? number && *number >= 0 && *number < machine.devices && name == std::to_string(*number)
            : std::find(machine.visible.begin(), machine.visible.end(), name) !=
                  machine.visible.end();
    if (known) devices.insert(name);
  }
  return devices;
}

// Earlier lines are not reported again, but they define what steps and batches mean.
void SupervisedJob::go_on_at(std::int64_t events_offset) {
  events_ = EventTail(folder_.path(), "events.jsonl", events_offset, kMostLineBytes);
  if (events_.offset() == 0) return;
  const Result<OpenFile> file = open_job_file(folder_.path(), "events.jsonl");
  if (!file.ok()) return;
  find_started(*file, 0, std::min(kFirstLines, events_.offset()), progress_);
  const std::int64_t from = std::max<std::int64_t>(0, events_.offset() - kLastLines);
  find_started(*file, from, events_.offset() - from, progress_);
}

// The job destroyed what tells which devices its processes hold, or that there are any. They are
// ended here and now, before the job counts as holding nothing.
void SupervisedJob::end_unseen() {
  const auto deadline = Clock::now() + kPatienceWithUnseen;
  while (kill_supervised(folder_.path()) > 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The daemon may have died right after it started a supervisor, which needs a moment to take its
// lock. Until then, nothing shows that the job runs.
void SupervisedJob::expect_starter() {
  struct stat order {};
  if (lstat((folder_.path() + "/supervise.json").c_str(), &order) != 0) return;
  const auto written = std::chrono::system_clock::from_time_t(order.st_mtim.tv_sec);
  const auto age = std::chrono::system_clock::now() - written;
  if (age < kPatienceWithUnlocked) starter_until_ = Clock::now() + kPatienceWithUnlocked;
}

void SupervisedJob::adopt(bool started, int told) {
  told_held_ = told;
  const Result<Supervision> order = read_supervision(folder_.path());
  registry_ = std::make_unique<JobRegistry>(folder_.path());
  // Until the job is retired, a supervisor may be running or about to start. The job may have
  // removed the file while it runs.
  const bool retired = !order.ok() && order.error().code == ErrorCode::kNotFound;
  if (retired && !is_supervised(folder_.path()) && !has_workers(folder_.path())) {
    if (started) end_unseen();
    read_status();
    return;
  }
  state_ = State::kRunning;
  adopted_ = true;
  expect_starter();
  std::int64_t newest = 0;
  const Result<elastic::Target> target = elastic::newest_target(*registry_, &newest);
  if (!target.ok()) {
    registry_broken(target.error());
    end_unseen();
    return;
  }
  target_version_ = newest;
  read_status();
  const std::int64_t first = std::max(newest - kMostTargets, status_.target > 0 ? status_.target + 1
                                                             : order.ok() ? order->first_target
                                                                          : 1);
  for (std::int64_t version = first; version <= newest; ++version) {
    const Result<std::optional<std::string>> text = registry_->at(elastic::kTargetRecord, version);
    if (!text.ok() || !text->has_value()) continue;
    const json record = parse_untrusted(**text);
    targets_[version] = devices_in(field_of(record, "devices"));
  }
  target_workers_ = target->workers;
  target_batch_ = batch_;
  if (target->stop) stop_since_ = Clock::now();
  count_held();
  if (held_.empty()) end_unseen();
}

void SupervisedJob::read_status() {
  if (distrusted_) {
    kill_all();
    return;
  }
  check_locks();
  struct stat now {};
  if (lstat(folder_.status_file().c_str(), &now) != 0) return;
  const FileVersion version{now.st_ino, now.st_mtim.tv_sec * 1'000'000'000L + now.st_mtim.tv_nsec};
  if (version == status_version_) return;
  status_version_ = version;
  if (S_ISREG(now.st_mode) && now.st_size == 0) return;  // after a power failure
  const Result<json> read = read_job_object(folder_.path(), "status.json", kMostStatusBytes);
  if (!read.ok() && read.error().code != ErrorCode::kInvalidInput) {
    status_version_ = {};  // tried again
    return;
  }
  std::string problem = read.ok() ? status_problem(*read) : read.error().message;
  if (problem.empty() && state_ != State::kIdle && whole_in(*read, "target") > target_version_) {
    problem = fmt::format("status.json: `target` is {}; expected at most {}, the newest target",
                          whole_in(*read, "target"), target_version_);
  }
  if (!problem.empty()) {
    errors_.note("status", "status.json", problem + "; what was read before stays valid");
    return;
  }
  LauncherStatus status;
  status.known = true;
  status.state = text_of(*read, "state");
  status.message = plain_text(text_of(*read, "message"));
  status.target = whole_in(*read, "target");
  status.devices = devices_in(field_of(*read, "devices"));
  status.share = {.view = whole_in(*read, "view"),
                  .members = static_cast<int>(std::clamp<std::int64_t>(whole_in(*read, "members"),
                                                                       0, elastic::kMaxWorkers))};
  json in_use = json::array();
  if (const json* workers = field_of(*read, "workers")) {
    for (const json& worker : *workers) {
      if (const json* device = field_of(worker, "device")) in_use.push_back(*device);
    }
  }
  status.in_use = devices_in(&in_use);
  status_ = std::move(status);
  // A status written before the launcher first read a target says nothing about devices.
  if (status_.target > 0) targets_.erase(targets_.begin(), targets_.upper_bound(status_.target));
}

// The locks tell whether processes of the job are alive. If the job has removed or replaced one,
// nothing tells it, and all its processes are killed.
void SupervisedJob::check_locks() {
  if (state_ != State::kRunning || Clock::now() < next_lock_check_) return;
  next_lock_check_ = Clock::now() + kLockCheckEvery;
  for (const char* name : {"supervisor.lock", "workers.lock"}) {
    struct stat lock {};
    const bool exists = lstat((folder_.path() + "/" + name).c_str(), &lock) == 0;
    const auto seen = locks_.find(name);
    // Not taken yet. The supervisor of an adopted job may have been started a moment ago.
    const bool may_come = adopted_ || name == std::string_view("workers.lock");
    if (!exists && seen == locks_.end() && may_come) continue;
    if (exists && S_ISREG(lock.st_mode)) {
      if (seen == locks_.end()) locks_[name] = lock.st_ino;
      if (locks_[name] == lock.st_ino) continue;
    }
    errors_.note("folder", name,
                 "the lock is gone; expected the file that the supervisor holds; the job's "
                 "processes are ended");
    kill_all();
    clear_way(folder_.path(), name);
  }
}

// A job that replaced its locks may have processes that nobody sees, and of an adopted job it is
// not known whether it did.
bool SupervisedJob::swept() {
  if (swept_) return true;
  const auto intact = [&](const char* name) {
    struct stat lock {};
    const auto seen = locks_.find(name);
    return seen != locks_.end() && lstat((folder_.path() + "/" + name).c_str(), &lock) == 0 &&
           S_ISREG(lock.st_mode) && lock.st_ino == seen->second;
  };
  if (!adopted_ && intact("supervisor.lock") &&
      (!locks_.contains("workers.lock") || intact("workers.lock"))) {
    return true;
  }
  swept_ = options_.killer->take_found(folder_.path()) == 0;
  if (!swept_) options_.killer->kill(folder_.path());
  return swept_;
}

void SupervisedJob::forget_status() {
  status_ = {};
  status_version_ = {};
}

// A job that is not gone holds something, whatever its files say: otherwise its end would be
// recorded, and a later daemon would not look for its processes.
void SupervisedJob::count_held() {
  if (state_ == State::kIdle) {
    held_.clear();
    return;
  }
  DeviceSet now = status_.in_use;
  if (status_.target > 0) now.insert(status_.devices.begin(), status_.devices.end());
  for (const auto& [version, devices] : targets_) now.insert(devices.begin(), devices.end());
  if (!now.empty()) held_ = std::move(now);
}

Result<std::optional<json>> SupervisedJob::result() const {
  struct stat status {};
  const bool empty = lstat(folder_.result_file().c_str(), &status) == 0 &&
                     S_ISREG(status.st_mode) && status.st_size == 0;
  if (empty) return std::optional<json>();  // after a power failure
  Result<json> read = read_job_object(folder_.path(), "result.json", kMostResultBytes);
  if (!read.ok()) {
    if (read.error().code == ErrorCode::kNotFound) return std::optional<json>();
    return read.error();
  }
  const std::string problem = result_problem(*read);
  if (!problem.empty()) return invalid_input(problem);
  return std::optional<json>(std::move(*read));
}

bool SupervisedJob::read_events(std::vector<Notice>& notices) {
  if (distrusted_) return true;
  const std::int64_t before = events_.offset();
  EventTail::Piece piece = events_.read();
  if (!piece.readable.ok()) {
    errors_.note("events", "events.jsonl", piece.readable.error().message + "; it is not read");
  }
  if (piece.skipped > 0) {
    errors_.note("events", fmt::format("events.jsonl, byte {}", piece.skipped_at),
                 piece.why + "; such lines are skipped", piece.skipped);
  }
  std::int64_t begin = before;
  std::int64_t dropped = 0;
  for (EventTail::Line& line : piece.lines) {
    const std::int64_t at = std::exchange(begin, line.end);
    const std::string problem = line_problem(line.value);
    if (!problem.empty()) {
      errors_.note("events", fmt::format("events.jsonl, byte {}", at),
                   problem + "; such lines are skipped");
      continue;
    }
    if (text_of(line.value, "type") == "started") progress_.started(line.value);
    if (!budget_.take(line.end - at, Clock::now())) {
      ++dropped;
      continue;
    }
    line.value["events_offset"] = line.end;
    tell(notices, Notice::Kind::kEvent, std::move(line.value));
  }
  if (dropped > 0) {
    errors_.note("too-many-events", "events.jsonl",
                 fmt::format("the job writes more lines than the log takes ({} at once and {} per "
                             "second); the others are dropped",
                             LineBudget::kLineBurst, LineBudget::kLinesPerSecond),
                 dropped);
  }
  return !piece.more;
}

// Nobody reads the lines again once the processes are gone, so the job does not end before. But a
// job that wrote without measure does not keep its devices for ever.
bool SupervisedJob::read_last_events(std::vector<Notice>& notices) {
  const std::int64_t before = events_.offset();
  if (read_events(notices)) return true;
  read_after_end_ += events_.offset() - before;
  if (read_after_end_ < kMostAfterEnd) return false;
  errors_.note("too-many-events", "events.jsonl",
               fmt::format("{} bytes were not read when the job ended; they are dropped",
                           events_.skip_all()));
  return true;
}

void SupervisedJob::tell_errors(std::vector<Notice>& notices) {
  if (const std::string problem = progress_.take_problem(); !problem.empty()) {
    errors_.note("progress", "registry", problem + "; its progress is not known");
  }
  if (at_rest()) errors_.sum_up();
  for (json& body : errors_.take()) tell(notices, Notice::Kind::kError, std::move(body));
}

// Without its registry the job can neither be resized nor asked to stop: its processes are ended,
// and it restarts from its checkpoint a few times.
void SupervisedJob::registry_broken(const Error& error) {
  if (error.code != ErrorCode::kInvalidInput) return;  // may succeed later
  errors_.note("registry", "registry",
               error.message + "; its processes are ended and it restarts from its checkpoint");
  if (state_ != State::kRunning || stop_since_) return;
  broken_ = error.message;
  stop_since_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(options_.term_after_s));
}

void SupervisedJob::distrust(const std::string& problem, std::vector<Notice>& notices) {
  const bool first = !std::exchange(cancelled_, true);
  distrusted_ = true;
  registry_.reset();
  asked_ = true;
  if (!first) return;
  tell(notices, Notice::Kind::kFailed,
       {{"message",
         fmt::format("its folder {} cannot be read: {}", folder_.path(), plain_text(problem))}});
}

// --- What a supervisor needs ---

bool SupervisedJob::spread() const { return options_.of_cluster && spans_nodes(document_); }

// The only place that converts a job document into settings of the runtime.
elastic::LaunchOptions SupervisedJob::launch_options() const {
  elastic::LaunchOptions launch{.folder = folder_.path(), .command = document_.run};
  launch.node = {.name = options_.node_of_jobs, .listen = options_.listen};
  elastic::JobSettings& settings = launch.settings;
  if (spread()) {
    settings.registry = elastic::kDaemonsRegistry;
    launch.founds = !is_job_file(folder_.path(), "guest");
  }
  settings.name = document_.name;
  if (settings.name.empty()) {
    settings.name = std::filesystem::path(document_.run.front()).filename().string();
  }
  settings.logical_workers = document_.logical_workers;  // 0: the program's own number
  settings.max_workers = std::min(document_.max_devices, elastic::kMaxWorkers);
  settings.first_workers = document_.min_devices;
  if (document_.mode == ElasticMode::kAdaptive) {
    settings.adaptive = true;
    settings.max_workers = settings.logical_workers =
        std::min(document_.max_devices, elastic::kMaxWorkers);
    settings.batch_range = document_.min_batch > 0
                               ? elastic::BatchRange{document_.min_batch, document_.max_batch}
                               : elastic::BatchRange{1, kAnyBatch};
    settings.lr_rule = rule_of(document_.lr_rule);
  }
  settings.checkpoint_every_s = document_.checkpoint_every_s;
  settings.checkpoint_keep = document_.checkpoint_keep;
  if (const auto place = elastic::parse_checkpoint_place(document_.checkpoint_to); place.ok()) {
    settings.checkpoints = fmt::format("{}/{}-{}", *place, job_name_of(number_),
                                       read_folder_owner(folder_.path()).job);
  }
  elastic::ProcessOptions& processes = launch.processes;
  processes.directory = document_.dir.empty() ? folder_.path() + "/work" : document_.dir;
  processes.environment.assign(document_.env.begin(), document_.env.end());
  for (const auto& [name, source] : document_.env_from) {
    processes.environment_from.emplace_back(name, source.substr(source.find('/')));
  }
  if (!options_.machine.visible.empty()) processes.device_variable = "CUDA_VISIBLE_DEVICES";
  processes.core_files = false;
  processes.most_files = options_.worker_files;
  processes.most_memory_bytes = options_.worker_memory_bytes;
  processes.log_bytes = options_.log_bytes;
  processes.log_files = options_.log_files;
  processes.term_after_s = options_.term_after_s;
  processes.kill_after_s = options_.kill_after_s;
  describe_program(launch);
  return launch;
}

Status SupervisedJob::write_target(int workers, const DeviceSet& devices, bool stop) {
  Status changed = elastic::change_target(*registry_, [&](elastic::Target& target) {
    target.workers = workers;
    target.batch = batch_;
    target.devices.assign(devices.begin(), devices.end());
    target.stop = stop;
    target.at = elastic::unix_seconds();
    return ok_status();
  });
  std::int64_t version = 0;
  if (changed.ok()) {
    const Result<elastic::Target> newest = elastic::newest_target(*registry_, &version);
    if (!newest.ok()) {
      changed = newest.error();
    } else if (version <= target_version_) {
      changed = invalid_input(fmt::format("{}: the target's version {} follows {}",
                                          folder_.registry_folder(), version, target_version_));
    }
  }
  if (!changed.ok()) {
    registry_broken(changed.error());
    return changed;
  }
  target_version_ = version;
  targets_[version] = devices;
  target_workers_ = workers;
  target_batch_ = batch_;
  count_held();
  return ok_status();
}

Status SupervisedJob::check_startable() const {
  if (!document_.dir.empty()) {
    Status folder = elastic::check_directory(document_.dir);
    if (!folder.ok()) return folder;
  }
  const elastic::ProcessOptions processes = launch_options().processes;
  return elastic::check_program(document_.run, processes.directory,
                                elastic::search_path_with(processes.environment));
}

Status SupervisedJob::make_ready(const std::vector<std::string>& devices) {
  const elastic::LaunchOptions launch = launch_options();
  const bool own_directory = document_.dir.empty();
  Status made = make_directories(own_directory ? launch.processes.directory : folder_.path());
  if (!made.ok()) return made;
  mend_folder();
  made = make_outputs();
  if (!made.ok()) return made;
  auto registry = JobRegistry::create(folder_.path());
  if (!registry.ok()) return registry.error();
  registry_ = std::move(*registry);
  target_version_ = 0;
  locks_.clear();
  adopted_ = swept_ = false;
  static_cast<void>(options_.killer->take_found(folder_.path()));  // of processes before these
  read_after_end_ = 0;
  std::remove(folder_.status_file().c_str());
  forget_status();
  targets_.clear();
  state_ = State::kStarting;
  Status targeted = write_target(wanted_, DeviceSet(devices.begin(), devices.end()), false);
  if (!targeted.ok()) return targeted;
  return write_supervision(launch, targets_.rbegin()->first, options_.ends_with);
}

std::string SupervisedJob::outputs_folder() const {
  return folder_.path() + "/" + outputs_of(document_);
}

// Whatever the job has put in its place stays: it is the job's.
Status SupervisedJob::make_outputs() const {
  struct stat status {};
  if (lstat(outputs_folder().c_str(), &status) == 0) return ok_status();
  return make_directories(outputs_folder());
}

// After a power failure, small files that were written last may be empty, and a job may have left
// anything. None of it is needed; everything that matters is in the checkpoints. What is no file is
// moved aside: a start must not wait for a fifo or follow a link.
void SupervisedJob::mend_folder() const {
  const std::string& folder = folder_.path();
  for (const char* name : {"supervisor.log", "supervisor.lock", "workers.lock", "supervise.json",
                           "status.json", "result.json", "job.json", "secret", "events.jsonl"}) {
    clear_way(folder, name);
  }
  const Result<json> settings = read_job_object(folder, "job.json", kMostSettingsBytes);
  if (!settings.ok() || !elastic::parse_settings(*settings, "job.json").ok()) {
    std::remove(folder_.settings_file().c_str());
  }
  const Result<std::string> secret = read_job_file(folder, "secret", elastic::kSecretBytes);
  if (!secret.ok() || secret->size() != elastic::kSecretBytes || !folder_.read_secret().ok()) {
    std::remove(folder_.secret_file().c_str());
  }
  const Result<std::optional<json>> before = result();
  if (!before.ok() || !before->has_value()) std::remove(folder_.result_file().c_str());
  JobRegistry registry(folder);
  const Result<elastic::View> view = elastic::newest_view(registry);
  const Result<elastic::Target> target = elastic::newest_target(registry);
  if (view.ok() && target.ok()) return;
  // Removing a folder with a million files would take long.
  const std::string aside = fmt::format("{}.broken.{}", folder_.registry_folder(),
                                        Clock::now().time_since_epoch().count());
  static_cast<void>(std::rename(folder_.registry_folder().c_str(), aside.c_str()));
}

}  // namespace rubato::control
