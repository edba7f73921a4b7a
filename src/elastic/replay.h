// Repeats an adaptive job in one process, step by step with the logical workers and batches it had.
// That is the reference for "same schedule, same bits": no other worker, no view change, no failure
// takes part in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/job_plan.h"
#include "elastic/program.h"
#include "elastic/registry.h"
#include "elastic/worker_segment.h"

namespace rubato::elastic {

struct ScheduleEntry {
  std::int64_t first_step = 0;
  int logical_workers = 1;
  std::int64_t batch = 1;
  friend bool operator==(const ScheduleEntry&, const ScheduleEntry&) = default;
};

// In which views the steps of a job were done, ascending; from its history in the registry. A view
// counts up to the first step of the next one, which is earlier than its own when it never began or
// the job was restarted from a checkpoint.
Result<std::vector<ScheduleEntry>> schedule_of(Registry& registry);

struct Replayed {
  std::string state_sha256;  // as in result.json
  std::int64_t steps = 0;
  double final_loss = 0;
};
// `own` is the memory to which the program's state is bound already. The schedule begins at step 0.
Result<Replayed> replay(Program& program, const JobPlan& plan, const WorkerSegment& own,
                        std::span<const ScheduleEntry> schedule);

}  // namespace rubato::elastic
