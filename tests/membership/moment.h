// A moment of a history that a fault may wait for: faults that hit a protocol in the middle of what
// it does find more than faults at random times.
#pragma once

#include <cstdint>
#include <optional>

#include "elastic/membership/table.h"
#include "membership/memory.h"

namespace rubato::elastic::membership::sim {

struct Moment {
  enum class Kind {
    kState,  // a worker is in `state`: `worker`, or any
    kView,   // view `number` is committed; 0: any
    kEvent,  // event `number` is next
    kHears,  // a worker is about to hear a message: `worker`, or any
  };
  Kind kind = Kind::kState;
  std::optional<int> worker;
  StateKind state = StateKind::kArriving;
  std::int64_t number = 0;
  std::size_t message = 0;  // which alternative of Message

  friend bool operator==(const Moment&, const Moment&) = default;
};

}  // namespace rubato::elastic::membership::sim
