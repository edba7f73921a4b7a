// Processes of the reduction benchmark. A group is all processes of one system. They live as long
// as the benchmark and sleep while another group has its turn. The groups of all systems follow the
// same commands, which arrive through a segment of shared memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "elastic/data/logical_range.h"
#include "elastic/memory/shared_memory.h"

namespace rubato::bench {

inline constexpr int kMaxRanks = 16;
inline constexpr int kMaxIterations = 64;
inline constexpr int kLogicalWorkers = 8;

struct Control {
  enum class Command : std::int32_t { kPrepare, kRound, kQuit };

  std::int32_t owner;  // process that gives the commands; ranks end when it is gone
  std::int32_t ranks;
  Command command;
  std::uint64_t floats;
  std::int32_t variant;
  std::int32_t iterations;
  bool back_to_back;                                // without new input and a barrier before each
  alignas(64) std::atomic<std::uint32_t> commands;  // given so far
  alignas(64) std::atomic<std::uint32_t> done;      // ranks that have completed the last command
  alignas(64) std::atomic<std::uint32_t> at_barrier;
  std::atomic<std::uint32_t> barriers;  // passed so far
  std::atomic<std::int64_t> began_ns;   // when the last rank reached the last barrier
  std::array<std::int64_t, kMaxIterations> iteration_began_ns;
  struct alignas(64) Rank {
    std::array<std::int64_t, kMaxIterations> ended_ns;
    bool wrong;
  };
  std::array<Rank, kMaxRanks> rank;
};

std::int64_t now_ns();  // comparable between processes

// One rank of a group, seen from its own process.
class Member {
 public:
  Member(const std::string& control, int rank);

  int rank() const { return rank_; }
  int ranks() const;
  void barrier() const;
  const std::string& name() const { return segment_.name(); }
  Control& control() const { return *reinterpret_cast<Control*>(segment_.data()); }

 private:
  elastic::Segment segment_;
  int rank_;
};

class Collective {
 public:
  virtual ~Collective() = default;
  virtual void prepare(std::size_t floats) = 0;
  // Rewrites the input, as a backward pass would, so that no other core has it in its cache; not
  // timed.
  virtual void refill() = 0;
  // Runs that many all-reduces, one after another; the variants are those of the system.
  virtual void run(int variant, int iterations) = 0;
  // Whether the last run left the correct result here.
  virtual bool right(int variant, int iterations) const = 0;
};

// Follows the commands until kQuit.
void serve(const Member& member, Collective& collective);

// Input of logical worker `logical`; almost every addition needs rounding.
float gradient_value(int logical, std::size_t index);
// The sum over a node of the tree of reduction_tree.h, implemented a second time.
float tree_sum(elastic::LogicalRange node, std::size_t index);
// About half a million positions are checked after every run; all of them in small arrays.
std::size_t check_stride(std::size_t floats);
// Aligned: equal shares. Otherwise shares that are not nodes of the tree.
elastic::LogicalRange hosted_range(int ranks, int rank, bool aligned);

}  // namespace rubato::bench
