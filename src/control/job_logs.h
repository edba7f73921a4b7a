// The logs of a job's workers in its folder.
#pragma once

#include <string>
#include <vector>

namespace rubato::control {

// Paths of FOLDER/logs/worker-*, oldest first: worker-7.log.2, worker-7.log.1, worker-7.log.
std::vector<std::string> job_log_files(const std::string& folder);

}  // namespace rubato::control
