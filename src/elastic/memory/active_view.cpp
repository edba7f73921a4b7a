#include "elastic/memory/active_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "elastic/data/node_sums.h"

namespace rubato::elastic {

namespace {

struct Input {
  LogicalRange range;
  const float* values = nullptr;
};

// In the order of their ranges.
std::vector<Input> inputs_of(ActiveView& active) {
  const View& view = active.view;
  const std::string& own = view.members[static_cast<std::size_t>(active.position)].address.node;
  std::vector<LogicalRange> hosts;
  for (const Member& member : view.members) hosts.push_back(member.hosts);
  std::vector<Input> inputs;
  for (const std::vector<std::size_t>& positions : view.positions_by_node()) {
    if (view.members[positions.front()].address.node != own) {
      active.spans_nodes = true;
      for (const NodeSum& sum : node_sums(view.logical_workers(), hosts, positions)) {
        const NodeSum::Source& place = sum.place();
        inputs.push_back({sum.range, active.segments[place.position]->buffer(place.buffer)});
      }
      continue;
    }
    for (const std::size_t member : positions) {
      for (const HostRoot& root : host_program(view.logical_workers(), hosts[member]).roots) {
        inputs.push_back({root.range, active.segments[member]->buffer(root.buffer)});
      }
    }
  }
  std::sort(inputs.begin(), inputs.end(),
            [](const Input& a, const Input& b) { return a.range.begin < b.range.begin; });
  return inputs;
}

}  // namespace

Result<std::shared_ptr<const ActiveView>> make_active_view(const View& view, int worker,
                                                           const Board& board,
                                                           const SegmentMap& segments) {
  const BoardShape shape = board.shape();
  const int position = view.position(worker);
  if (position < 0) {
    return invalid_input(fmt::format("view {} has no worker {}", view.number, worker));
  }
  const int logical_workers = view.logical_workers();
  if (logical_workers > shape.logical_workers) {
    return invalid_input(fmt::format("view {} hosts {} logical workers, but the job has {}",
                                     view.number, logical_workers, shape.logical_workers));
  }
  auto active = std::make_shared<ActiveView>();
  active->view = view;
  active->position = position;
  for (const Member& member : view.members) {
    const auto found = segments.find(member.address.id);
    if (found == segments.end()) {
      return invalid_input(fmt::format("the memory of worker {} is not mapped", member.address.id));
    }
    active->segments.push_back(found->second);
  }
  active->host =
      host_program(logical_workers, view.members[static_cast<std::size_t>(position)].hosts);
  const std::vector<Input> inputs = inputs_of(*active);
  std::vector<LogicalRange> ranges;
  for (const Input& input : inputs) {
    ranges.push_back(input.range);
    active->inputs.push_back(input.values);
  }
  Result<SumProgram> sum = SumProgram::make(logical_workers, ranges);
  if (!sum.ok()) return sum.error();
  active->sum = std::move(*sum);
  active->slice =
      owned_slice(shape.gradient_floats, static_cast<int>(view.members.size()), position);
  active->block = &board.block(view.number);
  return std::shared_ptr<const ActiveView>(std::move(active));
}

}  // namespace rubato::elastic
