#include "control/cluster/cluster_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "control/job_logs.h"
#include "control/job_owner.h"
#include "control/job_registry.h"
#include "control/json_fields.h"
#include "control/result_files.h"
#include "control/standby/shared_registry.h"
#include "elastic/job/job_folder.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr auto kLookPause = std::chrono::milliseconds(200);  // between looks for a job's workers
// If no node is heard at all, it is more likely the daemon that is out of reach.
constexpr double kDeafPatience = 10;  // in multiples of lost_after_s

double since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace

ClusterExecutor::ClusterExecutor(ClusterOptions options, const std::string& store,
                                 const std::map<std::string, NodeRecord>& nodes)
    : options_(std::move(options)), store_(store) {
  for (const auto& [name, record] : nodes) set_node(record);
  const MutexLock lock(mutex_);
  offer_nodes();
}

std::string ClusterExecutor::folder_of(JobNumber job) const {
  return fmt::format("{}/{}", options_.folder, job);
}

std::unique_ptr<elastic::Registry> ClusterExecutor::registry_of(JobNumber number,
                                                                const std::string& uid) const {
  if (options_.registries) return options_.registries->open(uid, folder_of(number));
  return std::make_unique<JobRegistry>(folder_of(number));
}

// --- Nodes

void ClusterExecutor::begin(std::int64_t epoch) {
  const MutexLock lock(mutex_);
  epoch_ = epoch;
}

void ClusterExecutor::offer_nodes() {
  offered_.clear();
  for (const auto& [name, node] : nodes_) {
    if (node.offered()) offered_.push_back(node.record.node);
  }
}

void ClusterExecutor::set_node(const NodeRecord& record) {
  const MutexLock lock(mutex_);
  const auto [found, fresh] = nodes_.try_emplace(record.node.name);
  Node& node = found->second;
  const bool becomes_lost = record.lost_at > 0 && (fresh || node.record.lost_at == 0);
  if (fresh || (record.lost_at == 0 && node.record.lost_at > 0)) node.heard_at = Clock::now();
  node.record = record;
  if (record.deadline == 0) node.hurries = false;
  if (!becomes_lost) return record_held(node);  // it may have other devices than before
  node.session.clear();
  for (const JobNumber number : std::set<JobNumber>(node.jobs)) {
    drop(number, jobs_.at(number), record.node.name);
  }
}

void ClusterExecutor::remove_node(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) return;
  for (const JobNumber number : std::set<JobNumber>(node->second.jobs)) {
    drop(number, jobs_.at(number), name);
  }
  nodes_.erase(node);
}

void ClusterExecutor::hurry(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto node = nodes_.find(name);
  if (node != nodes_.end()) node->second.hurries = true;
}

bool ClusterExecutor::hears_nobody() const {
  return since(heard_anybody_at_) > options_.lost_after_s / 2;
}

std::map<std::string, double> ClusterExecutor::silent_nodes() const {
  std::map<std::string, double> silent;
  const MutexLock lock(mutex_);
  const double patience =
      hears_nobody() ? kDeafPatience * options_.lost_after_s : options_.lost_after_s;
  for (const auto& [name, node] : nodes_) {
    const double seconds = since(node.heard_at);
    if (node.record.lost_at == 0 && seconds > patience) silent[name] = seconds;
  }
  return silent;
}

void ClusterExecutor::forgive_silence() {
  const MutexLock lock(mutex_);
  for (auto& [name, node] : nodes_) {
    if (node.record.lost_at == 0) node.heard_at = Clock::now();
  }
}

std::vector<std::string> ClusterExecutor::heard_lost_nodes() const {
  std::vector<std::string> back;
  const MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    const bool heard = node.heard && since(node.heard_at) <= options_.lost_after_s;
    if (node.record.lost_at > 0 && heard) back.push_back(name);
  }
  return back;
}

std::vector<std::string> ClusterExecutor::left_nodes() const {
  std::vector<std::string> left;
  const MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    if (node.leaving && node.jobs.empty()) left.push_back(name);
  }
  return left;
}

std::map<std::string, ClusterExecutor::Contact> ClusterExecutor::contacts() const {
  std::map<std::string, Contact> all;
  const MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    all[name] = {.heard = node.heard,
                 .silent_s = since(node.heard_at),
                 .leaving = node.leaving,
                 .jobs = {node.jobs.begin(), node.jobs.end()}};
  }
  return all;
}

