// How many logical workers a job trains with: the number that its owner gave, or the program's own.
//
// The program's own number is known once one of its workers runs. The first worker writes the
// number into the registry; all others, the launchers and the command line read it there. It never
// depends on the number of workers or devices.
#pragma once

#include <optional>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/worker/worker.h"

namespace rubato::elastic {

// The number that the workers of the job agreed on; nothing before the first of them has run.
std::optional<int> agreed_logical_workers(Registry& registry);

// The number for a worker of a job that is not adaptive, the same for all of its workers. When the
// owner gave one number and the command line of the program asks for another, the owner's is used,
// and an event of the job says so once. Refused if earlier workers had another number.
Result<int> agree_on_logical_workers(const JobSettings& settings, const WorkerOptions& options,
                                     const JobFolder& folder, Registry& registry);

}  // namespace rubato::elastic
