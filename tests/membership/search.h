// A systematic search: one planned change of a quiet job, with one fault at every point of it, and
// with every single deviation of the order of events up to a bound.
#pragma once

#include <cstdint>
#include <string>

#include "membership/world.h"

namespace rubato::elastic::membership::sim {

struct SearchBounds {
  int nodes = 1;
  int workers = 2;
  int behind = 8;  // the earliest event is postponed behind up to this many
};

struct SearchResult {
  std::int64_t runs = 0;
  std::int64_t points = 0;  // events between the requests and the ends of the changes
  std::int64_t states = 0;  // distinct states of the world that were seen there
  std::string violation;    // "" if all promises held
  Schedule failing;         // if not
};

// Ends early with the first violation; else it is complete within the bounds.
SearchResult search(const SearchBounds& bounds);

}  // namespace rubato::elastic::membership::sim
