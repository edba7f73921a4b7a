// `rubato plan`: what would happen to a job if it were submitted now.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "control/snapshot.h"

namespace rubato::control {

struct PlanLimits {
  // Time for the whole answer. The first decision is never cut short; the look ahead is.
  double seconds = 1.5;
  std::function<bool()> should_stop{};  // nobody wants the answer any more
};

// See Controller::plan. `known` is what earlier jobs of the document's program measured.
//
// The real scheduler decides once, with all jobs as they are now. A simulation continues from that
// decision until the job has ended or the time is up. So the decision alone says whether the job
// starts now, and the simulation alone when it starts otherwise. The job waits for those in
// `waits_for` first. Of an array the answer is about one job.
Result<nlohmann::json> plan_for(const Snapshot& snapshot, const JobDocument& document,
                                const Profile& known, const PlanLimits& limits,
                                const WaitsFor& waits_for = {});

}  // namespace rubato::control
