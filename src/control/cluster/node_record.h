// A machine whose agent has joined, as the log and the tables know it. It stays known, with its
// devices, while its agent is away or the daemon is restarted.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "control/live_node.h"

namespace rubato::control {

struct NodeRecord {
  LiveNode node;
  std::string token_sha256{};  // of its agent's token
  double joined_at = 0;        // seconds since 1970
  double drained_at = 0;       // since when it gets no jobs; 0: it does
  double deadline = 0;         // of the drain: what still runs then is killed; 0: it has none
  double lost_at = 0;          // since when its agent counts as gone; 0: it does not
  // Number of the event with which it joined or was last lost. What an agent has of an earlier life
  // is not the daemon's any more.
  std::int64_t life = 0;
  bool operator==(const NodeRecord&) const = default;

  // Whether jobs can be placed there.
  bool usable() const { return drained_at == 0 && lost_at == 0; }
};

nlohmann::json to_json(const NodeRecord& record);  // with token_sha256: not for the API
Result<NodeRecord> node_record_from(const nlohmann::json& object);

// {"name", "device_type", "devices", "labels"}, and back. What comes back is checked like something
// that a stranger wrote.
nlohmann::json to_json(const LiveNode& node);
Result<LiveNode> live_node_from(const nlohmann::json& object);

}  // namespace rubato::control
