// Memoised step times of one application for one simulation (one thread).
#pragma once

#include <string>
#include <unordered_map>

#include "model/application.h"

namespace rubato {

class SpeedCache final : public SpeedModel {
 public:
  explicit SpeedCache(const Application& application) : application_(application) {}
  StepTime step_time(const Placement& placement, std::int64_t local) const override;

 private:
  const Application& application_;
  mutable std::unordered_map<std::string, StepTime> known_;  // by placement and batch, as bytes
};

}  // namespace rubato
