// The nodes on which jobs can run, as an executor offers them, and as the scheduler sees them: with
// numbers in place of names. Immutable; a copy is a reference to the same data.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/job_placement.h"
#include "control/live_node.h"
#include "control/machine.h"
#include "model/cluster.h"
#include "sched/allocation.h"

namespace rubato::control {

struct JobDocument;
struct JobRecord;

// Whether workers of the job can be on several nodes: an adaptive job shares a node's memory, and a
// program that does not use the runtime has one process.
bool spans_nodes(const JobDocument& document);
LiveNode node_of(const Machine& machine);
// The nodes with all their devices, as events have them.
nlohmann::json nodes_json(std::span<const LiveNode> nodes);
// The nodes of an event `started` or `nodes`. Those of early versions do not name any.
std::vector<LiveNode> nodes_of_event(const nlohmann::json& body);

class LiveCluster {
 public:
  // Without nodes.
  LiveCluster();
  // One node.
  LiveCluster(const Machine& machine);  // NOLINT(google-explicit-constructor): a cluster of one
  // Refused: a name that is used twice or is none, a node without devices, and more device types
  // than a scheduler can tell apart (kMaxDeviceTypes).
  static Result<LiveCluster> make(std::vector<LiveNode> nodes, bool keeps_some_together = false);

  std::span<const LiveNode> nodes() const { return data_->nodes; }
  bool has_one_node() const { return data_->nodes.size() == 1; }
  // Whether a job that cannot use several nodes may get devices on one only (spans_nodes).
  bool keeps_some_together() const { return data_->keeps_some_together; }
  int devices() const { return data_->cluster.devices(); }
  // Of all devices, joined by ", " if there are several.
  const std::string& device_types() const { return data_->types; }
  bool has_type(std::string_view device_type) const;
  // The most devices that such a job can have: of its type, or of any single one if it names none.
  int most_devices(const JobDocument& document) const;
  // The type on which the job runs, or would run if nothing else is known: what it asks for, what
  // it has, or the type of the first node.
  std::string type_of(const JobRecord& job) const;
  // "this machine", or "the cluster" if there are several nodes.
  const char* here() const { return has_one_node() ? "this machine" : "the cluster"; }

  // Nodes are numbered in the order of nodes().
  const Cluster& cluster() const { return data_->cluster; }
  // What the record says that the job was granted. Devices of nodes that are not there, or have
  // another type of devices now, are left out. A record that does not say where the devices are
  // means unnamed_placement().
  Allocation allocation_of(const JobRecord& job) const;
  JobPlacement placement_of(const Allocation& allocation) const;

 private:
  struct Data {
    std::vector<LiveNode> nodes;
    Cluster cluster;
    std::string types;
    std::map<std::string, NodeId, std::less<>> ids;
    bool keeps_some_together = false;
  };
  explicit LiveCluster(std::vector<LiveNode> nodes, bool keeps_some_together = false);

  std::shared_ptr<const Data> data_;
};

// How many devices of each node are reserved if so many are in all, as LiveScheduler::set_reserved
// takes them: of the first type as far as it has so many, then of the next; of each type, those of
// its last nodes.
std::vector<int> reserved_on(const LiveCluster& cluster, int devices);

}  // namespace rubato::control
