// The board of a job: shared memory that all its workers on a machine see. It holds what must
// outlive any worker: how far each member of a view is, the reduced gradient of the last two steps,
// and the private state of every logical worker before and after the current step.
//
// Why a killed worker costs a repeated step and nothing else: step s reads the slots of parity s
// and writes those of parity s + 1, so until step s is complete its input is intact. A step is
// complete in a view when every member's `reduced` has reached it; that is a fact in this memory,
// which all survivors read alike, not a message that some of them might have missed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/shared_memory.h"

namespace rubato::elastic {

inline constexpr int kMaxWorkers = 256;
inline constexpr std::size_t kViewBlocks = 8;
inline constexpr std::size_t kTimedSteps = 32;

// Written by one member only.
struct alignas(64) MemberRow {
  std::atomic<std::int64_t> arrived;  // newest step whose partial sums are exported
  std::atomic<std::int64_t> reduced;  // newest step whose slice is summed
  std::atomic<std::int64_t> step_us;  // duration of its last step
  std::atomic<std::int64_t>
      stall_us;  // between its last step in the view before and its first here
  // Microseconds that its logical workers took to compute, of the newest steps. Each entry says of
  // which step it is, because the reader comes when it likes.
  std::array<std::atomic<std::uint64_t>, kTimedSteps> computed;

  void note_compute(std::int64_t step, std::int64_t microseconds);
  std::optional<std::int64_t> compute_us(std::int64_t step) const;
};

// That of the next view: its number and its first step. View 0: none.
struct Announcement {
  std::int64_t view = 0;
  std::int64_t first_step = 0;
};

struct ViewBlock {
  std::atomic<std::int64_t> view;
  std::atomic<std::int32_t> members;
  // The leader's announcement of the next view: written before the leader arrives at step
  // next_first_step - 1, hence seen by every member when that step is complete. 0: none.
  std::atomic<std::int64_t> next_view;
  std::atomic<std::int64_t> next_first_step;
  std::array<MemberRow, kMaxWorkers> rows;

  // The newest step that all members have reduced; first_step - 1 or less when none.
  std::int64_t complete() const;
  bool all_arrived(std::int64_t step) const;
  bool all_reduced(std::int64_t step) const;
  // Both parts of one announcement, which may be replaced while it is read.
  Announcement announcement() const;
};

// What a logical worker leaves behind after a step, followed by its private bytes and the ids of
// the samples it used.
struct SlotHeader {
  double loss = 0;
  std::int64_t samples = 0;
};

struct BoardShape {
  int logical_workers = 1;
  std::size_t gradient_floats = 0;
  std::size_t private_bytes = 0;
  std::int64_t batch = 1;  // most samples of a logical worker in a step
};

class Board {
 public:
  static Result<Board> create(const std::string& name, const BoardShape& shape);
  static Result<Board> open(const std::string& name);

  const std::string& name() const { return segment_.name(); }
  BoardShape shape() const;
  // Of the newcomers that share a board which no member writes, one keeps it up to date.
  bool try_lock() const { return segment_.try_lock(); }

  // --- Progress ---
  // Readies the block of a view, which nobody may use yet.
  void start_block(std::int64_t view, int members, std::int64_t first_step) const;
  ViewBlock& block(std::int64_t view) const;
  // Every publication is followed by a pulse; waiting returns when the condition holds (true) or
  // `give_up` does (false). Spins shortly, then sleeps.
  void pulse() const;
  bool wait(const std::function<bool()>& condition, const std::function<bool()>& give_up) const;
  // The newest step that some member has found complete; -1 before the first.
  std::atomic<std::int64_t>& completed() const;
  // How many newcomers want to see reduced gradients.
  std::atomic<std::int32_t>& watchers() const;
  // Set when a member has trained on this board.
  std::atomic<std::int32_t>& used() const;
  // How many newcomers could become members at once.
  std::atomic<std::int32_t>& ready_newcomers() const;
  // Connections of strangers that the workers have turned away.
  std::atomic<std::int64_t>& refused_connections() const;

  // --- The reduced gradient of a step (ring of two) ---
  float* gradient(std::int64_t step) const;
  // The step whose whole gradient is there; anything else while it is being overwritten.
  std::atomic<std::int64_t>& gradient_step(std::int64_t step) const;

  // --- Private state ---
  // State of a logical worker before a step. After step s it is at slot(logical, s + 1).
  SlotHeader& slot(int logical, std::int64_t step) const;
  std::span<std::byte> private_state(int logical, std::int64_t step) const;
  std::span<std::int64_t> samples(int logical, std::int64_t step) const;  // capacity: batch
  // All of it, to be copied to the board of another node.
  std::span<std::byte> slot_bytes(int logical, std::int64_t step) const;

 private:
  struct Header;
  explicit Board(Segment segment);
  Header& header() const;
  std::byte* slot_memory(int logical, std::int64_t step) const;

  Segment segment_;
  std::size_t gradient_offset_ = 0;
  std::size_t slot_offset_ = 0;
  std::size_t slot_stride_ = 0;
  std::size_t private_offset_ = 0;  // within a slot
  std::size_t sample_offset_ = 0;
};

// The loss of a complete step: the mean over the samples of all its logical workers. Nothing when
// none of them used a sample.
std::optional<double> mean_loss(const Board& board, int logical_workers, std::int64_t step);

}  // namespace rubato::elastic
