// The numbers that a program reports about its training: an accuracy, the loss on held-out data.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "elastic/job/job_folder.h"

namespace rubato::elastic {

inline constexpr std::size_t kMostMetrics = 64;
inline constexpr std::size_t kLongestMetricName = 64;

// Collects the newest value of each and writes them to the job's event log as one line of type
// `metrics`, at most once a second: a program may report in every step.
class Metrics {
 public:
  explicit Metrics(JobFolder folder) : folder_(std::move(folder)) {}

  void reached(std::int64_t steps) { steps_ = steps; }  // done
  // Refuses a name that is empty, too long or not plain text, and more than kMostMetrics names.
  Status report(std::string_view name, double value);
  // Writes what is new, if the last line is a while ago.
  void tell();
  void tell_now();
  // Writes what is new, now and from now on.
  void finish();

 private:
  JobFolder folder_;
  std::map<std::string, double, std::less<>> fresh_;  // not written yet
  std::set<std::string, std::less<>> known_;
  std::int64_t steps_ = 0;
  std::chrono::steady_clock::time_point written_;
  bool finished_ = false;
};

}  // namespace rubato::elastic
