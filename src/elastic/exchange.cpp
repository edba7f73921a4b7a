#include "elastic/exchange.h"

namespace rubato::elastic {

void mark_completed(const Board& board, std::int64_t step) {
  if (board.completed() < step) board.completed() = step;
}

bool exchange(const Board& board, const ActiveView& view, std::int64_t step, float scale,
              ExchangeGuard& guard) {
  MemberRow& row = view.row();
  const auto interrupted = [&] { return guard.interrupted(); };
  if (!guard.publish([&] { row.arrived = step; })) return false;
  if (!board.wait([&] { return view.block->all_arrived(step); }, interrupted)) return false;
  board.gradient_step(step) = -1;
  view.sum.run(view.inputs, scale, board.gradient(step), view.slice.begin, view.slice.end);
  if (!guard.publish([&] { row.reduced = step; })) return false;
  if (!board.wait([&] { return view.block->all_reduced(step); }, interrupted)) return false;
  // Only a worker that is not frozen may conclude that the step is complete: a worker that the
  // others have given up might publish late.
  return guard.publish([&] {
    mark_completed(board, step);
    board.gradient_step(step) = step;
  });
}

}  // namespace rubato::elastic
