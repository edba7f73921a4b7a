#include "elastic/transport/node_boards.h"

namespace rubato::elastic {

BoardShape NodeBoards::shape() const {
  BoardShape shape = board_.shape();
  shape.logical_workers = slots_;
  return shape;
}

bool NodeBoards::possible_slot(int logical, std::int64_t step) const {
  if (data_ == nullptr) return board_.possible_slot(logical, step);
  const std::int64_t count = board_.slot(logical, step).samples;
  return count >= 0 && count <= data_->most_samples();
}

bool NodeBoards::send_slots(const Stream& stream, std::int64_t step) const {
  for (int logical = 0; logical < slots_; ++logical) {
    if (!stream.send(board_.slot_bytes(logical, step), true)) return false;
  }
  return true;
}

bool NodeBoards::receive_slots(const Stream& stream, std::int64_t step) const {
  for (int logical = 0; logical < slots_; ++logical) {
    if (!stream.receive(board_.slot_bytes(logical, step))) return false;
    if (!possible_slot(logical, step)) return false;
  }
  return true;
}

bool NodeBoards::send_data(const Stream& stream, std::int64_t step) const {
  return data_ == nullptr || stream.send(data_->copy_step(step), true);
}

bool NodeBoards::receive_data(const Stream& stream, std::vector<std::byte>& data) const {
  data.resize(data_bytes());
  return stream.receive(data);
}

bool NodeBoards::put_data(std::int64_t step, const std::vector<std::byte>& data, bool whole) const {
  return data_ == nullptr || data_->put_step(step, data, whole);
}

}  // namespace rubato::elastic