std::optional<std::string> ClusterExecutor::is_on(JobNumber number, const std::string& node) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  if (job == jobs_.end() || !job->second.parts.contains(node)) return std::nullopt;
  return job->second.uid;
}

// --- Nodes of a job

void ClusterExecutor::change_orders(ClusterJob& job, const std::string& node) {
  const auto found = nodes_.find(node);
  const auto part = job.parts.find(node);
  if (found == nodes_.end() || part == job.parts.end()) return;
  part->second.changed = found->second.orders + 1;
}

void ClusterExecutor::put(JobNumber number, ClusterJob& job, const std::string& node,
                          ClusterJob::Part part) {
  job.parts[node] = part;
  nodes_.at(node).jobs.insert(number);
  change_orders(job, node);
  unsettled_.insert(number);
}

void ClusterExecutor::drop(JobNumber number, ClusterJob& job, const std::string& node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.jobs.erase(number);
  done_.erase({number, node});
  unsettled_.insert(number);
  const auto part = job.parts.find(node);
  if (part == job.parts.end()) return;
  const bool held = part->second.held > 0;
  job.parts.erase(part);
  if (!held) return;
  tell_held(number, job);
  if (found != nodes_.end()) record_held(found->second);
}

JobPlacement ClusterExecutor::held_by(const ClusterJob& job) const {
  JobPlacement placement;
  for (const auto& [name, part] : job.parts) {
    const auto node = nodes_.find(name);
    if (part.held == 0 || node == nodes_.end()) continue;
    placement.push_back(
        {.node = name, .device_type = node->second.record.node.device_type, .devices = part.held});
  }
  return placement;
}

void ClusterExecutor::tell_held(JobNumber number, const ClusterJob& job) {
  notices_.push_back({.job = number, .devices = job.held(), .nodes = held_by(job)});
}

void ClusterExecutor::record_held(const Node& node) {
  const std::string& name = node.record.node.name;
  int free = node.record.node.devices;
  for (const JobNumber number : node.jobs) {
    ClusterJob& job = jobs_.at(number);
    ClusterJob::Part& part = job.parts.at(name);
    if (part.told < part.held) {
      part.held = part.told;
      tell_held(number, job);
    }
    free -= part.held;
  }
  for (const JobNumber number : node.jobs) {
    ClusterJob& job = jobs_.at(number);
    ClusterJob::Part& part = job.parts.at(name);
    const int more = part.told - part.held;
    if (more == 0 || more > free) continue;
    part.held = part.told;
    free -= more;
    tell_held(number, job);
  }
}

// Ends the newest view with an empty one. What is left of its workers is fenced, wherever it is,
// and its launchers end. False if that cannot be done now.
bool ClusterExecutor::end_view(JobNumber number, ClusterJob& job) {
  const auto registry = registry_of(number, job.uid);
  const auto view = elastic::newest_view(*registry);
  if (!view.ok()) return false;
  if (view->number == 0 || view->empty()) return true;
  const elastic::View empty{
      .number = view->number + 1, .first_step = view->first_step, .cause = "restart"};
  const auto won = registry->compare_and_swap(elastic::kViewRecord, view->number,
                                              compact_json(elastic::to_json(empty)));
  if (!won.ok() || !*won) return false;
  ++job.changes;
  return true;
}

// The job is on no node. Whoever continues it must not find the end of an earlier try.
void ClusterExecutor::begin(JobNumber number, ClusterJob& job, const std::string& node) {
  if (spans_nodes(job.document)) {
    static_cast<void>(JobRegistry::create(folder_of(number)));
    if (!end_view(number, job)) return;  // tried again in the next turn
    if (options_.registries && !options_.registries->begin(job.uid, folder_of(number), node).ok()) {
      return;
    }
  }
  job.restarts = job.at_once = job.shares = false;
  job.nobody_since.reset();
  job.home = node;
  if (spans_nodes(job.document)) {
    const elastic::JobFolder folder(folder_of(number));
    std::error_code none;
    if (!is_file(folder.result_file())) {
      std::filesystem::remove(
          fmt::format("{}/{}.1", folder.registry_folder(), elastic::kResultRecord), none);
    }
  }
  put(number, job, node, {});
}

void ClusterExecutor::look_for_workers(JobNumber number, ClusterJob& job) {
  if (!job.may_have_nobody()) {
    job.nobody_since.reset();
    return;
  }
  const auto now = Clock::now();
  if (now < job.next_look) return;
  job.next_look = now + kLookPause;
  const auto registry = registry_of(number, job.uid);
  const auto view = elastic::newest_view(*registry);
  const auto result = registry->get(elastic::kResultRecord);
  if (!view.ok() || !result.ok() || result->version > 0) return;
  if (!job.nobody_left(view->number, view->empty(), now)) return;
  if (end_view(number, job)) job.restarts = job.at_once = true;
}

