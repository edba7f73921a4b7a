// A search in the event log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/state.h"

namespace rubato::control {

struct EventQuery {
  std::int64_t after = 0;            // only events with higher numbers
  std::int64_t before = 0;           // only events with lower numbers; 0: no limit
  double since = 0;                  // only events of this time or later, in seconds since 1970
  double until = 0;                  // only events before this time; 0: no limit
  std::vector<std::string> types{};  // empty: all
  bool newest_first = false;
  int limit = 1000;
  JobNumber job = 0;     // 0: all
  std::string tenant{};  // empty: all
};

struct EventPage {
  std::vector<Event> events{};
  // Where the search goes on (`after`, or `before` if the newest come first); nothing: this is the
  // end. A page of a search by type may be short, even empty, before the end.
  std::optional<std::int64_t> next{};
};

}  // namespace rubato::control
