#include "reduce/ours.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "elastic/memory/worker_segment.h"

namespace rubato::bench {

using elastic::ActiveView;
using elastic::Board;
using elastic::HostStep;
using elastic::WorkerSegment;

namespace {

constexpr std::int64_t kView = 1;

class Ours final : public Collective {
 public:
  Ours(const Member& member, bool aligned) : member_(member), aligned_(aligned) {}

  void prepare(std::size_t floats) override;
  void refill() override;
  void run(int variant, int iterations) override;
  bool right(int variant, int iterations) const override;

 private:
  std::string segment_name(int rank) const { return fmt::format("{}-w{}", member_.name(), rank); }
  std::string board_name() const { return member_.name() + "-board"; }
  void fill();
  void move(std::size_t bytes);

  const Member& member_;
  bool aligned_;
  std::size_t floats_ = 0;
  float sign_ = 1.0F;      // sign of the input
  std::int64_t step_ = 0;  // the next step
  std::shared_ptr<const ActiveView> view_;
  std::shared_ptr<const WorkerSegment> own_;
  std::optional<Board> board_;
  std::vector<float> copy_;  // allocated by the first run that needs it
};

void Ours::prepare(std::size_t floats) {
  view_.reset();
  own_.reset();
  board_.reset();
  floats_ = floats;
  step_ = 0;
  sign_ = 1.0F;
  const elastic::ProgramShape shape{.gradient_floats = floats, .unit_bytes = {}};
  own_ = std::make_shared<WorkerSegment>(
      value_of(WorkerSegment::create(segment_name(member_.rank()), shape, kLogicalWorkers)));
  if (member_.rank() == 0) {
    const Board board = value_of(Board::create(
        board_name(), {.logical_workers = kLogicalWorkers, .gradient_floats = floats}));
    board.start_block(kView, member_.ranks(), 0);
  }
  member_.barrier();

  elastic::View view{.number = kView, .leader = 0, .board = board_name()};
  elastic::SegmentMap segments;
  for (int rank = 0; rank < member_.ranks(); ++rank) {
    view.members.push_back({.address = {.id = rank, .segment = segment_name(rank)},
                            .hosts = hosted_range(member_.ranks(), rank, aligned_)});
    segments[rank] = rank == member_.rank()
                         ? own_
                         : std::make_shared<const WorkerSegment>(value_of(
                               WorkerSegment::open(segment_name(rank), shape, kLogicalWorkers)));
  }
  board_ = value_of(Board::open(board_name()));
  view_ = value_of(make_active_view(view, member_.rank(), *board_, segments));
  for (int buffer = 0; buffer < view_->host.buffers; ++buffer) {
    RUBATO_CHECK(own_->reserve_buffer(buffer).ok(), "no shared memory for a gradient buffer");
  }
  fill();
  copy_ = {};
  member_.barrier();
  elastic::remove_segment(segment_name(member_.rank()));
  if (member_.rank() == 0) elastic::remove_segment(board_name());
}

void Ours::fill() {
  for (const HostStep& step : view_->host.steps) {
    float* const buffer = own_->buffer(step.buffer);
    for (std::size_t i = 0; i < floats_; ++i) {
      const float value = gradient_value(step.logical, i);
      buffer[i] = step.accumulate ? buffer[i] + value : value;
    }
    for (const HostStep::Merge& merge : step.merges) {
      elastic::add_into(own_->buffer(merge.into), own_->buffer(merge.from), floats_);
    }
  }
}

// Flips every sign: this changes only the sign of the sum.
void Ours::refill() {
  sign_ = -sign_;
  for (const elastic::HostRoot& root : view_->host.roots) {
    float* const buffer = own_->buffer(root.buffer);
    for (std::size_t i = 0; i < floats_; ++i) buffer[i] = -buffer[i];
  }
}

// Reads and writes `bytes` in total.
void Ours::move(std::size_t bytes) {
  const std::size_t all = floats_ * sizeof(float);
  for (std::size_t left = bytes / 2; left > 0;) {
    const std::size_t part = std::min(left, all);
    std::memcpy(copy_.data(), own_->buffer(0), part);
    left -= part;
  }
}

void Ours::run(int variant, int iterations) {
  PulsingGuard guard(*board_);
  if (variant != kInPlace) copy_.resize(floats_);
  const std::size_t bytes = floats_ * sizeof(float);
  for (int i = 0; i < iterations; ++i) {
    if (variant == kInPlaceFloor || variant == kWithCopyFloor) {
      const std::size_t roots = view_->inputs.size();
      const auto ranks = static_cast<std::size_t>(member_.ranks());
      move(bytes * (roots + 1) / ranks + (variant == kWithCopyFloor ? 2 * bytes : 0));
      continue;
    }
    exchange(*board_, *view_, step_, kScale, guard);
    if (variant == kWithCopy) std::memcpy(copy_.data(), board_->gradient(step_), bytes);
    ++step_;
  }
}

bool Ours::right(int variant, int) const {
  if (variant == kInPlaceFloor || variant == kWithCopyFloor) return true;
  const float* const result = variant == kWithCopy ? copy_.data() : board_->gradient(step_ - 1);
  for (std::size_t i = 0; i < floats_; i += check_stride(floats_)) {
    const float expected = sign_ * kScale * tree_sum({0, kLogicalWorkers}, i);
    if (std::bit_cast<std::uint32_t>(result[i]) != std::bit_cast<std::uint32_t>(expected)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void serve_ours(const std::string& control, int rank, bool aligned) {
  const Member member(control, rank);
  Ours ours(member, aligned);
  serve(member, ours);
}

}  // namespace rubato::bench
