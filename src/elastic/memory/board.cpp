#include "elastic/memory/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "elastic/job/job_folder.h"
#include "elastic/memory/board_layout.h"

namespace rubato::elastic {

void MemberRow::note_summed(std::int64_t step, std::size_t parts) {
  summed.store(static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint32_t>(parts),
               std::memory_order_release);
}

std::size_t MemberRow::parts_summed(std::int64_t step) const {
  const std::uint64_t entry = summed.load(std::memory_order_acquire);
  return entry >> 32 == static_cast<std::uint32_t>(step) ? static_cast<std::uint32_t>(entry) : 0;
}

void MemberRow::note_compute(std::int64_t step, std::int64_t microseconds) {
  const std::uint64_t spent = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(microseconds, 1, std::numeric_limits<std::uint32_t>::max()));
  computed[static_cast<std::size_t>(step) % kTimedSteps].store(
      static_cast<std::uint64_t>(step) << 32 | spent, std::memory_order_relaxed);
}

std::optional<std::int64_t> MemberRow::compute_us(std::int64_t step) const {
  const std::uint64_t entry =
      computed[static_cast<std::size_t>(step) % kTimedSteps].load(std::memory_order_relaxed);
  const auto spent = static_cast<std::uint32_t>(entry);
  if (spent == 0 || entry >> 32 != static_cast<std::uint32_t>(step)) return std::nullopt;
  return spent;
}

std::int64_t ViewBlock::complete() const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto count = static_cast<std::size_t>(members.load(std::memory_order_acquire));
  for (std::size_t i = 0; i < count; ++i) {
    least = std::min(least, rows[i].reduced.load(std::memory_order_acquire));
  }
  return least;
}

bool ViewBlock::all_arrived(std::int64_t step) const {
  const auto count = static_cast<std::size_t>(members.load(std::memory_order_acquire));
  for (std::size_t i = 0; i < count; ++i) {
    if (rows[i].arrived.load(std::memory_order_acquire) < step) return false;
  }
  return true;
}

bool ViewBlock::all_reduced(std::int64_t step) const { return complete() >= step; }

Announcement ViewBlock::announcement() const {
  for (;;) {
    Announcement next{.view = next_view.load(std::memory_order_acquire)};
    next.first_step = next_first_step.load(std::memory_order_acquire);
    next.proposal.leader = static_cast<int>(next_leader.load(std::memory_order_acquire));
    next.proposal.attempt = next_attempt.load(std::memory_order_acquire);
    next.prepare_us = next_prepare_us.load(std::memory_order_acquire);
    if (next.proposal.attempt != 0) next.proposal.view = next.view;
    if (next_view.load(std::memory_order_acquire) == next.view) return next;
  }
}

void ViewBlock::announce(const Announcement& next) {
  next_view.store(0, std::memory_order_release);
  next_first_step.store(next.first_step, std::memory_order_release);
  next_leader.store(next.proposal.leader, std::memory_order_release);
  next_attempt.store(next.proposal.attempt, std::memory_order_release);
  next_prepare_us.store(next.prepare_us, std::memory_order_release);
  next_view.store(next.view, std::memory_order_release);
}

Board::Board(Segment segment) : segment_(std::move(segment)) {
  const BoardShape s = shape();
  gradient_offset_ = board_round_up(sizeof(Header), kBoardPage);
  slot_offset_ =
      gradient_offset_ + 2 * board_round_up(s.gradient_floats * sizeof(float), kBoardPage);
  private_offset_ = 64;
  sample_offset_ = private_offset_ + board_round_up(s.private_bytes, 64);
  slot_stride_ =
      board_round_up(sample_offset_ + static_cast<std::size_t>(s.batch) * sizeof(std::int64_t), 64);
}

std::size_t Board::bytes_of(const BoardShape& shape) {
  const std::size_t slot =
      board_round_up(64 + board_round_up(shape.private_bytes, 64) +
                         static_cast<std::size_t>(shape.batch) * sizeof(std::int64_t),
                     64);
  return board_round_up(sizeof(Header), kBoardPage) +
         2 * board_round_up(shape.gradient_floats * sizeof(float), kBoardPage) +
         2 * slot * static_cast<std::size_t>(shape.logical_workers);
}

Result<Board> Board::create(const std::string& name, const BoardShape& shape) {
  const std::size_t bytes = bytes_of(shape);
  Result<Segment> segment = Segment::create(name, bytes);
  if (!segment.ok()) return segment.error();
  Status reserved = segment->reserve(0, bytes);
  if (!reserved.ok()) {
    remove_segment(name);
    return reserved.error();
  }
  auto& header = *reinterpret_cast<Header*>(segment->data());
  header.logical_workers = shape.logical_workers;
  header.gradient_floats = shape.gradient_floats;
  header.private_bytes = shape.private_bytes;
  header.batch = shape.batch;
  header.completed = -1;
  header.fed_slots = -1;
  header.gradient_step[0] = -1;
  header.gradient_step[1] = -1;
  header.magic.store(kBoardMagic, std::memory_order_release);
  return Board(std::move(*segment));
}

