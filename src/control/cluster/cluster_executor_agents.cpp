// What agents say, and what they are told.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "control/cluster/cluster_executor.h"
#include "control/device_watch.h"
#include "control/job_registry.h"
#include "control/json_fields.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestRecord = 64;
constexpr double kShortestPause = 0.1;
constexpr double kLongestPause = 1.5;

// Letters and '_', so that it is a file's name and nothing else.
bool is_plain(std::string_view name) {
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

}  // namespace

json ClusterExecutor::ask_registry(JobNumber number, const std::string& node, const json& request) {
  const auto refused = [](const Error& error) {
    const char* code = error.code == ErrorCode::kInvalidInput ? "invalid"
                       : error.code == ErrorCode::kRefused    ? "refused"
                                                              : "io";
    return json{{"error", error.message}, {"code", code}};
  };
  const std::optional<std::string> uid = is_on(number, node);
  if (!uid) {
    return refused({ErrorCode::kRefused,
                    fmt::format("{} is not a job of node {}", job_name_of(number), node)});
  }
  const auto registry = registry_of(number, *uid);
  const std::string op = text_of(request, "op");
  const std::string name = text_of(request, "name");
  if (name.empty() || name.size() > kLongestRecord || !is_plain(name)) {
    return refused(invalid_input("name: expected the name of a record"));
  }
  if (op == "get") {
    auto record = registry->get(name);
    if (!record.ok()) return refused(record.error());
    return {{"version", record->version}, {"value", std::move(record->value)}};
  }
  if (op == "at") {
    auto value = registry->at(name, whole_in(request, "version"));
    if (!value.ok()) return refused(value.error());
    return value->has_value() ? json{{"value", std::move(**value)}} : json::object();
  }
  if (op != "swap") return refused(invalid_input("op: expected get, at or swap"));
  const json* value = field_of(request, "value");
  if (value == nullptr || !value->is_string()) return refused(invalid_input("value: is missing"));
  const auto won =
      registry->compare_and_swap(name, whole_in(request, "expected"), value->get<std::string>());
  if (!won.ok()) return refused(won.error());
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  if (*won && job != jobs_.end()) ++job->second.changes;
  return {{"won", *won}};
}

// What an agent that begins a session needs to take the job over.
JobRecord ClusterExecutor::record_for(JobNumber number, const ClusterJob& job,
                                      const std::string& node) const {
  const ClusterJob::Part& part = job.parts.at(node);
  JobRecord record{.number = number, .document = job.document, .uid = job.uid};
  record.granted = part.devices;
  record.held = part.told;
  record.batch = job.batch;
  record.phase = job.ends() || part.over ? Phase::kCancelled : Phase::kRunning;
  record.progress = {{"events_offset", job.events_offset_of(node)}};
  record.errors = job.errors;
  return record;
}

void ClusterExecutor::take_notices(Node& node, const NodeReport& report) {
  for (const NumberedNotice& numbered : report.notices) {
    if (numbered.number != node.received + 1) continue;  // it was there before
    node.received = numbered.number;
    const JobNumber number = numbered.notice.job;
    if (!node.jobs.contains(number)) continue;
    take_notice(node, number, jobs_.at(number), numbered.notice);
  }
}

// What its nodes tell becomes what one executor tells of one job.
void ClusterExecutor::take_notice(Node& node, JobNumber number, ClusterJob& job, Notice notice) {
  const std::string& name = node.record.node.name;
  ClusterJob::Part& part = job.parts.at(name);
  unsettled_.insert(number);
  switch (notice.kind) {
    case Notice::Kind::kHeld:
      part.told = notice.devices;
      record_held(node);
      return;
    case Notice::Kind::kEvent: {
      std::int64_t& offset = part.guest ? job.node_offsets[name] : job.events_offset;
      offset = std::max(offset, whole_in(notice.body, "events_offset"));
      if (part.guest) notice.body["node"] = name;
      if (text_of(notice.body, "type") == "started") job.leader_node = name;
      break;
    }
    case Notice::Kind::kProgress:
      if (const std::string* speaker = job.speaker(); speaker == nullptr || *speaker != name)
        return;
      break;
    case Notice::Kind::kError:
      job.errors[text_of(notice.body, "kind")] = notice.body;
      break;
    case Notice::Kind::kStopped:  // told when all nodes are done
      if (notice.body.contains("left")) part.over = true;
      return;
    case Notice::Kind::kFinished:
    case Notice::Kind::kFailed:
      part.over = job.over = true;
      if (notice.kind == Notice::Kind::kFailed && part.guest) {
        notice.body["message"] = fmt::format("node {}: {}", name, text_of(notice.body, "message"));
      }
      // A result counts more than what another node says.
      if (!job.end || notice.kind == Notice::Kind::kFinished) job.end = std::move(notice);
      return;
    default:
      break;
  }
  notices_.push_back(std::move(notice));
}

