#include "control/cluster/cluster_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "control/job_logs.h"
#include "control/job_owner.h"
#include "control/json_fields.h"
#include "control/result_files.h"

namespace rubato::control {

namespace {

constexpr double kShortestPause = 0.1;
constexpr double kLongestPause = 1.5;

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
  if (!becomes_lost) return;
  node.session.clear();
  for (const JobNumber number : std::set<JobNumber>(node.jobs)) {
    leave_home(number, jobs_.at(number));
  }
}

void ClusterExecutor::remove_node(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) return;
  for (const JobNumber number : std::set<JobNumber>(node->second.jobs)) {
    leave_home(number, jobs_.at(number));
  }
  std::move(node->second.inbox.begin(), node->second.inbox.end(), std::back_inserter(own_));
  nodes_.erase(node);
}

void ClusterExecutor::hurry(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto node = nodes_.find(name);
  if (node != nodes_.end()) node->second.hurries = true;
}

std::map<std::string, double> ClusterExecutor::silent_nodes() const {
  std::map<std::string, double> silent;
  const MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    const double seconds = since(node.heard_at);
    if (node.record.lost_at == 0 && seconds > options_.lost_after_s) silent[name] = seconds;
  }
  return silent;
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

std::string ClusterExecutor::home_of(JobNumber number) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  return job == jobs_.end() ? "" : job->second.home;
}

// --- Homes

int ClusterExecutor::devices_at_home(const Job& job) const {
  return job.cancelled || job.over || job.wanted.node != job.home ? 0 : job.wanted.devices;
}

void ClusterExecutor::orders_change(Job& job) {
  const auto home = nodes_.find(job.home);
  if (home != nodes_.end()) job.changed = home->second.orders + 1;
}

void ClusterExecutor::leave_home(JobNumber number, Job& job) {
  const auto home = nodes_.find(job.home);
  if (home != nodes_.end()) home->second.jobs.erase(number);
  job.home.clear();
  done_.erase(number);
  if (std::exchange(job.held, 0) > 0) own_.push_back({.job = number});
  homeless_.insert(number);
}

void ClusterExecutor::find_home(JobNumber number, Job& job) {
  const auto node = nodes_.find(job.wanted.node);
  if (node == nodes_.end() || !node->second.offered()) return;
  job.home = job.wanted.node;
  node->second.jobs.insert(number);
  orders_change(job);
}

// --- The loop

Remains ClusterExecutor::remains_of(const JobRecord& record) const {
  const std::string folder = folder_of(record.number);
  if (!owns_folder(folder, record.uid)) return Remains::kStrangers;
  return is_directory(folder) ? Remains::kItsOwn : Remains::kNothing;
}

Status ClusterExecutor::adopt(const JobRecord& record) {
  const JobPlacement& where = record.held > 0 ? record.held_nodes : record.nodes;
  const MutexLock lock(mutex_);
  Job& job = jobs_[record.number];
  job = {.uid = record.uid,
         .document = record.document,
         .batch = record.batch,
         .cancelled = ended(record.phase),
         .held = record.held,
         .events_offset = std::max<std::int64_t>(0, whole_in(record.progress, "events_offset")),
         .errors = record.errors};
  if (!record.nodes.empty()) job.wanted = record.nodes.front();
  const auto node = where.empty() ? nodes_.end() : nodes_.find(where.front().node);
  if (node == nodes_.end() || node->second.record.lost_at > 0) {
    leave_home(record.number, job);
    return ok_status();
  }
  job.home = node->first;
  node->second.jobs.insert(record.number);
  orders_change(job);
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
  if (placement.size() > 1) {
    return invalid_input(fmt::format("job {}: devices on {} requested, but a job runs on one node",
                                     number, placement_text(placement)));
  }
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(number);
  if (found == jobs_.end() && placement.empty()) return ok_status();
  if (!placement.empty() && !nodes_.contains(placement.front().node)) {
    return invalid_input(
        fmt::format("job {}: there is no node {}", number, placement.front().node));
  }
  Job& job = found == jobs_.end() ? jobs_[number] : found->second;
  job.document = document;
  job.batch = batch;
  job.wanted = placement.empty() ? NodeDevices() : placement.front();
  if (!job.home.empty()) {
    done_.erase(number);
    orders_change(job);
  } else if (job.wanted.devices > 0) {
    homeless_.insert(number);
  }
  return ok_status();
}

void ClusterExecutor::cancel(JobNumber number) {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  found->second.cancelled = true;
  orders_change(found->second);
}

bool ClusterExecutor::forget(JobNumber number) {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return true;
  if (!found->second.home.empty() || !own_.empty()) return false;
  homeless_.erase(number);
  jobs_.erase(found);
  return true;
}

std::vector<Notice> ClusterExecutor::poll() {
  const MutexLock lock(mutex_);
  std::vector<Notice> notices = std::exchange(own_, {});
  offer_nodes();
  for (auto& [name, node] : nodes_) {
    for (Notice& notice : node.inbox) notices.push_back(std::move(notice));
    node.inbox.clear();
  }
  // Their last notices are among these. What a job loses by leaving is told the next time.
  for (const JobNumber number : std::set<JobNumber>(done_)) leave_home(number, jobs_.at(number));
  for (const JobNumber number : std::set<JobNumber>(homeless_)) {
    Job& job = jobs_.at(number);
    if (job.wanted.devices > 0 && !job.cancelled && !job.over) find_home(number, job);
    const bool waits = job.home.empty() && job.wanted.devices > 0;
    if (!waits) homeless_.erase(number);
  }
  return notices;
}

