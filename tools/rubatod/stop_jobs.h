// `rubatod stop-jobs`: before a reboot or the removal of the package.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato {

// Checkpoints and stops every job that runs in a state folder whose daemon is stopped (otherwise
// refused: it would start them again). One that has not stopped after `patience_s` is killed and
// loses what it did since its last checkpoint. The next daemon lets all of them go on. Returns how
// many ran.
Result<int> stop_jobs(const std::string& state, double patience_s);

}  // namespace rubato
