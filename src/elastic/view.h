// A view: an immutable membership of a job. Decided by one compare-and-swap in the registry.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/logical_range.h"

namespace rubato::elastic {

// How to reach a worker: its control port, its process, its shared memory. Process and memory mean
// something to workers of the same node only.
struct WorkerAddress {
  int id = -1;  // given by the launcher, never reused within a job
  std::string node;
  std::string host = "127.0.0.1";
  int port = 0;
  std::int64_t pid = 0;
  std::string segment;  // of elastic/worker_segment.h
  std::string board;    // of elastic/board.h, which the workers of its node share
};

struct Member {
  WorkerAddress address;
  LogicalRange hosts;
};

struct View {
  std::int64_t number = 0;      // 1, 2, ...; the registry's version of it
  std::int64_t first_step = 0;  // valid from this step on
  std::string cause;  // start, join, leave, migrate, replace, failure, rebalance, batch, ...
  int leader = -1;
  std::string board;  // of the leader's node
  std::vector<Member> members;
  std::int64_t batch = 0;  // samples per step over all logical workers
  double prepare_s = 0;    // from the request to the commitment

  bool empty() const { return members.empty(); }  // between incarnations of a job
  const Member* find(int worker) const;
  int position(int worker) const;  // -1 when it is no member
  std::vector<int> ids() const;
  int logical_workers() const { return members.empty() ? 0 : members.back().hosts.end; }
  // It begins at a step boundary of the view before, which announces it. Others are started by
  // message, by a founder or after a failure.
  bool planned() const { return cause != "start" && cause != "restart" && cause != "failure"; }
};

nlohmann::json to_json(const WorkerAddress& address);
nlohmann::json to_json(const View& view);
// Strict: every field must be there, ranges must partition [0, N) in order, ids be distinct, the
// leader a member (unless there are none).
Result<WorkerAddress> parse_address(const nlohmann::json& json);
Result<View> parse_view(const nlohmann::json& json);

}  // namespace rubato::elastic
