// Which jobs a list or a command is about.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/labels.h"
#include "control/state.h"

namespace rubato::control {

struct JobFilter {
  Labels labels{};              // it has all of them
  std::string name{};           // '*' stands for anything, '?' for one character; empty: any
  std::vector<Phase> phases{};  // it is in one of them; empty: in any
  std::string tenant{};         // empty: any
  std::string user{};           // unix user that runs it; empty: any
  std::string array{};          // name of its array, or id of the array's first job; empty: any
  double since = 0;             // submitted then or later, in seconds since 1970
  double before = 0;            // submitted before then; 0: at any time

  bool any() const;  // everything is let through
};

// Whether the job is one of those.
bool matches(const JobFilter& filter, const JobRecord& job);

// "sweep-*" matches "sweep-1". Takes time proportional to the product of both lengths at most.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace rubato::control
