#include "elastic/memory/active_view.h"

#include <fmt/format.h>

#include <utility>

namespace rubato::elastic {

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
  std::vector<LogicalRange> roots;
  for (const Member& member : view.members) {
    const auto found = segments.find(member.address.id);
    if (found == segments.end()) {
      return invalid_input(fmt::format("the memory of worker {} is not mapped", member.address.id));
    }
    active->segments.push_back(found->second);
    HostProgram host = host_program(logical_workers, member.hosts);
    for (const HostRoot& root : host.roots) {
      roots.push_back(root.range);
      active->inputs.push_back(found->second->buffer(root.buffer));
    }
    if (member.address.id == worker) active->host = std::move(host);
  }
  Result<SumProgram> sum = SumProgram::make(logical_workers, roots);
  if (!sum.ok()) return sum.error();
  active->sum = std::move(*sum);
  active->slice =
      owned_slice(shape.gradient_floats, static_cast<int>(view.members.size()), position);
  active->block = &board.block(view.number);
  return std::shared_ptr<const ActiveView>(std::move(active));
}

}  // namespace rubato::elastic
