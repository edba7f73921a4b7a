// What follows for a job from its settings, its program and the program's arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "elastic/data/adaptive.h"
#include "elastic/data/batch_rule.h"
#include "elastic/data/data_order.h"
#include "elastic/job/job_folder.h"
#include "elastic/memory/data_board.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

struct JobPlan {
  DataOrder order;  // adaptive job: that of its first batch
  BatchRule batches;
  std::optional<AdaptiveTerms> adaptive;     // adaptive job only
  std::optional<DataBoardShape> data_board;  // adaptive job only
  std::int64_t total_steps = 0;              // consistent job only
  std::string description;                   // binds checkpoints and newcomers to the job

  // If not negative, `steps` may end the job before `epochs` do.
  static Result<JobPlan> make(const JobSettings& settings, const Program& program,
                              std::int64_t epochs, std::int64_t steps);
};

}  // namespace rubato::elastic
