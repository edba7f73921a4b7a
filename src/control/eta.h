// Estimates when active jobs will end, for `queue` and `status`. Cheap enough to run at any time.
//
// Assumes that running jobs keep the devices they have, and that waiting ones start in order, each
// on the fewest devices it accepts, as soon as that many are free. The policy may do better:
// `rubato sim --from-live` and `rubato plan` simulate it. Both start from the same work left and
// the same speeds (LiveJob).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "control/state.h"
#include "model/speed.h"

namespace rubato::control {

struct EtaJob {
  JobNumber job = 0;
  int devices = 0;  // devices it holds; 0: it waits
  int needs = 1;    // devices that a waiting job needs to start
  // Time to its end on `devices` (for a waiting job, on `needs`). Empty: unknown.
  std::optional<Seconds> left_s{};
  std::vector<JobNumber> after{};  // it starts when these have ended
};

struct Eta {
  Seconds start_s = 0;   // from now; 0 of a running job
  Seconds finish_s = 0;  // from now, above 0
  int devices = 0;       // on which it is expected to run
};

// `waiting` in the order in which they start; after them those that wait for the end of others
// (`later`). `free`: devices that nobody has. A job whose end cannot be known, such as one behind a
// job of unknown length, has no entry.
std::map<JobNumber, Eta> estimate_ends(std::span<const EtaJob> running,
                                       std::span<const EtaJob> waiting, int free,
                                       std::span<const EtaJob> later = {});

}  // namespace rubato::control
