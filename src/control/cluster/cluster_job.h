// A job on the nodes of a cluster: what it should have, the nodes that it is on, and what is to be
// done next. It knows no nodes that it is not on, no clock and no files; ClusterExecutor tells it
// what it needs and carries out what it decides.
//
//   on no node ──devices wanted──▶ begun on one node ──its program uses the runtime──▶ joined by
//   the other wanted nodes, left by those that are not wanted any more ──everything is copied──▶
//   on no node
//
// Only a job that spans nodes (live_cluster.h) is on several. It *restarts* if none of its workers
// is left although it is on several nodes, or if it cannot move without a stop: all nodes give it
// up, and it begins on one node with the daemon's copy of its folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/job_document.h"
#include "control/job_executor.h"
#include "control/job_placement.h"

namespace rubato::control {

class ClusterJob {
 public:
  using Clock = std::chrono::steady_clock;

  // The job on one node.
  struct Part {
    bool guest = false;        // it was begun on another node
    int devices = 0;           // that the node should give it
    int told = 0;              // devices that it holds there, as the node told last
    int held = 0;              // as much of `told` as is recorded
    bool over = false;         // its launcher has ended by itself, and is not started again
    std::int64_t changed = 0;  // the first orders for the node that say what is wanted now
    std::int64_t view = 0;     // as its launcher told last
    int members = 0;
    std::optional<Clock::time_point> leaves_since{};  // it should, and waits for others to be ready
  };

  std::string uid{};
  JobDocument document{};
  JobPlacement wanted{};
  std::int64_t batch = 0;
  bool cancelled = false;
  bool over = false;                    // it has finished or failed
  bool called_runtime = false;          // its program has
  bool shares = false;                  // nodes have what they need to join: settings and secret
  std::string home{};                   // the node on which it was begun last
  std::string leader_node{};            // whose worker said last what a step of the job is
  std::map<std::string, Part> parts{};  // by node
  std::int64_t changes = 0;             // of its registry
  std::int64_t events_offset = 0;
  std::map<std::string, std::int64_t> node_offsets{};  // of guests
  nlohmann::json errors = nlohmann::json::object();
  std::optional<Notice> end{};  // told when all nodes are done with it
  bool restarts = false;
  bool at_once = false;  // there is nothing to save
  std::optional<Clock::time_point> nobody_since{};
  Clock::time_point next_look{};

  bool ends() const { return cancelled || over; }
  bool is_wanted() const { return !ends() && !wanted.empty(); }
  int wanted_on(const std::string& node) const;
  int held() const;
  // Up to which the events are known that this node tells of.
  std::int64_t events_offset_of(const std::string& node) const;
  bool has_members() const;
  // The node whose agent tells of its progress: the leader's, which knows how many steps there are.
  // Null: it is not known, and whoever sees the progress tells of it.
  const std::string* speaker() const;

  // Decides what each node should give. Returns the nodes whose orders change.
  std::vector<std::string> settle(Clock::time_point now);
  // Nodes that should take it up besides those that it is on.
  std::vector<std::string> newcomers() const;
  // Whether nobody trains, by what its nodes told last.
  bool may_have_nobody() const;
  // Whether all its workers are gone for good, and none of its nodes may begin it again: `view` is
  // the newest, and has no members if it is `empty`.
  bool nobody_left(std::int64_t view, bool empty, Clock::time_point now);
  // Whether more is to be done than waiting for its nodes.
  bool unsettled() const;

 private:
  int devices_on(const std::string& node, Part& part, Clock::time_point now);
  bool may_leave(const std::string& node) const;
};

}  // namespace rubato::control
