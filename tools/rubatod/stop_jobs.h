// `rubatod stop-jobs`, used before a reboot or the removal of the package.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato {

// Checkpoints and stops every running job of a state folder. Refuses if a daemon is running,
// because it would restart the jobs. A job that has not stopped after `patience_s` is killed and
// loses the work since its last checkpoint. The next daemon resumes all of them. Returns the number
// of jobs that were running.
Result<int> stop_jobs(const std::string& state, double patience_s);

}  // namespace rubato
