// The names that the protocol gives to things, and one attempt of a leader to commit a view.
#pragma once

#include <cstdint>

namespace rubato::elastic::membership {

using WorkerId = int;
using Step = std::int64_t;
using ViewNumber = std::int64_t;

// Members keep what they have prepared under it, so that an abandoned attempt is never taken for a
// later one with the same number. All zero: none.
struct Proposal {
  ViewNumber view = 0;
  WorkerId leader = -1;
  std::int64_t attempt = 0;
  friend bool operator==(const Proposal&, const Proposal&) = default;
};

}  // namespace rubato::elastic::membership
