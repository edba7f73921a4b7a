// Makes native workloads whose defaults follow the published distributions: most jobs small and
// short, a heavy tail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato {

enum class Arrival {
  kPoisson,  // the same rate all the time
  kDiurnal,  // the rate swings with the time of day: lowest at the start (midnight), then at noon
             // 7x
  kBursty,   // quiet stretches of about 25 minutes and bursts of about 5 with a 20x rate
};

struct GenerateOptions {
  int jobs = 100;
  Arrival arrival = Arrival::kPoisson;
  double hours = 8;      // the arrivals are spread over this time
  std::string mix_file;  // empty: the built-in mix
  std::uint64_t seed = 1;
};

// JSON lines, one job each, ordered by submit time; the same bytes for the same options. The n-th
// job is the same whatever the arrivals are. The kinds of jobs occur as often as their weights say,
// to within one job.
Result<std::string> generate_workload(const GenerateOptions& options);

// The built-in mix, as the text of a mix file (docs/workloads.md); share/mixes/default.json is a
// copy of it.
std::string_view default_mix();

}  // namespace rubato
