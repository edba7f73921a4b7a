// What the agent of a node and the daemon say to each other. There is one call, which the agent
// makes again and again (POST /api/v1/nodes/{node}/sync): it tells what its node has and what
// happened there, and gets everything that should be so. Both sides say what *is*, not what
// changed, so a call that is lost, repeated or late does no harm.
//
// A *session* is the conversation of one agent process with one daemon process. It begins with the
// list of jobs that the daemon knows to be on the node: the agent takes them over from their
// folders, with everything that happened since what the daemon has recorded, and ends all other
// jobs. So neither side needs to remember the conversation.
//
// The *epoch* of a daemon is greater than that of every earlier one with the same log. An agent
// obeys no daemon with a lower epoch than it has seen.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/device_use.h"
#include "control/job_executor.h"
#include "control/live_node.h"
#include "control/state.h"

namespace rubato::control {

// A notice with its number in the session: 1, 2, 3, ...
struct NumberedNotice {
  std::int64_t number = 0;
  Notice notice;
};

struct NodeReport {
  LiveNode node;
  std::string token_sha256{};  // of its agent's token; only when it joins
  bool leaving = false;        // it wants no jobs, and to be forgotten once it has none
  std::int64_t start = 0;      // which start of the agent this is: 1, 2, 3, ...
  std::string session;         // of the daemon's last answer; empty: there was none
  std::int64_t epoch = 0;      // the highest that the agent has seen
  // The newest orders that it has carried out: `held` and the notices are from after that.
  std::int64_t obeyed = 0;
  struct Job {
    JobNumber job = 0;
    int held = 0;  // devices
    bool called_runtime = false;
    std::int64_t view = 0;  // the newest that its launcher knows
    int members = 0;        // processes that are or were in a view
  };
  std::vector<Job> jobs{};                // all with which it is not done
  std::vector<NumberedNotice> notices{};  // not acknowledged yet; the others follow
  std::vector<DeviceUse> use{};           // of its devices, as far as the driver tells
};

struct NodeOrders {
  std::string store;  // identity of the daemon's log
  std::int64_t epoch = 0;
  std::string session;
  std::int64_t number = 0;        // of these orders in the session: 1, 2, 3, ...
  std::int64_t acknowledged = 0;  // the last notice that has arrived
  // What the agent has of jobs from an earlier life of its node is not theirs any more
  // (NodeRecord::life).
  std::int64_t life = 0;
  // Only in the first orders of a session: the jobs that are on the node, as they are recorded.
  std::vector<JobRecord> adopt{};
  struct Job {
    JobNumber job = 0;
    std::string uid{};
    JobDocument document{};
    int devices = 0;  // 0: checkpoint and stop
    std::int64_t batch = 0;
    bool cancelled = false;
    bool at_once = false;            // with 0 devices: kill it, there is no time for a checkpoint
    bool guest = false;              // the job was begun on another node, or it goes on there
    std::int64_t events_offset = 0;  // up to which the daemon has its events.jsonl
    std::int64_t changes = 0;        // of its registry, as far as the daemon knows; for its watches
  };
  std::vector<Job> jobs{};  // all that concern the node; the agent is done with every other job
  double next_s = 0.1;      // when to call again
};

nlohmann::json to_json(const NodeReport& report);
nlohmann::json to_json(const NodeOrders& orders);
// Everything is checked like something that a stranger wrote. `device_type` of what a job holds is
// that of the node.
Result<NodeReport> node_report_from(const nlohmann::json& object);
Result<NodeOrders> node_orders_from(const nlohmann::json& object);

// The most notices in one report; the others wait for the next one.
inline constexpr std::size_t kMostNotices = 200;
// And the most bytes of their bodies.
inline constexpr std::size_t kMostNoticeBytes = 400'000;

}  // namespace rubato::control
