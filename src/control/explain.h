// Explains why a job has the devices it has: a reason code, a sentence with numbers, the holders of
// the devices it waits for, and what would help.
#pragma once

#include <nlohmann/json.hpp>

#include "control/local_executor.h"
#include "control/state.h"

namespace rubato::control {

// {"job", "phase", "code", "text", "numbers": {...}, "blockers": [{"job", "name", "devices"}],
// "remedy"}. If `own` is not empty, only blockers of that tenant are named; the devices of
// the others are summed up.
nlohmann::json explain(const JobRecord& job, const State& state, const Machine& machine,
                       const std::string& own);

}  // namespace rubato::control