// What its membership aims at. A job that stops does so in one view. False: it cannot be written
// now.
bool ClusterExecutor::write_target(JobNumber number, ClusterJob& job) {
  if (!spans_nodes(job.document)) return true;
  int workers = 0;
  std::map<std::string, int> elsewhere;
  for (const auto& [node, part] : job.parts) {
    workers += part.devices;
    if (node != job.home && part.devices > 0) elsewhere[node] = part.devices;
  }
  const auto registry = registry_of(number, job.uid);
  const auto now = elastic::newest_target(*registry);
  const bool same = now.ok() && now->stop == (workers == 0) &&
                    (workers == 0 || (now->workers == workers && now->elsewhere == elsewhere &&
                                      now->batch == job.batch));
  if (same) return true;
  ++job.changes;
  const auto written = elastic::change_target(*registry, [&](elastic::Target& target) {
    target.stop = workers == 0;
    if (workers > 0) {
      target.workers = workers;
      target.elsewhere = elsewhere;
      target.batch = job.batch;
    }
    target.at = elastic::unix_seconds();
    return ok_status();
  });
  // A registry in the copy is as it was; only one in etcd may be away.
  return written.ok() || options_.registries == nullptr;
}

void ClusterExecutor::tell_end(JobNumber number, ClusterJob& job) {
  if (job.end) {
    notices_.push_back(std::move(*job.end));
    job.end.reset();
  } else if (!job.restarts && (job.ends() || job.wanted.empty())) {
    notices_.push_back({.job = number, .kind = Notice::Kind::kStopped});
  }
}

// False: something is to be tried again.
bool ClusterExecutor::settle(JobNumber number, ClusterJob& job) {
  const auto now = Clock::now();
  if (spans_nodes(job.document) && !job.shares && job.parts.contains(job.home)) {
    const elastic::JobFolder copy(folder_of(number));
    const auto settings = copy.read_settings();
    job.shares = settings.ok() && settings->home == job.home && is_file(copy.secret_file()) &&
                 is_file(copy.hello_file());
  }
  for (const std::string& node : job.newcomers()) {
    const auto found = nodes_.find(node);
    if (found == nodes_.end() || !found->second.offered()) continue;
    if (job.parts.empty()) {
      begin(number, job, node);
    } else {
      put(number, job, node, {.guest = true});
    }
  }
  look_for_workers(number, job);
  const std::vector<std::string> changed = job.settle(now);
  for (const std::string& node : changed) change_orders(job, node);
  return job.parts.empty() || write_target(number, job);
}

// --- The loop

Remains ClusterExecutor::remains_of(const JobRecord& record) const {
  const std::string folder = folder_of(record.number);
  if (!owns_folder(folder, record.uid)) return Remains::kStrangers;
  return is_directory(folder) ? Remains::kItsOwn : Remains::kNothing;
}

Status ClusterExecutor::adopt(const JobRecord& record) {
  const elastic::JobFolder copy(folder_of(record.number));
  const auto settings = copy.read_settings();
  std::string home = settings.ok() ? settings->home : "";
  if (options_.registries && spans_nodes(record.document)) {
    if (std::string shared = options_.registries->home(record.uid); !shared.empty()) {
      home = std::move(shared);
    }
  }
  const MutexLock lock(mutex_);
  ClusterJob& job = jobs_[record.number];
  job.uid = record.uid;
  job.document = record.document;
  job.wanted = record.nodes;
  job.batch = record.batch;
  job.cancelled = ended(record.phase);
  job.called_runtime = is_file(copy.hello_file());
  job.home = std::move(home);
  job.events_offset = std::max<std::int64_t>(0, whole_in(record.progress, "events_offset"));
  if (const json* offsets = field_of(record.progress, "node_offsets")) {
    for (const auto& [node, offset] : offsets->items()) {
      job.node_offsets[node] = std::max<std::int64_t>(0, whole_in(*offsets, node.c_str()));
    }
  }
  job.errors = record.errors;
  JobPlacement where = record.held_nodes;
  if (where.empty() && !record.nodes.empty()) where = {record.nodes.front()};
  const bool home_there = std::any_of(
      where.begin(), where.end(), [&](const NodeDevices& part) { return part.node == job.home; });
  if (!home_there && where.size() == 1 && !spans_nodes(job.document)) job.home = where.front().node;
  for (const NodeDevices& part : where) {
    const auto node = nodes_.find(part.node);
    if (node == nodes_.end() || node->second.record.lost_at > 0) continue;
    const int held = record.held_nodes.empty() ? 0 : part.devices;
    put(record.number, job, part.node,
        {.guest = spans_nodes(job.document) && home_there && part.node != job.home,
         .devices = job.wanted_on(part.node),
         .told = held,
         .held = held});
  }
  if (held_by(job) != record.held_nodes) tell_held(record.number, job);  // some nodes are lost
  unsettled_.insert(record.number);
  return ok_status();
}

