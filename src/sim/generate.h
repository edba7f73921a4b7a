// Generates native workloads. The defaults follow the published distributions: most jobs are small
// and short, with a heavy tail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato {

enum class Arrival {
  kPoisson,  // a constant rate
  kDiurnal,  // the rate follows the time of day: lowest at the start (midnight), 7 times that at
             // noon
  kBursty,   // quiet periods of about 25 minutes, and bursts of about 5 minutes at 20x the rate
};

struct GenerateOptions {
  int jobs = 100;
  Arrival arrival = Arrival::kPoisson;
  double hours = 8;      // arrivals are spread over this time
  std::string mix_file;  // empty: the built-in mix
  std::uint64_t seed = 1;
};

// JSON lines, one job per line, ordered by submit time. The same options give the same bytes. The
// n-th job is the same for every arrival pattern. Kinds of jobs occur in proportion to their
// weights, to within one job.
Result<std::string> generate_workload(const GenerateOptions& options);

// The built-in mix, as the text of a mix file (docs/workloads.md). share/mixes/default.json is a
// copy of it.
std::string_view default_mix();

}  // namespace rubato
