// Who hosts which logical workers: contiguous ranges in the order of the workers.
#pragma once

#include <span>
#include <vector>

#include "elastic/logical_range.h"

namespace rubato::elastic {

// Divides N logical workers among the workers, whose seconds per logical worker are given (all
// equal when unknown; only ratios matter). Every worker gets at least one; the slowest finishes as
// early as possible; among such divisions the one with the fewest exported roots (aligned ranges),
// then the lexicographically smallest. Requires 1 <= workers <= N and positive, finite times.
// O(workers * N^2 log N) at most, about N^2 log N when the times are alike.
std::vector<LogicalRange> divide_logical_workers(int logical_workers,
                                                 std::span<const double> seconds_per_logical);

}  // namespace rubato::elastic
