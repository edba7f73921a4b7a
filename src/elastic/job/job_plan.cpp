#include "elastic/job/job_plan.h"

#include <algorithm>

#include "elastic/job/job_description.h"
#include "elastic/memory/board.h"

namespace rubato::elastic {

Result<JobPlan> JobPlan::make(const JobSettings& settings, const Program& program,
                              std::int64_t epochs, std::int64_t steps) {
  DataOrder::Options data = program.data();
  data.logical_workers = settings.adaptive ? settings.first_workers : settings.logical_workers;
  JobPlan plan{.order = DataOrder(data),
               .batches = settings.adaptive
                              ? BatchRule::adaptive(settings.batch_range, data.batch)
                              : BatchRule::consistent(data.logical_workers, data.batch)};
  if (!settings.adaptive) {
    const std::int64_t all_steps = epochs * plan.order.steps_per_epoch();
    plan.total_steps = steps >= 0 ? std::min(steps, all_steps) : all_steps;
    plan.description = describe_job(program.shape(), data, plan.total_steps);
    return plan;
  }
  Result<AdaptiveTerms> terms =
      AdaptiveTerms::make(plan.order, settings.batch_range, settings.lr_rule, epochs, steps);
  if (!terms.ok()) return terms.error();
  // Leave room for any number of workers: a job may be continued with more or fewer.
  plan.data_board = {.most_logical_workers = kMaxWorkers,
                     .most_samples = terms->most_samples(),
                     .data_set = data.samples};
  plan.description = describe_adaptive_job(program.shape(), data, settings.lr_rule,
                                           terms->partitions().options().total_samples);
  plan.adaptive = *terms;
  return plan;
}

}  // namespace rubato::elastic