void ClusterExecutor::take_states(const Node& node, const NodeReport& report) {
  std::map<JobNumber, const NodeReport::Job*> states;
  for (const NodeReport::Job& state : report.jobs) states[state.job] = &state;
  for (const JobNumber number : node.jobs) {
    ClusterJob& job = jobs_.at(number);
    ClusterJob::Part& part = job.parts.at(node.record.node.name);
    const auto state = states.find(number);
    if (state == states.end()) {
      const bool nothing = part.devices == 0 || part.over;
      if (nothing && report.obeyed >= part.changed) done_.insert({number, node.record.node.name});
      continue;
    }
    const NodeReport::Job& told = *state->second;
    if (told.members != part.members || told.view != part.view ||
        (told.called_runtime && !job.called_runtime)) {
      unsettled_.insert(number);
    }
    job.called_runtime = job.called_runtime || told.called_runtime;
    part.members = told.members;
    part.view = told.view;
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
    const ClusterJob& job = jobs_.at(number);
    const ClusterJob::Part& part = job.parts.at(node.record.node.name);
    orders.jobs.push_back({.job = number,
                           .uid = job.uid,
                           .document = job.document,
                           .devices = part.devices,
                           .batch = job.batch,
                           .cancelled = job.cancelled,
                           .at_once = node.hurries || job.at_once,
                           .guest = part.guest,
                           .events_offset = job.events_offset_of(node.record.node.name),
                           .changes = job.changes});
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
    // It asks again, and another daemon if it knows one.
    return Error{ErrorCode::kIo,
                 fmt::format("node {}: obeys a newer daemon than this one", report.node.name)};
  }
  Node& node = found->second;
  if (report.start < node.start) {
    return Error{
        ErrorCode::kRefused,
        fmt::format("node {}: another agent has taken over; this one must end", report.node.name)};
  }
  // If the daemon was out of reach, the others could not call either.
  if (hears_nobody()) {
    for (auto& [name, each] : nodes_) each.heard_at = Clock::now();
  }
  node.heard = true;
  node.heard_at = heard_anybody_at_ = Clock::now();
  node.leaving = report.leaving;
  node.use = report.use;
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
    jobs_.at(number).parts.at(report.node.name).changed = 1;
    done_.erase({number, report.node.name});
  }
  NodeOrders orders = orders_for(node);
  for (const JobNumber number : node.jobs) {
    orders.adopt.push_back(record_for(number, jobs_.at(number), report.node.name));
  }
  return orders;
}

std::vector<DeviceUse> ClusterExecutor::device_use() const {
  const MutexLock lock(mutex_);
  std::vector<DeviceUse> all;
  for (const auto& [name, node] : nodes_) {
    if (!node.heard || Clock::now() - node.heard_at > DeviceWatch::kOldest) continue;
    for (const DeviceUse& use : node.use) {
      all.push_back(use);
      // Only of a job that the daemon has there, whatever an agent says.
      if (!node.jobs.contains(use.job)) all.back().job = 0;
    }
  }
  return all;
}

double ClusterExecutor::pause() const {
  const auto heard = static_cast<double>(std::count_if(
      nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.heard; }));
  return std::clamp(heard / options_.calls_per_s, kShortestPause, kLongestPause);
}

}  // namespace rubato::control
