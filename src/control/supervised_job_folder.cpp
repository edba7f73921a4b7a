// The folder of a supervised job: reads its contents and writes what a supervisor needs.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "control/supervise.h"
#include "control/supervised_job.h"
#include "elastic/board.h"
#include "elastic/command_check.h"

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

DeviceSet strings_of(const json& array) {
  DeviceSet strings;
  if (!array.is_array()) return strings;
  for (const json& entry : array) {
    if (entry.is_string()) strings.insert(entry.get<std::string>());
  }
  return strings;
}

std::string string_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

LauncherStatus parse_status(const json& object) {
  LauncherStatus status;
  if (!object.is_object()) return status;
  status.known = true;
  status.state = string_of(object, "state");
  status.message = string_of(object, "message");
  const auto target = object.find("target");
  if (target != object.end() && target->is_number_integer()) status.target = *target;
  status.devices = strings_of(object.value("devices", json()));
  for (const json& worker : object.value("workers", json())) {
    std::string device = worker.is_object() ? string_of(worker, "device") : "";
    if (!device.empty()) status.in_use.insert(std::move(device));
  }
  return status;
}

}  // namespace

// Earlier lines are not reported again, but they define what steps and batches mean.
void SupervisedJob::go_on_at(std::int64_t events_offset) {
  EventTail told(folder_.events_file());
  for (std::int64_t before = -1; before < told.offset() && told.offset() < events_offset;) {
    before = told.offset();
    for (const EventTail::Line& line : told.read()) {
      if (string_of(line.value, "type") == "started") progress_.started(line.value);
    }
  }
  events_ = EventTail(folder_.events_file(), events_offset);
}

void SupervisedJob::adopt() {
  const Result<Supervision> order = read_supervision(folder_.path());
  auto registry = elastic::FileRegistry::open(folder_.registry_folder());
  if (registry.ok()) registry_ = std::move(*registry);
  // Until the job is retired, a supervisor may be running or about to start.
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
  const std::int64_t first = status_.target > 0 ? status_.target + 1
                             : order.ok()       ? order->first_target
                                                : 1;
  for (std::int64_t version = first; version <= newest; ++version) {
    const Result<std::optional<std::string>> text = registry_->at(elastic::kTargetRecord, version);
    if (!text.ok() || !text->has_value()) continue;
    const json record = parse_json(**text);
    targets_[version] = strings_of(record.is_object() ? record["devices"] : json());
  }
  target_workers_ = target->workers;
  target_batch_ = batch_;
  if (target->stop) stop_since_ = Clock::now();
  count_held();
}

void SupervisedJob::read_status() {
  struct stat now {};
  if (stat(folder_.status_file().c_str(), &now) != 0) return;
  const FileVersion version{now.st_ino, now.st_mtim.tv_sec * 1'000'000'000L + now.st_mtim.tv_nsec};
  if (version == status_version_) return;
  status_version_ = version;
  const Result<std::string> text = read_file(folder_.status_file());
  LauncherStatus status = parse_status(parse_json(text.ok() ? *text : ""));
  if (!status.known) return;
  status_ = std::move(status);
  // A status written before the launcher first read a target says nothing about devices.
  if (status_.target > 0) targets_.erase(targets_.begin(), targets_.upper_bound(status_.target));
}

void SupervisedJob::forget_status() {
  status_ = {};
  status_version_ = {};
}

void SupervisedJob::count_held() {
  held_.clear();
  if (state_ == State::kIdle) return;
  held_ = status_.in_use;
  if (status_.target > 0) held_.insert(status_.devices.begin(), status_.devices.end());
  for (const auto& [version, devices] : targets_) held_.insert(devices.begin(), devices.end());
}

std::optional<json> SupervisedJob::result() const {
  if (!is_file(folder_.result_file())) return std::nullopt;
  const Result<std::string> text = read_file(folder_.result_file());
  json value = parse_json(text.ok() ? *text : "");
  if (!value.is_object()) return std::nullopt;
  return value;
}

void SupervisedJob::read_events(std::vector<Notice>& notices) {
  // Read all lines, because nobody reads them again once the processes are gone.
  for (std::int64_t before = -1; before != events_.offset();) {
    before = events_.offset();
    for (EventTail::Line& line : events_.read()) {
      if (string_of(line.value, "type") == "started") progress_.started(line.value);
      line.value["events_offset"] = line.end;
      tell(notices, Notice::Kind::kEvent, std::move(line.value));
    }
  }
}

// --- What a supervisor needs ---

// The only place that converts a job document into settings of the runtime.
elastic::LaunchOptions SupervisedJob::launch_options() const {
  elastic::LaunchOptions launch{.folder = folder_.path(), .command = document_.run};
  elastic::JobSettings& settings = launch.settings;
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
  auto registry = elastic::FileRegistry::open(folder_.registry_folder());
  if (!registry.ok()) return registry.error();
  registry_ = std::move(*registry);
  std::remove(folder_.status_file().c_str());
  forget_status();
  targets_.clear();
  state_ = State::kStarting;
  Status targeted = write_target(wanted_, DeviceSet(devices.begin(), devices.end()), false);
  if (!targeted.ok()) return targeted;
  return write_supervision(launch, targets_.rbegin()->first);
}

// After a power failure, small files that were written last may be empty. None of them is needed;
// everything that matters is in the checkpoints.
void SupervisedJob::mend_folder() const {
  if (is_file(folder_.settings_file()) && !folder_.read_settings().ok()) {
    std::remove(folder_.settings_file().c_str());
  }
  if (is_file(folder_.secret_file()) && !folder_.read_secret().ok()) {
    std::remove(folder_.secret_file().c_str());
  }
  if (is_file(folder_.result_file()) && !result()) std::remove(folder_.result_file().c_str());
  if (!is_directory(folder_.registry_folder())) return;
  auto registry = elastic::FileRegistry::open(folder_.registry_folder());
  if (!registry.ok()) return;
  if (!elastic::newest_view(**registry).ok() || !elastic::newest_target(**registry).ok()) {
    remove_tree(folder_.registry_folder());
  }
}

}  // namespace rubato::control
