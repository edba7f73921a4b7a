// Explains why a job has the devices it has: a reason code, a sentence with numbers, the holders of
// the devices it waits for, and what would help.
#pragma once

#include <nlohmann/json.hpp>

#include "control/live_cluster.h"
#include "control/state.h"
#include "sched/job_state.h"

namespace rubato::control {

// The code of a queued job about which nothing has been decided yet.
inline constexpr const char* kUndecided = "undecided";
// Whether this code says why a job has no devices. What a job was told while it ran does not.
bool is_reason_to_wait(std::string_view code);

// The facts of a decision as events and job records have them.
nlohmann::json facts_json(const DecisionFacts& facts);

// {"job", "phase", "code", "text", "numbers": {...}, "nodes": [...], "blockers": [{"job", "name",
// "devices"}], "remedy"}. `reason` and `facts` of the record, which come from the latest decision,
// say why the job waits or runs as it does. If `own` is not empty, only blockers of that tenant are
// named; the devices of the others are summed up.
nlohmann::json explain(const JobRecord& job, const State& state, const LiveCluster& cluster,
                       const std::string& own);
// What is wrong with a running job that makes no progress comes before everything else.
void explain_stall(nlohmann::json& answer, const JobRecord& job, double now);
// Devices that are on their way, for a job that waits or could use more.
void explain_supply(nlohmann::json& answer, const JobRecord& job, const State& state, double now);
// Adds what was wrong with the job's files.
void explain_errors(nlohmann::json& answer, const JobRecord& job);

}  // namespace rubato::control
