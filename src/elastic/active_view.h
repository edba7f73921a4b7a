// A view made ready for training: everything the training thread needs is mapped and computed, so
// that switching to it is the exchange of a pointer.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "elastic/board.h"
#include "elastic/reduction_tree.h"
#include "elastic/view.h"
#include "elastic/worker_segment.h"

namespace rubato::elastic {

using SegmentMap = std::map<int, std::shared_ptr<const WorkerSegment>>;  // by worker

struct ActiveView {
  View view;
  int position = 0;                  // of this worker among the members
  HostProgram host;                  // what this worker computes
  SumProgram sum;                    // how the exported roots become the gradient
  std::vector<const float*> inputs;  // the roots of all members, in order
  Slice slice;                       // whose sum this worker finishes
  ViewBlock* block = nullptr;
  std::vector<std::shared_ptr<const WorkerSegment>> segments;  // keeps `inputs` mapped

  bool alone() const { return view.members.size() == 1; }
  bool leads() const {
    return view.members[static_cast<std::size_t>(position)].address.id == view.leader;
  }
  MemberRow& row() const { return block->rows[static_cast<std::size_t>(position)]; }
};

// `segments` must hold all members of the view, of which `worker` is one.
Result<std::shared_ptr<const ActiveView>> make_active_view(const View& view, int worker,
                                                           const Board& board,
                                                           const SegmentMap& segments);

}  // namespace rubato::elastic
