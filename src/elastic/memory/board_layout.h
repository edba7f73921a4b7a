// How boards lie in shared memory: for board.cpp and data_board.cpp, which map them, and for
// board_glance.cpp, which must not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "elastic/memory/board.h"
#include "elastic/memory/data_board.h"

namespace rubato::elastic {

inline constexpr std::uint64_t kBoardMagic = 0x3430647261627572;      // "rubard04"
inline constexpr std::uint64_t kDataBoardMagic = 0x3130617461647572;  // "rudata01"
inline constexpr std::size_t kBoardPage = 4096;

constexpr std::size_t board_round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct Board::Header {
  std::atomic<std::uint64_t> magic;  // written last
  std::int32_t logical_workers;
  std::uint64_t gradient_floats;
  std::uint64_t private_bytes;
  std::int64_t batch;
  alignas(64) std::atomic<std::uint32_t> pulse;
  std::atomic<std::int32_t> sleepers;
  alignas(64) std::atomic<std::int64_t> completed;
  std::array<std::atomic<std::int64_t>, 2> gradient_step;
  std::atomic<std::int32_t> watchers;
  std::atomic<std::int32_t> used;
  std::atomic<std::int32_t> ready_newcomers;
  std::atomic<std::int32_t> copiers;
  std::atomic<std::int64_t> refused_connections;
  std::atomic<std::int64_t> fed_slots;
  std::array<ViewBlock, kViewBlocks> blocks;
};

using DataWord = std::atomic<std::int64_t>;
static_assert(sizeof(DataWord) == sizeof(std::int64_t));

// A step's facts. `step` is written last and identifies the step of the others.
struct FactsEntry {
  DataWord step;
  DataWord epoch;
  DataWord used;
  DataWord batch;
  DataWord logical_workers;
};

struct DataBoard::Header {
  std::atomic<std::uint64_t> magic;  // written last
  DataBoardShape shape;
  std::array<FactsEntry, 2> facts;
};

}  // namespace rubato::elastic
