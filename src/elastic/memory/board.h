// The board of a job: shared memory that all its workers on a machine can access. It holds
// everything that must outlive any single worker: the progress of each member of a view, the
// reduced gradients of the last two steps, and the private state of every logical worker before and
// after the current step.
//
// This is why a killed worker costs one repeated step and nothing more: step s reads the slots of
// parity s and writes those of parity s + 1, so its input stays intact until the step is complete.
// A step is complete in a view when every member's `reduced` has reached it. This is a fact in
// shared memory that all survivors read alike, not a message that some of them might have missed.
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
#include "elastic/membership/proposal.h"
#include "elastic/memory/shared_memory.h"

namespace rubato::elastic {

inline constexpr int kMaxWorkers = 256;
inline constexpr std::size_t kViewBlocks = 8;
inline constexpr std::size_t kTimedSteps = 32;
inline constexpr std::size_t kSlicePart = std::size_t{1} << 18U;  // floats

// Each row is written by one member only.
struct alignas(64) MemberRow {
  std::atomic<std::int64_t> arrived;  // newest step whose partial sums are exported
  std::atomic<std::int64_t> reduced;  // newest step whose slice is summed
  std::atomic<std::int64_t> step_us;  // duration of the last step
  std::atomic<std::int64_t>
      stall_us;  // between its last step in the previous view and its first in this one
  // How much of this member's slice is summed in the step that it reduces; read by parts_summed().
  std::atomic<std::uint64_t> summed;
  // Compute time of this member's logical workers in the newest steps, in microseconds. Each entry
  // includes its step, because readers look at arbitrary times.
  std::array<std::atomic<std::uint64_t>, kTimedSteps> computed;

  // A slice is summed in parts of kSlicePart floats, so that a bridge can send one part while the
  // next is summed. Only a hint: `reduced` decides.
  void note_summed(std::int64_t step, std::size_t parts);
  std::size_t parts_summed(std::int64_t step) const;
  void note_compute(std::int64_t step, std::int64_t microseconds);
  std::optional<std::int64_t> compute_us(std::int64_t step) const;
};

// What follows a view. View 0: nothing (yet).
struct Announcement {
  std::int64_t view = 0;
  std::int64_t first_step = 0;
  // Which attempt of which leader to make a view of that number it is. A view that is started by
  // message has none: nobody enters it because of the announcement.
  membership::Proposal proposal;
  std::int64_t prepare_us = 0;  // from the request to the commit

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

struct ViewBlock {
  std::atomic<std::int64_t> view;
  std::atomic<std::int32_t> members;
  std::atomic<std::int32_t> closed;  // see close()
  // The leader's announcement of the next view. The leader writes it before it arrives at step
  // next_first_step - 1, so every member sees it when that step is complete. 0: none.
  std::atomic<std::int64_t> next_view;
  std::atomic<std::int64_t> next_first_step;
  std::atomic<std::int64_t> next_leader;
  std::atomic<std::int64_t> next_attempt;
  std::atomic<std::int64_t> next_prepare_us;
  std::array<MemberRow, kMaxWorkers> rows;

  // The newest step that all members have reduced; at most first_step - 1 if there is none.
  std::int64_t complete() const;
  bool all_arrived(std::int64_t step) const;
  bool all_reduced(std::int64_t step) const;
  // All parts of the same announcement, even if it is replaced during the call.
  Announcement announcement() const;
  void announce(const Announcement& next);
  // A worker that freezes closes the view for all workers of its node, before it looks which step
  // is complete. Whoever finds a step complete, and then the view closed, does not go on: the
  // others may have looked before, and then they repeat that step.
  void close() { closed.store(1); }
  bool goes_on_after(std::int64_t step) const { return all_reduced(step) && closed.load() == 0; }
};

// What a logical worker records after a step. Its private bytes and the ids of the samples it used
// follow in memory.
struct SlotHeader {
  double loss = 0;
  std::int64_t samples = 0;
};

struct BoardShape {
  int logical_workers = 1;
  std::size_t gradient_floats = 0;
  std::size_t private_bytes = 0;
  std::int64_t batch = 1;  // the most samples of a logical worker in a step
};

class Board {
 public:
  static Result<Board> create(const std::string& name, const BoardShape& shape);
  static Result<Board> open(const std::string& name);

  const std::string& name() const { return segment_.name(); }
  BoardShape shape() const;
  // For newcomers that share a board no member writes: the one that gets the lock keeps the board
  // up to date.
  bool try_lock() const { return segment_.try_lock(); }

  // --- Progress ---
  // Prepares the block of a view. Nobody may use that view yet.
  void start_block(std::int64_t view, int members, std::int64_t first_step) const;
  ViewBlock& block(std::int64_t view) const;
  std::int64_t newest_view() const;  // of those that have a block; 0: none
  // Call pulse() after every publication. wait() returns true when the condition holds and false
  // when `give_up` does. It spins briefly, then sleeps.
  void pulse() const;
  bool wait(const std::function<bool()>& condition, const std::function<bool()>& give_up) const;
  // The newest step that any member has found complete; -1 before the first.
  std::atomic<std::int64_t>& completed() const;
  // The number of newcomers that need the reduced gradients.
  std::atomic<std::int32_t>& watchers() const;
  // The number of those that still copy the state.
  std::atomic<std::int32_t>& copiers() const;
  // On a board that is fed (feed.h): the newest step for which the private states after it are
  // whole; -1: none.
  std::atomic<std::int64_t>& fed_slots() const;
  // Set once a member has trained on this board.
  std::atomic<std::int32_t>& used() const;
  // The number of newcomers that could become members right away.
  std::atomic<std::int32_t>& ready_newcomers() const;
  // The number of connections from strangers that the workers have refused.
  std::atomic<std::int64_t>& refused_connections() const;

  // --- The reduced gradient of a step (ring of two) ---
  float* gradient(std::int64_t step) const;
  // The step whose complete gradient is stored; any other value while it is being overwritten.
  std::atomic<std::int64_t>& gradient_step(std::int64_t step) const;

  // --- Private state ---
  // State of a logical worker before a step. The state after step s is slot(logical, s + 1).
  SlotHeader& slot(int logical, std::int64_t step) const;
  std::span<std::byte> private_state(int logical, std::int64_t step) const;
  std::span<std::int64_t> samples(int logical, std::int64_t step) const;  // capacity: batch
  // The whole slot, for copying to the board of another node.
  std::span<std::byte> slot_bytes(int logical, std::int64_t step) const;
  // Whether a slot that came from another node can be true.
  bool possible_slot(int logical, std::int64_t step) const;

  struct Header;  // elastic/memory/board_layout.h

 private:
  explicit Board(Segment segment);
  static std::size_t bytes_of(const BoardShape& shape);
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
