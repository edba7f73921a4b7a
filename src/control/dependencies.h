// Jobs that start after others: `after: [prep, {job: j7, when: ended}]`.
//
// Names are resolved when the job is submitted, and what it waits for is part of its record. The
// end of a job is recorded together with what follows for those that wait for it, in one
// transaction: each is released (event `unblocked`), or cancelled if the condition can no longer
// hold. So nobody has to look up later how a job ended, and it does not matter when the daemon
// stops.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/document_node.h"
#include "control/state.h"

namespace rubato::control {

// Codes of these reasons to wait.
inline constexpr const char* kWaitsForJobs = "waits-for-jobs";
inline constexpr const char* kArrayLimit = "array-limit";

inline constexpr std::size_t kMostAfter = 100;  // in a document

// The outcome of waiting for a job that is in this phase.
enum class Verdict { kOpen, kMet, kNever };
Verdict verdict(When when, Phase phase);

// "waits for j3 to finish and j5 to end"
std::string waits_text(const WaitsFor& waits_for);
// "j3 failed, and this job was to start after j3 had finished"
std::string never_text(JobNumber job, When when, Phase phase);

// "prep", "prep:failed"
Result<After> parse_after(std::string_view text);

// Who waits for whom among the active jobs.
class DependentJobs {
 public:
  // Remembers what the job waits for.
  void note(const JobRecord& job);
  // What ends of jobs among `events` mean for the jobs that wait for them, and what ends of those
  // mean in turn. To be recorded together with `events`.
  std::vector<Event> consequences(const std::vector<Event>& events, const State& state) const;
  // The job has ended, durably.
  void forget(JobNumber job) { waiting_.erase(job); }

 private:
  std::map<JobNumber, std::set<JobNumber>> waiting_;  // by the job that they wait for
};

// The field `after` of a job document (job_fields.h).
Status read_after(const DocumentNode& node, JobDocument& document);
nlohmann::json write_after(const JobDocument& document);
nlohmann::json after_schema();

}  // namespace rubato::control
