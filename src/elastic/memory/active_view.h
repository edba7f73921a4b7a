// A view prepared for training: everything the training thread needs is mapped and computed, so
// switching to the view only exchanges a pointer.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "elastic/data/reduction_tree.h"
#include "elastic/job/view.h"
#include "elastic/memory/board.h"
#include "elastic/memory/worker_segment.h"

namespace rubato::elastic {

using SegmentMap = std::map<int, std::shared_ptr<const WorkerSegment>>;  // by worker

struct ActiveView {
  View view;
  int position = 0;  // of this worker among the members
  HostProgram host;  // what this worker computes
  // How the gradient is made of what the members of this worker's node export and what arrives from
  // each other node (node_sums.h).
  SumProgram sum;
  std::vector<const float*> inputs;
  Slice slice;  // the slice that this worker sums
  ViewBlock* block = nullptr;
  std::vector<std::shared_ptr<const WorkerSegment>> segments;  // keeps `inputs` mapped
  bool spans_nodes = false;

  bool alone() const { return view.members.size() == 1; }
  bool leads() const {
    return view.members[static_cast<std::size_t>(position)].address.id == view.leader;
  }
  MemberRow& row() const { return block->rows[static_cast<std::size_t>(position)]; }
};

// `segments` must contain all members of the view; `worker` must be one of them.
Result<std::shared_ptr<const ActiveView>> make_active_view(const View& view, int worker,
                                                           const Board& board,
                                                           const SegmentMap& segments);

}  // namespace rubato::elastic
