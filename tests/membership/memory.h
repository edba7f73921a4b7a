// What survives a process in the simulated world: boards and segments, as on a real machine, with
// 64-bit hashes in place of tensors. Every value is a function of what it was computed from, so a
// value computed from the wrong input differs from the reference and is found.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "elastic/membership/messages.h"

namespace rubato::elastic::membership::sim {

using Hash = std::uint64_t;
inline constexpr int kLogical = 8;  // logical workers, and pieces of the gradient
inline constexpr Step kNever = -1;

constexpr Hash mix(Hash a, Hash b) {
  Hash h = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9ULL;
  return h ^ (h >> 31);
}

using Gradient = std::array<Hash, kLogical>;

struct Row {
  Step arrived = kNever;
  Step reduced = kNever;
};

struct Block {
  ViewNumber view = 0;
  std::vector<Row> rows;
  ViewNumber next = 0;
  Step next_first_step = 0;
  Proposal proposal;
  bool closed = false;  // nobody goes on from here

  Step complete() const {
    Step least = rows.empty() ? kNever : rows.front().reduced;
    for (const Row& row : rows) least = row.reduced < least ? row.reduced : least;
    return least;
  }
  bool all_arrived(Step step) const {
    for (const Row& row : rows) {
      if (row.arrived < step) return false;
    }
    return true;
  }
};

// The memory that the workers of one node share.
struct Board {
  // The partial sums of a worker of another node.
  struct Mirror {
    int worker = -1;
    std::array<Hash, kLogical> sum{};
  };

  std::array<Block, 8> blocks;
  Step completed = kNever;
  std::array<Step, 2> gradient_step{kNever, kNever};
  std::array<Gradient, 2> gradient{};
  std::array<std::array<Hash, 3>, kLogical> slot{};
  std::vector<Mirror> mirrors;
  bool used = false;               // members have trained on it
  Step fed_slots = kNever;         // the last step that was fed with the slots after it
  int feeder = -1;                 // the newcomer that keeps it up to date, if no member does
  std::vector<class Process*> at;  // the living processes that map it

  Block& block(ViewNumber view) { return blocks[static_cast<std::size_t>(view) % blocks.size()]; }
  const Block& block(ViewNumber view) const {
    return blocks[static_cast<std::size_t>(view) % blocks.size()];
  }
  ViewNumber newest_view() const {
    ViewNumber newest = 0;
    for (const Block& each : blocks) newest = std::max(newest, each.view);
    return newest;
  }
  // Three, not two: one that the others have lost may be the last to reduce a step. It goes on with
  // the next one while they repeat that step, and must not overwrite what they begin with.
  Hash& slot_before(int logical, Step step) {
    return slot[static_cast<std::size_t>(logical)][static_cast<std::size_t>(step % 3)];
  }
  Gradient& gradient_of(Step step) { return gradient[static_cast<std::size_t>(step & 1)]; }
  Step& gradient_tag(Step step) { return gradient_step[static_cast<std::size_t>(step & 1)]; }
  Mirror& mirror(int worker) {
    for (Mirror& known : mirrors) {
      if (known.worker == worker) return known;
    }
    return mirrors.emplace_back(Mirror{worker, {}});
  }
  void open(ViewNumber view, std::size_t members, Step first_step) {
    Block& opened = block(view);
    opened.view = view;
    opened.next = opened.next_first_step = 0;
    opened.proposal = {};
    opened.closed = false;
    opened.rows.assign(members, Row{first_step - 1, first_step - 1});
  }
};

inline Hash first_state() { return 0x1234; }

// The memory of a worker: its state, and the sums that others read.
struct Segment {
  Hash state = first_state();  // every program begins with it
  Step version = 0;
  std::array<Hash, kLogical> sum{};
};

// What an undisturbed job computes.
class Reference {
 public:
  static constexpr Step kSteps = 300;
  Reference();
  Hash state(Step version) const { return state_[static_cast<std::size_t>(version)]; }
  Hash slot(int logical, Step step) const {
    return slot_[static_cast<std::size_t>(step)][static_cast<std::size_t>(logical)];
  }
  const Gradient& gradient(Step step) const { return gradient_[static_cast<std::size_t>(step)]; }

 private:
  std::vector<Hash> state_;
  std::vector<std::array<Hash, kLogical>> slot_;
  std::vector<Gradient> gradient_;
};

inline Hash first_slot(int logical) { return mix(0x77, static_cast<Hash>(logical)); }
inline Hash sum_of(Hash state, Hash slot, int logical, Step step) {
  return mix(mix(state, slot), mix(static_cast<Hash>(logical), static_cast<Hash>(step)));
}
inline Hash slot_after(Hash slot, Hash state, Step step) {
  return mix(mix(slot, state), static_cast<Hash>(step) + 99);
}
inline Hash piece_of(const std::array<Hash, kLogical>& sums, int piece) {
  Hash h = static_cast<Hash>(piece) + 7;
  for (const Hash sum : sums) h = mix(h, sum);
  return h;
}
inline Hash state_after(Hash state, const Gradient& gradient) {
  for (const Hash piece : gradient) state = mix(state, piece);
  return state;
}

inline Reference::Reference() {
  Hash state = first_state();
  std::array<Hash, kLogical> slots{};
  for (int l = 0; l < kLogical; ++l) slots[static_cast<std::size_t>(l)] = first_slot(l);
  for (Step step = 0; step <= kSteps; ++step) {
    state_.push_back(state);
    slot_.push_back(slots);
    std::array<Hash, kLogical> sums{};
    for (int l = 0; l < kLogical; ++l) {
      const auto i = static_cast<std::size_t>(l);
      sums[i] = sum_of(state, slots[i], l, step);
      slots[i] = slot_after(slots[i], state, step);
    }
    Gradient gradient{};
    for (int piece = 0; piece < kLogical; ++piece) {
      gradient[static_cast<std::size_t>(piece)] = piece_of(sums, piece);
    }
    gradient_.push_back(gradient);
    state = state_after(state, gradient);
  }
}

}  // namespace rubato::elastic::membership::sim
