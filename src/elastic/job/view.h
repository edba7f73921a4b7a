// A view: an immutable membership of a job. One compare-and-swap in the registry decides each view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/data/logical_range.h"

namespace rubato::elastic {

// How to reach a worker: its control port, its process, its shared memory. Process and memory are
// meaningful only to workers of the same node.
struct WorkerAddress {
  int id = -1;  // assigned by the launcher, never reused within a job
  std::string node;
  std::string host = "127.0.0.1";
  int port = 0;
  std::int64_t pid = 0;
  std::string segment;  // name of its memory, see elastic/memory/worker_segment.h
  std::string
      board;  // name of the board that the workers of its node share, see elastic/memory/board.h
};

struct Member {
  WorkerAddress address;
  LogicalRange hosts;
};

struct View {
  std::int64_t number = 0;      // 1, 2, ...; equal to the record's version in the registry
  std::int64_t first_step = 0;  // the view is valid from this step on
  std::string cause;  // start, join, leave, migrate, replace, failure, rebalance, batch, ...
  int leader = -1;
  std::string board;  // of the leader's node
  std::vector<Member> members;
  std::int64_t batch = 0;   // samples per step over all logical workers
  double prepare_s = 0;     // seconds from the request to the commit
  std::int64_t audits = 0;  // Target::audits that it has answered
  bool audit = false;       // its first step is audited because the owner asked for it

  bool empty() const { return members.empty(); }  // between incarnations of a job
  const Member* find(int worker) const;
  int position(int worker) const;  // -1 if it is not a member
  std::vector<int> ids() const;
  // The positions of the members of each node, ascending; nodes in the order of their first
  // members.
  std::vector<std::vector<std::size_t>> positions_by_node() const;
  int logical_workers() const { return members.empty() ? 0 : members.back().hosts.end; }
  // A planned view begins at a step boundary of the previous view, which announces it. The others
  // are started by a message, from a founder or after a failure.
  bool planned() const { return cause != "start" && cause != "restart" && cause != "failure"; }
};

nlohmann::json to_json(const WorkerAddress& address);
nlohmann::json to_json(const View& view);
// Strict: every field must be present, the ranges must partition [0, N) in order, ids must be
// distinct, and the leader must be a member (unless there are no members).
Result<WorkerAddress> parse_address(const nlohmann::json& json);
Result<View> parse_view(const nlohmann::json& json);

}  // namespace rubato::elastic
