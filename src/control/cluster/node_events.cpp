#include "control/cluster/node_events.h"

#include <fmt/format.h>

namespace rubato::control {

namespace {

Error refused(const Event& event, const std::string& problem) {
  return invalid_input(fmt::format("event '{}': {}", event.type, problem));
}

Result<NodeRecord*> known_node(State& state, const Event& event) {
  const auto name = event.body.value("name", std::string());
  const auto found = state.nodes.find(name);
  if (found == state.nodes.end()) return refused(event, fmt::format("no node '{}'", name));
  return &found->second;
}

// Sets a moment that says since when something is so.
Status note_since(State& state, const Event& event, double NodeRecord::*moment, bool so) {
  const auto node = known_node(state, event);
  if (!node) return node.error();
  (*node)->*moment = so ? event.at : 0;
  return ok_status();
}

}  // namespace

Status node_joined(State& state, const Event& event) {
  auto node = live_node_from(event.body);
  if (!node) return refused(event, node.error().message);
  NodeRecord& record = state.nodes[node->name];
  if (record.joined_at == 0) {
    record.joined_at = event.at;
    record.life = event.seq;
  }
  record.token_sha256 = event.body.value("token_sha256", std::string());
  record.node = std::move(*node);
  return ok_status();
}

Status node_removed(State& state, const Event& event) {
  const auto node = known_node(state, event);
  if (!node) return node.error();
  state.nodes.erase(event.body.at("name").get<std::string>());
  return ok_status();
}

Status node_lost(State& state, const Event& event) {
  const auto node = known_node(state, event);
  if (node.ok()) (*node)->life = event.seq;
  return note_since(state, event, &NodeRecord::lost_at, true);
}
Status node_back(State& state, const Event& event) {
  return note_since(state, event, &NodeRecord::lost_at, false);
}
Status node_drained(State& state, const Event& event) {
  const auto node = known_node(state, event);
  if (node.ok()) (*node)->deadline = event.body.value("deadline", 0.0);
  return note_since(state, event, &NodeRecord::drained_at, true);
}
Status node_undrained(State& state, const Event& event) {
  const auto node = known_node(state, event);
  if (node.ok()) (*node)->deadline = 0;
  return note_since(state, event, &NodeRecord::drained_at, false);
}

}  // namespace rubato::control
