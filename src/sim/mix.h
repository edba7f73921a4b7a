// Which jobs a generated workload is made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace rubato {

// Values with how often they are drawn.
template <typename T>
class Weighted {
 public:
  // The weight must not be negative; at least one must be positive.
  void add(T value, double weight) {
    total_ += weight;
    values_.push_back({std::move(value), total_});
  }
  double total() const { return total_; }
  // The value that covers this share, in [0, 1), of the total weight.
  const T& at(double share) const {
    for (const auto& [value, up_to] : values_) {
      if (share * total_ < up_to) return value;
    }
    return values_.back().first;
  }
  const T& draw(Random& random) const { return at(random.uniform()); }

 private:
  std::vector<std::pair<T, double>> values_;  // with the sum of the weights so far
  double total_ = 0;
};

// One kind of job. Either it trains an application, or it runs for a time that is log-normally
// distributed.
struct JobKind {
  std::string application;
  double median_s = 0;
  double sigma = 0;
  Weighted<int> devices;              // requested
  std::int64_t batch_per_device = 0;  // 0: the application's initial batch, whatever the size
};

using JobMix = Weighted<JobKind>;

// Reads the text of a mix file (docs/workloads.md); `file` is its name in errors.
Result<JobMix> parse_mix(const std::string& file, std::string_view text);

}  // namespace rubato
