// Nodes whose agents call the daemon: they join, are drained, lost and removed.
#include <fmt/format.h>

#include <cstdio>

#include "control/live_controller.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::size_t kMostNodes = 10'000;
constexpr std::size_t kDigestLength = 64;

Error no_cluster() {
  return {ErrorCode::kRefused,
          "this daemon runs jobs on its own machine and has no other nodes; start rubatod with "
          "--cluster"};
}

Error no_node(const std::string& name) {
  return {ErrorCode::kNotFound, fmt::format("no node {}; rubato nodes lists them", name)};
}

std::string_view state_of(const NodeRecord& record, const ClusterExecutor::Contact& contact) {
  if (record.lost_at > 0) return "lost";
  if (record.drained_at == 0 && !contact.leaving) return "ready";
  return contact.jobs.empty() ? "drained" : "draining";
}

}  // namespace

void LiveController::use_cluster(ClusterExecutor* nodes, std::string join_token_sha256) {
  nodes_ = nodes;
  join_token_sha256_ = std::move(join_token_sha256);
}

std::optional<Caller> LiveController::agent_with(const std::string& token_sha256) const {
  if (nodes_ == nullptr) return std::nullopt;
  if (token_sha256 == join_token_sha256_) return Caller{.tenant = "", .joins = true};
  for (const auto& [name, node] : store_->state().nodes) {
    if (node.token_sha256 == token_sha256) return Caller{.tenant = "", .node = name};
  }
  return std::nullopt;
}

Status LiveController::record_node(const Event& event) {
  const std::string name = event.body.at("name").get<std::string>();
  const bool removed = event.type == "node_removed";
  if (Status durable = append({event}); !durable.ok()) return durable;
  if (removed) {
    nodes_->remove_node(name);
  } else {
    nodes_->set_node(store_->state().nodes.at(name));
  }
  return ok_status();
}

Status LiveController::admit(const Caller& caller, const NodeReport& report) {
  const auto& nodes = store_->state().nodes;
  const auto known = nodes.find(report.node.name);
  if (caller.joins) {
    if (report.token_sha256.size() != kDigestLength) {
      return invalid_input("token_sha256: expected the SHA-256 of the agent's own token");
    }
    if (known != nodes.end() && known->second.token_sha256 != report.token_sha256) {
      return Error{ErrorCode::kRefused,
                   fmt::format("there is a node {0} already; give this one another name with "
                               "--node, or remove that one: rubato nodes remove {0}",
                               report.node.name)};
    }
    if (known == nodes.end() && nodes.size() >= kMostNodes) {
      return Error{ErrorCode::kRefused,
                   fmt::format("there are {} nodes already, and there can be no more", kMostNodes)};
    }
  }
  if (!caller.joins && known == nodes.end()) return no_node(report.node.name);
  if (known != nodes.end() && known->second.node == report.node) return ok_status();
  json body = to_json(report.node);
  body["token_sha256"] = caller.joins ? report.token_sha256 : known->second.token_sha256;
  return record_node(given(caller, event("node", std::move(body))));
}

Result<NodeOrders> LiveController::sync_node(const Caller& caller, const NodeReport& report) {
  if (nodes_ == nullptr) return no_cluster();
  if (!caller.joins && caller.node != report.node.name) {
    return Error{ErrorCode::kForbidden,
                 fmt::format("this token is for node {}, not {}", caller.node, report.node.name)};
  }
  bool known = false;
  {
    const ReadLock lock(mutex_);
    const auto node = store_->state().nodes.find(report.node.name);
    known =
        !caller.joins && node != store_->state().nodes.end() && node->second.node == report.node;
  }
  if (!known) {
    const auto joined = ask<bool>([&]() -> Result<bool> {
      const Status done = admit(caller, report);
      if (!done.ok()) return done.error();
      return true;
    });
    if (!joined.ok()) return joined.error();
  }
  return nodes_->sync(report);
}

