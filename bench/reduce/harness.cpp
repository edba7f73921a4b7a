#include "reduce/harness.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace rubato::bench {

using elastic::LogicalRange;
using elastic::Segment;

namespace {

constexpr std::chrono::microseconds kNap{100'000};

Segment open_or_exit(const std::string& name) {
  Result<Segment> segment = Segment::open(name, Segment::Access::kReadWrite);
  if (!segment.ok()) {
    fmt::print(stderr, "bench-reduce: {}\n", segment.error().message);
    std::exit(1);
  }
  return std::move(*segment);
}

// Waits until the word is no longer `seen`.
void wait_for_change(const Control& control, const std::atomic<std::uint32_t>& word,
                     std::uint32_t seen) {
  while (word.load() == seen) {
    elastic::wait_on_word(word, seen, kNap);
    if (kill(control.owner, 0) != 0) _exit(1);
  }
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Member::Member(const std::string& control, int rank)
    : segment_(open_or_exit(control)), rank_(rank) {}

int Member::ranks() const { return control().ranks; }

void Member::barrier() const {
  Control& c = control();
  const std::uint32_t passed = c.barriers.load();
  if (c.at_barrier.fetch_add(1) + 1 == static_cast<std::uint32_t>(c.ranks)) {
    c.at_barrier = 0;
    c.began_ns = now_ns();
    c.barriers.fetch_add(1);
    elastic::wake_all_on_word(c.barriers);
    return;
  }
  // A rank that is on a core starts at once; waking up would be part of the measured time.
  for (int spin = 0; spin < 2000 && c.barriers.load() == passed; ++spin) std::this_thread::yield();
  wait_for_change(c, c.barriers, passed);
}

void serve(const Member& member, Collective& collective) {
  Control& c = member.control();
  Control::Rank& own = c.rank.at(static_cast<std::size_t>(member.rank()));
  for (std::uint32_t seen = 0;; ++seen) {
    wait_for_change(c, c.commands, seen);
    if (c.command == Control::Command::kQuit) return;
    if (c.command == Control::Command::kPrepare) {
      collective.prepare(c.floats);
    } else {
      const int runs = c.back_to_back ? 1 : c.iterations;
      const int per_run = c.iterations / runs;
      for (std::size_t i = 0; i < static_cast<std::size_t>(runs); ++i) {
        collective.refill();
        member.barrier();
        if (member.rank() == 0) c.iteration_began_ns[i] = c.began_ns;
        collective.run(c.variant, per_run);
        own.ended_ns[i] = now_ns();
      }
      own.wrong = !collective.right(c.variant, per_run);
    }
    c.done.fetch_add(1);
    elastic::wake_all_on_word(c.done);
  }
}

float gradient_value(int logical, std::size_t index) {
  const auto mixed = static_cast<std::uint32_t>(index) * 2654435761U +
                     static_cast<std::uint32_t>(logical) * 2246822519U;
  return (static_cast<float>(mixed >> 8U) - 8388608.0F) * (1.0F / 16777216.0F) +
         static_cast<float>(logical);
}

float tree_sum(LogicalRange node, std::size_t index) {
  if (node.size() == 1) return gradient_value(node.begin, index);
  const int mid =
      node.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.size() - 1)));
  return tree_sum({node.begin, mid}, index) + tree_sum({mid, node.end}, index);
}

std::size_t check_stride(std::size_t floats) { return floats / 500'000 | 1U; }

LogicalRange hosted_range(int ranks, int rank, bool aligned) {
  // Except for the first and the last, the shares begin one later than the aligned ones.
  const auto begin = [&](int r) {
    const int even = kLogicalWorkers * r / ranks;
    return aligned || r == 0 || r == ranks ? even : even + 1;
  };
  return {begin(rank), begin(rank + 1)};
}

}  // namespace rubato::bench
