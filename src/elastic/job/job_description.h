// The description of a training, by which checkpoints and newcomers are known to belong to a job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "elastic/data/adaptive.h"
#include "elastic/data/data_order.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

// Newcomers must have the same description.
std::string describe_job(const ProgramShape& shape, const DataOrder::Options& data,
                         std::int64_t total_steps);
// For an adaptive job; `data` is the order of its first batch.
std::string describe_adaptive_job(const ProgramShape& shape, const DataOrder::Options& data,
                                  LrRule rule, std::int64_t total_samples);
// Whether they differ at most in the length of the training. A checkpoint may be continued by a
// training that is longer than the one that wrote it.
bool same_training(std::string_view one, std::string_view other);

}  // namespace rubato::elastic
