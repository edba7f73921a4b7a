// What every launcher of a job needs first.
#pragma once

#include <string>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

// One launcher per node and job: the lock ends with the process.
Result<Descriptor> lock_node(const JobFolder& folder, const std::string& node);

// No other job, on any machine, has the same.
std::string random_token();

}  // namespace rubato::elastic
