// The command line of a training program.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "elastic/worker/pinned_environment.h"
#include "rubato/job_defaults.h"

namespace rubato {

struct JobOptions {
  JobDefaults spec;            // the defaults, overridden by the command line
  bool logical_asked = false;  // the command line gives the number of logical workers
  bool cuda = false;
  elastic::Consistency consistency = elastic::Consistency::kD1;
  // A mini-batch takes at least this many milliseconds, as if the device were slower. Workers that
  // share a processor then scale as they would on devices of their own. Never changes the result.
  std::int64_t pace_ms = 0;
  std::string dump;  // file for the final parameters; empty: none
  std::string init;  // a state_dict to start from; empty: none
  bool help = false;
};

// `arguments` without the program name. Each option is "--name value" or "--name=value". Sets the
// variables of `flags`. A flag must not have the name of another option.
Result<JobOptions> parse_job_options(std::span<const char* const> arguments,
                                     const JobDefaults& defaults, std::span<const Flag> flags = {});
std::string job_help(const JobDefaults& defaults, std::span<const Flag> flags = {});

}  // namespace rubato
