// Why a job has what it has: code, a sentence with numbers, who holds what it waits for, and what
// would help.
#pragma once

#include <nlohmann/json.hpp>

#include "control/local_executor.h"
#include "control/state.h"
#include "sched/job_state.h"

namespace rubato::control {

// The facts of a decision as events and job records have them.
nlohmann::json facts_json(const DecisionFacts& facts);

// {"job", "phase", "code", "text", "numbers": {...}, "blockers": [{"job", "name", "devices"}],
//  "remedy"}. Why it waits or runs as it does is what `reason` and `facts` of the record say: those
// of the decision that made it. `own` limits the blockers that are named to one tenant's jobs
// (empty: all); the others are counted.
nlohmann::json explain(const JobRecord& job, const State& state, const Machine& machine,
                       const std::string& own);
// What is wrong with a running job that makes no progress comes before everything else.
void explain_stall(nlohmann::json& answer, const JobRecord& job, double now);

}  // namespace rubato::control
