#include "elastic/job/node_status.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"

namespace rubato::elastic {

using std::chrono::steady_clock;

// The status of a worker may be slightly older than the view.
static constexpr auto kSettled = 5 * kNodeBeat;

Status write_node_status(const JobFolder& folder, const std::string& node,
                         const NodeStatus& status) {
  Status made = make_directories(folder.path() + "/nodes");
  if (!made.ok()) return made;
  const nlohmann::json value = {{"workers", status.workers}, {"beat", status.beat}};
  return write_file(folder.node_file(node), compact_json(value) + "\n");
}

Result<NodeStatus> read_node_status(const JobFolder& folder, const std::string& node) {
  if (!is_file(folder.node_file(node))) return NodeStatus{};
  Result<std::string> text = read_file(folder.node_file(node));
  if (!text.ok()) return text.error();
  try {
    const nlohmann::json value = parse_json_or_throw(*text);
    return NodeStatus{.workers = value.at("workers").get<std::vector<int>>(),
                      .beat = value.at("beat").get<std::int64_t>()};
  } catch (const nlohmann::json::exception& error) {
    return invalid_input(folder.node_file(node) + ": " + error.what());
  }
}

void remove_node_status(const JobFolder& folder, const std::string& node) {
  unlink(folder.node_file(node).c_str());
}

NodeWatch::Seen& NodeWatch::seen(const std::string& node) {
  const auto [entry, fresh] = nodes_.try_emplace(node);
  if (fresh) entry->second.changed = steady_clock::now();
  return entry->second;
}

void NodeWatch::look() {
  for (auto& [node, seen] : nodes_) {
    const Result<NodeStatus> status = read_node_status(folder_, node);
    if (!status.ok()) continue;
    if (status->beat != seen.status.beat || status->workers != seen.status.workers) {
      seen.changed = steady_clock::now();
    }
    seen.status = *status;
  }
}

bool NodeWatch::launcher_alive(const std::string& node) {
  return steady_clock::now() - seen(node).changed < patience_;
}

bool NodeWatch::any_alive(const View& view) {
  bool others = false;
  for (const Member& member : view.members) {
    if (member.address.node == own_) continue;
    static_cast<void>(seen(member.address.node));
    others = true;
  }
  if (!others) return false;
  look();
  const bool alive =
      std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
        if (member.address.node == own_ || !launcher_alive(member.address.node)) return false;
        const NodeStatus& status = seen(member.address.node).status;
        return status.beat == 0 || std::find(status.workers.begin(), status.workers.end(),
                                             member.address.id) != status.workers.end();
      });
  const auto now = steady_clock::now();
  if (alive || dead_view_ != view.number) dead_since_ = now;
  dead_view_ = view.number;
  return now - dead_since_ < kSettled;
}

}  // namespace rubato::elastic
