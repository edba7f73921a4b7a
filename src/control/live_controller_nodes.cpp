// The nodes on which jobs run: what the executor says of them, what the log says, and what callers
// are shown.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "control/live_controller.h"

namespace rubato::control {

namespace {

// Every node, and how many of its devices are granted and held.
nlohmann::json nodes_now(const LiveCluster& cluster, const State& state) {
  std::map<std::string, std::pair<int, int>> used;
  for (const auto& [number, job] : state.jobs) {
    for (const NodeDevices& part : job.nodes) used[part.node].first += part.devices;
    for (const NodeDevices& part : job.held_nodes) used[part.node].second += part.devices;
  }
  nlohmann::json nodes = nlohmann::json::array();
  for (const LiveNode& node : cluster.nodes()) {
    const auto [granted, held] = used[node.name];
    nodes.push_back({{"node", node.name},
                     {"device_type", node.device_type},
                     {"devices", node.devices},
                     {"granted", granted},
                     {"held", held},
                     {"labels", node.labels}});
  }
  return nodes;
}

}  // namespace

void LiveController::name_nodes() {
  std::vector<Event> events;
  for (const auto& [number, job] : store_->state().jobs) {
    if (job.granted == 0) continue;
    const JobPlacement today = executor_->named_today(job.nodes);
    if (today == job.nodes || devices_on(today) != job.granted) continue;
    events.push_back(about(job, "placed", {{"nodes", placement_json(today)}}));
  }
  static_cast<void>(append(std::move(events)));
}

LiveCluster LiveController::live_cluster() const {
  const MutexLock lock(cluster_mutex_);
  return cluster_;
}

void LiveController::follow_nodes() {
  const std::span<const LiveNode> nodes = executor_->nodes();
  const LiveCluster before = live_cluster();
  if (std::equal(nodes.begin(), nodes.end(), before.nodes().begin(), before.nodes().end())) return;
  const auto cluster =
      LiveCluster::make({nodes.begin(), nodes.end()}, executor_->keeps_some_together());
  if (!cluster.ok()) {
    const std::string message =
        cluster.error().message + "; jobs get devices of the nodes that were there before";
    if (message == refused_nodes_) return;
    refused_nodes_ = message;
    fmt::print(stderr, "rubatod: {}\n", message);
    static_cast<void>(append({event("warning", {{"message", message}})}));
    return;
  }
  refused_nodes_ = "";
  {
    const MutexLock lock(cluster_mutex_);
    cluster_ = *cluster;
  }
  static_cast<void>(append({event("nodes", {{"devices", cluster->devices()},
                                            {"device_type", cluster->device_types()},
                                            {"nodes", nodes_json(cluster->nodes())}})}));
  start_scheduler();
}

Profile LiveController::known_profile_of(const JobRecord& job) const {
  return known_profile(store_->state(), job, live_cluster().type_of(job));
}

nlohmann::json LiveController::cluster(const Caller& caller) const {
  const ReadLock lock(mutex_);
  const State& state = store_->state();
  int granted = 0;
  int held = 0;
  double training = 0;
  int queued = 0;
  nlohmann::json holders = nlohmann::json::array();
  for (const auto& [number, job] : state.jobs) {
    granted += job.granted;
    held += job.held;
    queued += job.phase == Phase::kQueued ? 1 : 0;
    const auto live = live_.find(number);
    if (live != live_.end() && job.held > 0) training += live->second.progress.workers;
    if (job.held == 0 && job.granted == 0) continue;
    if (!caller.admin && caller.tenant != job.tenant) continue;
    holders.push_back({{"job", job_name_of(number)},
                       {"name", job_title(job.document)},
                       {"granted", job.granted},
                       {"nodes", placement_json(job.nodes)},
                       {"held", job.held},
                       {"held_nodes", placement_json(job.held_nodes)}});
  }
  const int reserved = reserved_now();
  const LiveCluster cluster = live_cluster();
  return {{"device_type", cluster.device_types()},
          {"devices", cluster.devices()},
          {"nodes", nodes_now(cluster, state)},
          {"reserved", reserved},
          {"allocated", granted},
          {"held", held},
          {"training", training},
          {"free", std::max(0, cluster.devices() - reserved - held)},
          {"queued", queued},
          {"supply", now_unix() < state.supply_until ? state.supply : ""},
          {"policy", state.policy},
          {"policy_settings", nlohmann::json(state.policy_settings)},
          {"jobs", std::move(holders)}};
}

}  // namespace rubato::control
