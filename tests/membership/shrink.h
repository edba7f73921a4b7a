// Makes a failing schedule small: fewer and simpler faults, fewer workers, a shorter history, as
// long as the same kind of promise is violated.
#pragma once

#include <functional>
#include <string>

#include "membership/world.h"

namespace rubato::elastic::membership::sim {

struct Shrunk {
  Schedule schedule;
  std::string violation;
  int runs = 0;
};

// What a schedule violates; "": nothing.
using Violation = std::function<std::string(const Schedule&)>;

// `schedule` violates something. `as_it_was` are its faults as they turned out (Outcome), if known.
Shrunk shrink(const Schedule& schedule, const std::vector<Fault>& as_it_was,
              const Violation& violation);

// A violation without times, workers, views and steps: two of the same kind are equal.
std::string kind_of_violation(const std::string& violation);

}  // namespace rubato::elastic::membership::sim
