// Summary statistics of a sample.
#pragma once

#include <span>
#include <vector>

namespace rubato {

double mean(std::span<const double> values);  // 0 for an empty sample
// Percentile with linear interpolation between the two nearest ranks (NumPy's default). The sample
// must be sorted; the result is 0 for an empty sample.
double percentile_sorted(std::span<const double> sorted, double percent);
std::vector<double> sorted_copy(std::span<const double> values);

}  // namespace rubato
