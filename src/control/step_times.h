// The step times that a running job reported lately, for the uncertainty of its estimated end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/ids.h"

namespace rubato::control {

// How far a job's reported step times lie apart, as factors of their median: a tenth of them are
// below `low`, a tenth above `high`.
struct StepSpread {
  double low = 1;
  double high = 1;
};

// Keeps the reports of the present number of workers. Each report is the median of the job's last
// steps (job_progress.cpp), so the spread is that of the job's pace and not of single steps.
class StepTimes {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kFewest = 8;

  // Reports without a new step say nothing new and are left out.
  void note(std::int64_t step, int workers, Seconds step_s);
  // Empty: fewer than kFewest reports, too few to speak of a spread.
  std::optional<StepSpread> spread() const;

 private:
  std::int64_t step_ = 0;
  int workers_ = 0;
  std::deque<Seconds> reports_{};
};

}  // namespace rubato::control
