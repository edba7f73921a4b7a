// Frames on the streams between nodes: a fixed-size header, then a payload. The receiver knows the
// payload length before it reads the header, from the view and the job's shape. A length is
// therefore checked, never trusted, and every byte is received directly into its destination.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "elastic/memory/board.h"

namespace rubato::elastic {

enum class BridgeFrame : std::uint32_t {
  // Between the bridges of two nodes (bridge.h).
  kArrived = 1,  // a member has computed a step: its logical workers' slots and its partial sums
  kReduced,      // a member has summed its slice of a step: the slice
  kRestore,      // a complete step for a node that lacks part of it: gradient and all slots
  kEnd,          // no more frames in this view
  // Between a newcomer and a member of another node (feed.h).
  kNext = 16,  // newcomer asks: what comes after `step` of `view`?
  kUnit,       // newcomer asks for a unit of the state
  kStep,       // answer to kNext: the next complete step, with all slots and perhaps its gradient
  kAnnounce,   // answer to kNext: another view follows this one
  kSnapshot,   // answer to kNext: start over from here, with all slots
  kNothing,    // answer to kNext or kUnit: ask again
  kUnitData,   // answer to kUnit
};

// What of a kStep can be relied on; the header behind the payload has the last word.
inline constexpr std::int32_t kWithGradient = 1;
inline constexpr std::int32_t kWithSlots = 2;

struct BridgeHeader {
  BridgeFrame type = BridgeFrame::kEnd;
  std::int32_t member = 0;  // kArrived, kReduced: worker id; kUnit, kUnitData: number of the unit
  std::int64_t view = 0;
  std::int64_t step = 0;  // kUnitData: version of the unit
  Announcement next;      // of the leader (kArrived, kAnnounce)
  std::int32_t next_members = 0;
  std::int32_t watchers = 0;    // kArrived of the leader: number of newcomers that need gradients
  std::int32_t copiers = 0;     // likewise: of those, how many still copy the state
  std::int64_t compute_us = 0;  // of the step
  std::int64_t stall_us = 0;    // as in MemberRow
  std::int64_t step_us = 0;
  std::int32_t flag = 0;  // kStep: kWithGradient, kWithSlots
  std::uint64_t payload_bytes = 0;

  friend bool operator==(const BridgeHeader&, const BridgeHeader&) = default;
};

inline constexpr std::size_t kBridgeHeaderBytes = 112;
using BridgeHeaderBytes = std::array<std::byte, kBridgeHeaderBytes>;

// Little-endian on every machine.
BridgeHeaderBytes encode(const BridgeHeader& header);
// Nothing if it is not a header of this version or a field is out of range.
std::optional<BridgeHeader> decode_bridge_header(
    std::span<const std::byte, kBridgeHeaderBytes> bytes);

// The frame a receiver may accept next in a view, given the progress in the member's row.
struct BridgeExpectation {
  std::int64_t view = 0;
  std::int64_t arrived = 0;  // of the member's row
  std::int64_t reduced = 0;
  std::size_t arrived_bytes = 0;  // payload lengths
  std::size_t reduced_bytes = 0;
};
// What is wrong with a kArrived or kReduced frame of that member; "" if nothing is.
const char* problem_of(const BridgeHeader& header, const BridgeExpectation& expected);

}  // namespace rubato::elastic
