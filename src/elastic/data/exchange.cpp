#include "elastic/data/exchange.h"

#include <algorithm>

namespace rubato::elastic {

void mark_completed(const Board& board, std::int64_t step) {
  // Never move backwards: a leaving worker may get here late, when the others are steps ahead.
  std::int64_t known = board.completed();
  while (known < step && !board.completed().compare_exchange_weak(known, step)) {
  }
}

namespace {

// For other nodes part by part, so that a part can be sent while the next one is summed.
void sum_slice(const Board& board, const ActiveView& view, std::int64_t step, float scale) {
  const std::size_t part = view.spans_nodes ? kSlicePart : view.slice.end - view.slice.begin;
  std::size_t parts = 0;
  for (std::size_t begin = view.slice.begin; begin < view.slice.end; begin += part) {
    const std::size_t end = std::min(view.slice.end, begin + part);
    view.sum.run(view.inputs, scale, board.gradient(step), begin, end);
    if (end == view.slice.end) break;
    view.row().note_summed(step, ++parts);
    board.pulse();
  }
}

}  // namespace

bool exchange(const Board& board, const ActiveView& view, std::int64_t step, float scale,
              ExchangeGuard& guard) {
  MemberRow& row = view.row();
  const auto interrupted = [&] { return guard.interrupted(); };
  if (!guard.publish([&] { row.arrived = step; })) return false;
  if (!board.wait([&] { return view.block->all_arrived(step); }, interrupted)) return false;
  const std::int64_t being_written = -2 - step;
  board.gradient_step(step) = being_written;
  write_barrier();
  sum_slice(board, view, step, scale);
  if (!guard.publish([&] { row.reduced = step; })) return false;
  if (!board.wait([&] { return view.block->goes_on_after(step); }, interrupted)) return false;
  // Only a worker that is not frozen may conclude that the step is complete: a worker that the
  // others have declared lost might publish late.
  return guard.publish([&] {
    // For the same reason, the memory may already hold a later step's gradient.
    std::int64_t expected = being_written;
    board.gradient_step(step).compare_exchange_strong(expected, step);
    // Afterwards: a newcomer that finds the step complete, but not its gradient, starts over.
    mark_completed(board, step);
  });
}

}  // namespace rubato::elastic
