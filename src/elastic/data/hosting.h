// Which worker hosts which logical workers: contiguous ranges in worker order.
#pragma once

#include <span>
#include <vector>

#include "elastic/data/logical_range.h"

namespace rubato::elastic {

// Divides N logical workers among the workers, given their seconds per logical worker (pass equal
// values if unknown; only ratios matter). Every worker gets at least one, and the slowest finishes
// as early as possible. Ties go to the division with the fewest exported roots (aligned ranges),
// then to the lexicographically smallest. Requires 1 <= workers <= N and positive, finite times.
// O(workers * N^2 log N) at most, about N^2 log N if the times are similar.
std::vector<LogicalRange> divide_logical_workers(int logical_workers,
                                                 std::span<const double> seconds_per_logical);

}  // namespace rubato::elastic
