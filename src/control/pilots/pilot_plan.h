// How many pilots there should be. A pilot is a job of another scheduler, such as Slurm, that does
// nothing but offer its machine as a node (rubatod agent); docs/slurm.md. Pure functions:
// everything that is known comes in as values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace rubato::control {

struct PilotRules {
  int least = 0;
  int most = 1;
  int devices = 1;          // of one pilot
  Seconds successor = 600;  // a pilot that leaves sooner gets a successor
};

struct Pilot {
  std::string id;                 // of the other scheduler
  bool runs = false;              // false: it waits
  bool leaves = false;            // it was told to leave, or its time is up
  std::optional<Seconds> left{};  // until it leaves; nothing: nobody knows, or never
  int jobs = 0;                   // that are on its node
};

struct PilotPlan {
  int submit = 0;
  std::vector<std::string> cancel{};  // they wait, and are not needed any more
  std::vector<std::string> leave{};   // they run, and are not needed any more
};

// How many pilots should be there for so many devices.
int wanted_pilots(const PilotRules& rules, int devices);
// The pilots on which one can count: those that wait, and those that neither leave nor end soon.
int lasting_pilots(const PilotRules& rules, const std::vector<Pilot>& pilots);
// How long the k-th of `count` pilots that are submitted together stays, if it may for `most`. They
// do not leave together: whoever trains on all of them would be left with none.
Seconds staggered_stay(Seconds most, int k, int count);
// What to do. `devices`: that the active jobs can make use of. `shrinks`: too many have been there
// for long enough that some should go.
PilotPlan plan_pilots(const PilotRules& rules, int devices, const std::vector<Pilot>& pilots,
                      bool shrinks);

}  // namespace rubato::control
