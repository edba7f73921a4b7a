// Memoised step times of one application, for one simulation on one thread.
#pragma once

#include <string>
#include <unordered_map>

#include "model/application.h"

namespace rubato {

class SpeedCache final : public SpeedModel {
 public:
  // With `portable`, computing takes longer by the application's portable_slowdown.
  explicit SpeedCache(const Application& application, bool portable = false)
      : application_(application), portable_(portable) {}
  StepTime step_time(const Placement& placement, std::int64_t local) const override;

 private:
  const Application& application_;
  bool portable_;
  mutable std::unordered_map<std::string, StepTime> known_;  // by the bytes of placement and batch
};

}  // namespace rubato