json LiveController::ask_registry(const Caller& caller, JobNumber job, const json& request) {
  if (nodes_ == nullptr) return {{"error", no_cluster().message}, {"code", "refused"}};
  return nodes_->ask_registry(job, caller.node, request);
}

json LiveController::nodes(const Caller& caller) const {
  json list = json::array();
  if (nodes_ == nullptr) {
    for (const LiveNode& node : live_cluster().nodes()) {
      json entry = to_json(node);
      entry.update({{"state", "ready"}, {"silent_s", 0}, {"jobs", json::array()}});
      list.push_back(std::move(entry));
    }
    return list;
  }
  const auto contacts = nodes_->contacts();
  const ReadLock lock(mutex_);
  const State& state = store_->state();
  for (const auto& [name, record] : state.nodes) {
    const auto found = contacts.find(name);
    const ClusterExecutor::Contact contact =
        found == contacts.end() ? ClusterExecutor::Contact() : found->second;
    json jobs = json::array();
    for (const JobNumber number : contact.jobs) {
      const auto job = state.jobs.find(number);
      if (job == state.jobs.end()) continue;
      if (!caller.admin && caller.tenant != job->second.tenant) continue;
      jobs.push_back({{"job", job_name_of(number)}, {"devices", job->second.held}});
    }
    json entry = to_json(record.node);
    entry.update({{"state", state_of(record, contact)},
                  {"silent_s", contact.silent_s},
                  {"joined_at", record.joined_at},
                  {"jobs", std::move(jobs)}});
    list.push_back(std::move(entry));
  }
  return list;
}

Status LiveController::change_node(const Caller& caller, const std::string& name, NodeChange change,
                                   double within_s) {
  if (nodes_ == nullptr) return no_cluster();
  const auto done = ask<bool>([&]() -> Result<bool> {
    const auto& nodes = store_->state().nodes;
    const auto node = nodes.find(name);
    if (node == nodes.end()) return no_node(name);
    const bool drained = node->second.drained_at > 0;
    if (change == NodeChange::kDrain && drained && within_s == 0) return true;
    if (change == NodeChange::kUndrain && !drained) return true;
    if (change == NodeChange::kRemove && node->second.lost_at == 0 &&
        !nodes_->contacts()[name].jobs.empty()) {
      return Error{ErrorCode::kRefused,
                   fmt::format("node {0} has jobs; drain it first: rubato drain {0}", name)};
    }
    const char* type = change == NodeChange::kDrain     ? "drained"
                       : change == NodeChange::kUndrain ? "undrained"
                                                        : "node_removed";
    json body = {{"name", name}};
    if (change == NodeChange::kDrain && within_s > 0) body["deadline"] = now_unix() + within_s;
    const Status recorded = record_node(given(caller, event(type, std::move(body))));
    if (!recorded.ok()) return recorded.error();
    return true;
  });
  return done.ok() ? ok_status() : Status(done.error());
}

void LiveController::watch_nodes() {
  if (nodes_ == nullptr) return;
  const auto note = [this](const std::string& text, const Event& event) {
    if (!record_node(event).ok()) return;
    fmt::print(stderr, "rubatod: {}\n", text);
  };
  for (const auto& [name, node] : store_->state().nodes) {
    if (node.deadline > 0 && now_unix() > node.deadline) nodes_->hurry(name);
  }
  for (const auto& [name, seconds] : nodes_->silent_nodes()) {
    note(fmt::format("node {} was not heard for {:.0f} s and is lost", name, seconds),
         event("node_lost", {{"name", name}, {"silent_s", seconds}}));
  }
  for (const std::string& name : nodes_->heard_lost_nodes()) {
    note(fmt::format("node {} is back", name), event("node_back", {{"name", name}}));
  }
  for (const std::string& name : nodes_->left_nodes()) {
    note(fmt::format("node {} has left", name), event("node_removed", {{"name", name}}));
  }
}

}  // namespace rubato::control
