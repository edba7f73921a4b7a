// The command line of a training program.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "elastic/pinned_environment.h"
#include "rubato/job_defaults.h"

namespace rubato {

struct JobOptions {
  JobDefaults spec;  // the defaults, overridden by the command line
  bool cuda = false;
  elastic::Consistency consistency = elastic::Consistency::kD1;
  std::string dump;  // file for the final parameters; empty: none
  bool help = false;
};

// `arguments` without the program name. Each option is "--name value" or "--name=value".
Result<JobOptions> parse_job_options(std::span<const char* const> arguments,
                                     const JobDefaults& defaults);
std::string job_help(const JobDefaults& defaults);

}  // namespace rubato
