// What the streams between nodes read and write on a node: its board and, in an adaptive job, the
// data board beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "elastic/memory/board.h"
#include "elastic/memory/data_board.h"
#include "elastic/transport/stream.h"

namespace rubato::elastic {

class NodeBoards {
 public:
  // Consistent job.
  NodeBoards(const Board& board)  // NOLINT(google-explicit-constructor): the usual case
      : board_(board), slots_(board.shape().logical_workers) {}
  // Adaptive job, which has at most `slots` logical workers. Boards may have room for more, but
  // only this number is the same on all nodes.
  NodeBoards(const Board& board, const DataBoard& data, int slots)
      : board_(board), data_(&data), slots_(slots) {}

  const Board& board() const { return board_; }
  // What the frames of a step's results have: `logical_workers` of them have a slot.
  BoardShape shape() const;

  std::size_t slot_bytes() const { return board_.slot_bytes(0, 0).size(); }
  std::size_t all_slot_bytes() const { return static_cast<std::size_t>(slots_) * slot_bytes(); }
  bool send_slots(const Stream& stream, std::int64_t step) const;
  // False: the connection broke, or a slot cannot be true.
  bool receive_slots(const Stream& stream, std::int64_t step) const;
  bool possible_slot(int logical, std::int64_t step) const;

  // What a step leaves on the data board; nothing in a consistent job.
  std::size_t data_bytes() const { return data_ == nullptr ? 0 : data_->step_bytes(); }
  bool send_data(const Stream& stream, std::int64_t step) const;
  // Received data must be put on the board to have an effect.
  bool receive_data(const Stream& stream, std::vector<std::byte>& data) const;
  // `whole`: not only the facts of the step, but all of it. False: it cannot be true.
  bool put_data(std::int64_t step, const std::vector<std::byte>& data, bool whole) const;

 private:
  const Board& board_;
  const DataBoard* data_ = nullptr;
  int slots_;
};

}  // namespace rubato::elastic
