// How long the jobs that wait have been waiting, at regular moments of a simulation.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/result.h"

namespace rubato {

struct WaitSample {
  Seconds time_s = 0;
  // Over the jobs that hold no device then: the time since their submission or, later, since they
  // lost their devices. None if nobody waits.
  std::optional<Seconds> median_s;
  std::optional<Seconds> p90_s;
};

// `count` moments from the start of the timeline to its end. None if the run has no timeline or did
// not record its devices.
std::vector<WaitSample> sample_waits(const SimResult& run, std::size_t count);

}  // namespace rubato
