// The mix of jobs in a generated workload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace rubato {

// Values that are drawn with given weights.
template <typename T>
class Weighted {
 public:
  // Weights must not be negative; at least one must be positive.
  void add(T value, double weight) {
    total_ += weight;
    values_.push_back({std::move(value), total_});
  }
  double total() const { return total_; }
  // The value at this share, in [0, 1), of the total weight.
  const T& at(double share) const {
    for (const auto& [value, up_to] : values_) {
      if (share * total_ < up_to) return value;
    }
    return values_.back().first;
  }
  const T& draw(Random& random) const { return at(random.uniform()); }

 private:
  std::vector<std::pair<T, double>> values_;  // with the sum of the weights up to and including
                                              // this value
  double total_ = 0;
};

// One kind of job. It either trains an application or runs for a log-normally distributed time.
struct JobKind {
  std::string application;
  double median_s = 0;
  double sigma = 0;
  Weighted<int> devices;              // requested
  std::int64_t batch_per_device = 0;  // 0: the application's initial batch, for any number of
                                      // devices
};

using JobMix = Weighted<JobKind>;

// Parses the text of a mix file (docs/workloads.md). `file` is its name in errors.
Result<JobMix> parse_mix(const std::string& file, std::string_view text);

}  // namespace rubato
