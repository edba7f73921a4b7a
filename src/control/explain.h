// Explains why a job has the devices it has: a reason code, a sentence with numbers, the holders of
// the devices it waits for, and what would help.
#pragma once

#include <nlohmann/json.hpp>

#include "control/local_executor.h"
#include "control/state.h"

namespace rubato::control {

// {"job", "phase", "code", "text", "numbers": {...}, "blockers": [{"job", "name", "devices"}],
//  "remedy"}. `own` limits the blockers that are named to one tenant's jobs (empty: all); the
//  others
// are counted.
nlohmann::json explain(const JobRecord& job, const State& state, const Machine& machine,
                       const std::string& own);

}  // namespace rubato::control