Status ClusterExecutor::claim(JobNumber number, const FolderOwner& owner) {
  Status claimed = claim_folder(folder_of(number), owner);
  if (!claimed.ok()) return claimed;
  const MutexLock lock(mutex_);
  jobs_[number].uid = owner.job;
  return ok_status();
}

Status ClusterExecutor::want(JobNumber number, const JobDocument& document,
                             const JobPlacement& placement, std::int64_t batch) {
  if (placement.size() > 1 && !spans_nodes(document)) {
    return invalid_input(fmt::format("job {}: devices on {} requested, but it runs on one node",
                                     number, placement_text(placement)));
  }
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(number);
  if (found == jobs_.end() && placement.empty()) return ok_status();
  for (const NodeDevices& part : placement) {
    if (nodes_.contains(part.node)) continue;
    return invalid_input(fmt::format("job {}: there is no node {}", number, part.node));
  }
  ClusterJob& job = found == jobs_.end() ? jobs_[number] : found->second;
  job.document = document;
  job.batch = batch;
  job.wanted = placement;
  for (const auto& [node, part] : job.parts) {
    done_.erase({number, node});
    change_orders(job, node);
  }
  unsettled_.insert(number);
  return ok_status();
}

void ClusterExecutor::cancel(JobNumber number) {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  found->second.cancelled = true;
  for (const auto& [node, part] : found->second.parts) change_orders(found->second, node);
  unsettled_.insert(number);
}

bool ClusterExecutor::forget(JobNumber number) {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return true;
  const bool untold = std::any_of(notices_.begin(), notices_.end(),
                                  [&](const Notice& notice) { return notice.job == number; });
  if (!found->second.parts.empty() || found->second.end || untold) return false;
  if (options_.registries && spans_nodes(found->second.document)) {
    options_.registries->forget(found->second.uid);
  }
  unsettled_.erase(number);
  jobs_.erase(found);
  return true;
}

std::vector<Notice> ClusterExecutor::poll() {
  const MutexLock lock(mutex_);
  offer_nodes();
  std::vector<Notice> notices = std::exchange(notices_, {});
  // Their last notices are among these. What a job loses by leaving is told the next time.
  for (const auto& [number, node] : std::set(done_)) {
    ClusterJob& job = jobs_.at(number);
    drop(number, job, node);
    if (job.parts.empty()) tell_end(number, job);
  }
  for (const JobNumber number : std::set<JobNumber>(unsettled_)) {
    ClusterJob& job = jobs_.at(number);
    const bool settled = settle(number, job);
    if (job.parts.empty() && job.end) tell_end(number, job);
    if (settled && !job.unsettled()) unsettled_.erase(number);
  }
  return notices;
}

JobPlacement ClusterExecutor::held(JobNumber number) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  return job == jobs_.end() ? JobPlacement() : held_by(job->second);
}

int ClusterExecutor::held() const {
  int devices = 0;
  const MutexLock lock(mutex_);
  for (const auto& [number, job] : jobs_) devices += job.held();
  return devices;
}

bool ClusterExecutor::has_called_runtime(JobNumber number) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  return job != jobs_.end() && job->second.called_runtime;
}

std::vector<std::string> ClusterExecutor::log_files(const JobRecord& record) const {
  const std::string folder = folder_of(record.number);
  return owns_folder(folder, record.uid) ? job_log_files(folder) : std::vector<std::string>();
}

Result<ResultPlace> ClusterExecutor::result_place(const JobRecord& record) const {
  const std::string folder = folder_of(record.number);
  if (owns_folder(folder, record.uid)) {
    return ResultPlace{.folder = folder, .outputs = outputs_of(record.document)};
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("{}: its folder is not there any more", job_name_of(record.number))};
}

}  // namespace rubato::control
