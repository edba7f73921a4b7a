// Scenario files: a schedule, and what is expected of it, as a person reads and writes them.
//
//   # What happens, in words.
//   seed 1
//   workers 3
//   at 0.15 s: kill worker 1
//   when worker 2 is frozen, after 0.0002 s: stop worker 0 for 2.5 s
//   when view 3 is committed: break the connection of worker 0 and worker 2
//   at event 512: doubt the registry for 0.2 s
//   expect views 4
//   expect causes start failure join
//   expect trace worker 2: member -> frozen
//
// `worker 1` is the one with this number, `worker #1` the second of those alive then, `that worker`
// the one that the moment speaks of. Lines that begin with # are comments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "membership/world.h"

namespace rubato::elastic::membership::sim {

struct Expectation {
  std::optional<int> views;
  std::optional<int> processes;          // that were launched
  std::optional<int> repeated;           // steps that were computed in two views
  std::optional<std::string> causes;     // of all views, in order
  std::optional<std::string> members;    // of the last view that has some
  std::optional<std::string> violation;  // a part of it; nothing: none
  std::vector<std::string> trace;        // lines, or parts of lines, in this order

  friend bool operator==(const Expectation&, const Expectation&) = default;
};

struct Scenario {
  std::string story;  // the comments at the head of the file
  Schedule schedule;
  Expectation expected;
};

// Errors name the file, the line and what was expected there.
Result<Scenario> parse_scenario(const std::string& text, const std::string& file);
std::string to_text(const Scenario& scenario);

// Plays it. The first expectation that is not met, or "".
std::string play(const Scenario& scenario);

}  // namespace rubato::elastic::membership::sim