Result<Board> Board::open(const std::string& name) {
  Result<Segment> segment = Segment::open(name, Segment::Access::kReadWrite);
  if (!segment.ok()) return segment.error();
  if (segment->size() < sizeof(Header) ||
      reinterpret_cast<Header*>(segment->data())->magic.load(std::memory_order_acquire) !=
          kBoardMagic) {
    return invalid_input(fmt::format("shared memory '{}' is not a board of this version", name));
  }
  Board board(std::move(*segment));
  const BoardShape shape = board.shape();
  const std::size_t size = board.segment_.size();
  // Within these limits, the sum cannot overflow.
  const bool possible = shape.logical_workers >= 0 &&
                        shape.logical_workers <= kMostLogicalWorkers &&
                        shape.gradient_floats <= size && shape.private_bytes <= size &&
                        shape.batch >= 0 && static_cast<std::size_t>(shape.batch) <= size;
  if (!possible || bytes_of(shape) != size) {
    return invalid_input(
        fmt::format("shared memory '{}' has {} bytes, which do not match its header", name, size));
  }
  return board;
}

Board::Header& Board::header() const { return *reinterpret_cast<Header*>(segment_.data()); }

BoardShape Board::shape() const {
  const Header& h = header();
  return {.logical_workers = h.logical_workers,
          .gradient_floats = h.gradient_floats,
          .private_bytes = h.private_bytes,
          .batch = h.batch};
}

void Board::start_block(std::int64_t view, int members, std::int64_t first_step) const {
  ViewBlock& b = block(view);
  b.members = 0;
  b.announce({});
  b.closed = 0;
  for (MemberRow& row : b.rows) {
    row.arrived = first_step - 1;
    row.reduced = first_step - 1;
    row.summed = 0;
    row.step_us = 0;
    row.stall_us = -1;
  }
  b.members = members;
  b.view.store(view, std::memory_order_release);
}

ViewBlock& Board::block(std::int64_t view) const {
  return header().blocks[static_cast<std::size_t>(view) % kViewBlocks];
}

std::int64_t Board::newest_view() const {
  std::int64_t newest = 0;
  for (const ViewBlock& block : header().blocks) newest = std::max(newest, block.view.load());
  return newest;
}

void Board::pulse() const {
  Header& h = header();
  h.pulse.fetch_add(1);
  if (h.sleepers.load() > 0) wake_all_on_word(h.pulse);
}

bool Board::wait(const std::function<bool()>& condition,
                 const std::function<bool()>& give_up) const {
  Header& h = header();
  // A peer on another core is often only microseconds behind. The yield helps on machines with
  // fewer cores than workers.
  for (int spin = 0; spin < 64; ++spin) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  for (;;) {
    const std::uint32_t seen = h.pulse.load();
    if (condition()) return true;
    if (give_up()) return false;
    h.sleepers.fetch_add(1);
    // A killed sleeper leaves the count too high, which only costs extra wake-up calls.
    wait_on_word(h.pulse, seen, std::chrono::milliseconds(50));
    h.sleepers.fetch_sub(1);
  }
}

std::atomic<std::int64_t>& Board::completed() const { return header().completed; }
std::atomic<std::int32_t>& Board::watchers() const { return header().watchers; }
std::atomic<std::int32_t>& Board::copiers() const { return header().copiers; }
std::atomic<std::int64_t>& Board::fed_slots() const { return header().fed_slots; }
std::atomic<std::int32_t>& Board::used() const { return header().used; }
std::atomic<std::int32_t>& Board::ready_newcomers() const { return header().ready_newcomers; }
std::atomic<std::int64_t>& Board::refused_connections() const {
  return header().refused_connections;
}

float* Board::gradient(std::int64_t step) const {
  const std::size_t stride = board_round_up(header().gradient_floats * sizeof(float), kBoardPage);
  return reinterpret_cast<float*>(segment_.data() + gradient_offset_ +
                                  static_cast<std::size_t>(step & 1) * stride);
}

std::atomic<std::int64_t>& Board::gradient_step(std::int64_t step) const {
  return header().gradient_step[static_cast<std::size_t>(step & 1)];
}

std::byte* Board::slot_memory(int logical, std::int64_t step) const {
  const std::size_t index =
      static_cast<std::size_t>(logical) * 2 + static_cast<std::size_t>(step & 1);
  return segment_.data() + slot_offset_ + index * slot_stride_;
}

SlotHeader& Board::slot(int logical, std::int64_t step) const {
  return *reinterpret_cast<SlotHeader*>(slot_memory(logical, step));
}

std::span<std::byte> Board::private_state(int logical, std::int64_t step) const {
  return {slot_memory(logical, step) + private_offset_, header().private_bytes};
}

std::span<std::byte> Board::slot_bytes(int logical, std::int64_t step) const {
  return {slot_memory(logical, step), slot_stride_};
}

bool Board::possible_slot(int logical, std::int64_t step) const {
  const std::int64_t count = slot(logical, step).samples;
  return count >= 0 && count <= header().batch;
}

std::span<std::int64_t> Board::samples(int logical, std::int64_t step) const {
  return {reinterpret_cast<std::int64_t*>(slot_memory(logical, step) + sample_offset_),
          static_cast<std::size_t>(header().batch)};
}

std::optional<double> mean_loss(const Board& board, int logical_workers, std::int64_t step) {
  double sum = 0;
  double samples = 0;
  for (int logical = 0; logical < logical_workers; ++logical) {
    const SlotHeader& slot = board.slot(logical, step + 1);
    sum += slot.loss * static_cast<double>(slot.samples);
    samples += static_cast<double>(slot.samples);
  }
  if (samples == 0) return std::nullopt;
  return sum / samples;
}

}  // namespace rubato::elastic
