#include "control/cluster/cluster_job.h"

#include <algorithm>

#include "control/live_cluster.h"

namespace rubato::control {

namespace {

// A node that a job leaves waits so long for the job's workers on other nodes. They may wait in
// turn for devices of jobs that want to leave for this node.
constexpr auto kMovePatience = std::chrono::seconds(20);
// What nodes tell may be slightly older than the newest view.
constexpr auto kNobodyFor = std::chrono::milliseconds(1500);

}  // namespace

int ClusterJob::wanted_on(const std::string& node) const {
  int devices = 0;
  for (const NodeDevices& part : wanted) devices += part.node == node ? part.devices : 0;
  return devices;
}

int ClusterJob::held() const {
  int devices = 0;
  for (const auto& [node, part] : parts) devices += part.held;
  return devices;
}

std::int64_t ClusterJob::events_offset_of(const std::string& node) const {
  const auto part = parts.find(node);
  if (part == parts.end() || !part->second.guest) return events_offset;
  const auto offset = node_offsets.find(node);
  return offset == node_offsets.end() ? 0 : offset->second;
}

bool ClusterJob::has_members() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& entry) { return entry.second.members > 0; });
}

const std::string* ClusterJob::speaker() const {
  const auto leader = parts.find(leader_node);
  if (leader != parts.end() && !leader->second.over && leader->second.members > 0) {
    return &leader->first;
  }
  return nullptr;
}

// Others train and stay for now, so nothing is lost. They need not be wanted: if nodes come and go
// faster than workers get ready, there may be no wanted one with members for long.
bool ClusterJob::may_leave(const std::string& node) const {
  return std::any_of(parts.begin(), parts.end(), [&](const auto& entry) {
    return entry.first != node && entry.second.members > 0 && !entry.second.over &&
           entry.second.devices > 0;
  });
}

int ClusterJob::devices_on(const std::string& node, Part& part, Clock::time_point now) {
  if (ends() || restarts || part.over || wanted.empty()) return 0;
  const int devices = wanted_on(node);
  const bool moves = devices == 0 && part.devices > 0 && part.members > 0 && spans_nodes(document);
  if (!moves || may_leave(node)) {
    part.leaves_since.reset();
    return devices;
  }
  if (!part.leaves_since) part.leaves_since = now;
  if (now - *part.leaves_since < kMovePatience) return part.devices;
  restarts = true;
  return 0;
}

std::vector<std::string> ClusterJob::settle(Clock::time_point now) {
  std::vector<std::string> changed;
  const bool restarted = restarts;
  for (auto& [node, part] : parts) {
    const int devices = devices_on(node, part, now);
    if (devices == part.devices) continue;
    part.devices = devices;
    changed.push_back(node);
  }
  return restarted == restarts ? changed : settle(now);  // the first parts, too
}

std::vector<std::string> ClusterJob::newcomers() const {
  std::vector<std::string> nodes;
  if (!is_wanted() || end) return nodes;
  if (restarts && !parts.empty()) return nodes;  // all give it up first
  const bool joinable = spans_nodes(document) && called_runtime && shares && has_members();
  for (const NodeDevices& part : wanted) {
    if (part.devices > 0 && !parts.contains(part.node)) nodes.push_back(part.node);
  }
  if (parts.empty() && !nodes.empty()) {
    const auto most = std::max_element(
        wanted.begin(), wanted.end(),
        [](const NodeDevices& a, const NodeDevices& b) { return a.devices < b.devices; });
    return {most->node};
  }
  return joinable ? nodes : std::vector<std::string>();
}

bool ClusterJob::may_have_nobody() const {
  return spans_nodes(document) && !parts.empty() && !restarts && !ends() && !has_members();
}

bool ClusterJob::nobody_left(std::int64_t view, bool empty, Clock::time_point now) {
  // The node on which it was begun begins it again after an empty view, and after one of its own.
  const bool possible = may_have_nobody() && view > 0 &&
                        std::all_of(parts.begin(), parts.end(), [&](const auto& entry) {
                          const Part& part = entry.second;
                          return part.over || (part.view == view && (part.guest || !empty));
                        });
  if (!possible) {
    nobody_since.reset();
    return false;
  }
  if (!nobody_since) nobody_since = now;
  return now - *nobody_since >= kNobodyFor;
}

bool ClusterJob::unsettled() const {
  if (parts.empty()) return end.has_value() || restarts || is_wanted();
  if (restarts || !newcomers().empty()) return true;
  if (may_have_nobody()) return true;
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& entry) { return entry.second.leaves_since.has_value(); });
}

}  // namespace rubato::control