JobPlacement ClusterExecutor::held(JobNumber number) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  if (job == jobs_.end() || job->second.held == 0) return {};
  const auto home = nodes_.find(job->second.home);
  if (home == nodes_.end()) return {};
  return {{.node = home->first,
           .device_type = home->second.record.node.device_type,
           .devices = job->second.held}};
}

int ClusterExecutor::held() const {
  int devices = 0;
  const MutexLock lock(mutex_);
  for (const auto& [number, job] : jobs_) devices += job.held;
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

// --- Agents

// What an agent that begins a session needs to take the job over.
JobRecord ClusterExecutor::record_for_home(JobNumber number, const Job& job) const {
  JobRecord record{.number = number, .document = job.document, .uid = job.uid};
  record.granted = devices_at_home(job);
  record.held = job.held;
  record.batch = job.batch;
  record.phase = job.cancelled || job.over ? Phase::kCancelled : Phase::kRunning;
  record.progress = {{"events_offset", job.events_offset}};
  record.errors = job.errors;
  return record;
}

void ClusterExecutor::take_notices(Node& node, const NodeReport& report) {
  for (const NumberedNotice& numbered : report.notices) {
    if (numbered.number != node.received + 1) continue;  // it was there before
    node.received = numbered.number;
    const Notice& notice = numbered.notice;
    if (!node.jobs.contains(notice.job)) continue;
    Job& job = jobs_.at(notice.job);
    switch (notice.kind) {
      case Notice::Kind::kHeld:
        job.held = notice.devices;
        break;
      case Notice::Kind::kEvent:
        job.events_offset = std::max(job.events_offset, whole_in(notice.body, "events_offset"));
        break;
      case Notice::Kind::kError:
        job.errors[text_of(notice.body, "kind")] = notice.body;
        break;
      case Notice::Kind::kFinished:
      case Notice::Kind::kFailed:
        job.over = true;
        orders_change(job);
        break;
      default:
        break;
    }
    node.inbox.push_back(notice);
  }
}

void ClusterExecutor::take_states(const Node& node, const NodeReport& report) {
  std::map<JobNumber, const NodeReport::Job*> states;
  for (const NodeReport::Job& state : report.jobs) states[state.job] = &state;
  for (const JobNumber number : node.jobs) {
    Job& job = jobs_.at(number);
    const auto state = states.find(number);
    if (state != states.end()) {
      job.called_runtime = job.called_runtime || state->second->called_runtime;
    } else if (devices_at_home(job) == 0 && report.obeyed >= job.changed) {
      done_.insert(number);
    }
  }
}

NodeOrders ClusterExecutor::orders_for(Node& node) {
  NodeOrders orders{.store = store_, .epoch = epoch_};
  orders.session = node.session;
  orders.life = node.record.life;
  orders.number = ++node.orders;
  orders.acknowledged = node.received;
  orders.next_s = pause();
  for (const JobNumber number : node.jobs) {
    const Job& job = jobs_.at(number);
    orders.jobs.push_back({.job = number,
                           .uid = job.uid,
                           .document = job.document,
                           .devices = devices_at_home(job),
                           .batch = job.batch,
                           .cancelled = job.cancelled,
                           .at_once = node.hurries});
  }
  return orders;
}

Result<NodeOrders> ClusterExecutor::sync(const NodeReport& report) {
  const MutexLock lock(mutex_);
  const auto found = nodes_.find(report.node.name);
  if (found == nodes_.end()) {
    return Error{ErrorCode::kNotFound, fmt::format("no node {}", report.node.name)};
  }
  if (epoch_ == 0) return Error{ErrorCode::kIo, "the daemon is starting; retry"};
  if (report.epoch > epoch_) {
    return Error{ErrorCode::kRefused,
                 fmt::format("node {}: obeys a newer daemon; this one must end", report.node.name)};
  }
  Node& node = found->second;
  if (report.start < node.start) {
    return Error{
        ErrorCode::kRefused,
        fmt::format("node {}: another agent has taken over; this one must end", report.node.name)};
  }
  node.heard = true;
  node.heard_at = Clock::now();
  node.leaving = report.leaving;
  if (node.record.lost_at > 0) {  // until the loop has taken it back
    NodeOrders nothing{.store = store_, .epoch = epoch_};
    nothing.next_s = pause();
    return nothing;
  }
  const bool fresh =
      node.session.empty() || report.start != node.start || report.session != node.session;
  node.start = report.start;
  if (!fresh) {
    take_notices(node, report);
    take_states(node, report);
    return orders_for(node);
  }
  node.session = fmt::format("{}-{}", epoch_, ++sessions_);
  node.orders = 0;
  node.received = 0;
  for (const JobNumber number : node.jobs) {
    jobs_.at(number).changed = 1;
    done_.erase(number);
  }
  NodeOrders orders = orders_for(node);
  for (const JobNumber number : node.jobs) {
    orders.adopt.push_back(record_for_home(number, jobs_.at(number)));
  }
  return orders;
}

double ClusterExecutor::pause() const {
  const auto heard = static_cast<double>(std::count_if(
      nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.heard; }));
  return std::clamp(heard / options_.calls_per_s, kShortestPause, kLongestPause);
}

}  // namespace rubato::control
