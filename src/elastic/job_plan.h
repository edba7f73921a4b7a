// What a job's settings, its program and the program's arguments make of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "elastic/adaptive.h"
#include "elastic/batch_rule.h"
#include "elastic/data_board.h"
#include "elastic/data_order.h"
#include "elastic/job_folder.h"
#include "elastic/program.h"

namespace rubato::elastic {

struct JobPlan {
  DataOrder order;  // of an adaptive job: that of its first batch
  BatchRule batches;
  std::optional<AdaptiveTerms> adaptive;     // of an adaptive job
  std::optional<DataBoardShape> data_board;  // likewise
  std::int64_t total_steps = 0;              // of a consistent one
  std::string description;                   // binds checkpoints and newcomers to the job

  // `steps` ends the job earlier than `epochs`, unless negative.
  static Result<JobPlan> make(const JobSettings& settings, const Program& program,
                              std::int64_t epochs, std::int64_t steps);
};

}  // namespace rubato::elastic
