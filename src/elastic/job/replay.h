// Repeats an adaptive job in one process, step by step, with the logical workers and batches it
// had. This is the reference for "same schedule, same bits": it involves no other worker, no view
// change and no failure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_plan.h"
#include "elastic/job/registry.h"
#include "elastic/memory/worker_segment.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

struct ScheduleEntry {
  std::int64_t first_step = 0;
  int logical_workers = 1;
  std::int64_t batch = 1;
  friend bool operator==(const ScheduleEntry&, const ScheduleEntry&) = default;
};

// The views in which the steps of a job were done, ascending, from the job's history in the
// registry. A view counts up to the first step of the next one. That step is not after the view's
// own first step if the view never began or the job was restarted from a checkpoint.
Result<std::vector<ScheduleEntry>> schedule_of(Registry& registry);

struct Replayed {
  std::string state_sha256;  // as in result.json
  std::int64_t steps = 0;
  double final_loss = 0;
};
// The program's state must already be bound to `own`. The schedule must begin at step 0.
Result<Replayed> replay(Program& program, const JobPlan& plan, const WorkerSegment& own,
                        std::span<const ScheduleEntry> schedule);

}  // namespace rubato::elastic
