#include "control/job_errors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/job_files.h"
#include "control/json_fields.h"

namespace rubato::control {

void JobErrors::know(const nlohmann::json& errors) {
  if (!errors.is_object()) return;
  for (const auto& [name, body] : errors.items()) {
    Kind& kind = kinds_[name];
    kind.place = text_of(body, "place");
    kind.message = text_of(body, "message");
    kind.count = kind.told = std::max<std::int64_t>(1, whole_in(body, "count"));
  }
}

void JobErrors::say(const std::string& name, Kind& kind) {
  kind.told = kind.count;
  if (std::find(unsaid_.begin(), unsaid_.end(), name) == unsaid_.end()) unsaid_.push_back(name);
}

void JobErrors::note(const std::string& name, const std::string& place, const std::string& message,
                     std::int64_t count) {
  Kind& kind = kinds_[name];
  kind.count += count;
  if (kind.told > 0) return;
  kind.place = plain_text(place);
  kind.message = plain_text(message);
  say(name, kind);
}

void JobErrors::sum_up() {
  for (auto& [name, kind] : kinds_) {
    if (kind.count > kind.told) say(name, kind);
  }
}

std::vector<nlohmann::json> JobErrors::take() {
  std::vector<nlohmann::json> bodies;
  for (const std::string& name : std::exchange(unsaid_, {})) {
    const Kind& kind = kinds_[name];
    bodies.push_back(
        {{"kind", name}, {"place", kind.place}, {"message", kind.message}, {"count", kind.told}});
  }
  return bodies;
}

bool LineBudget::take(std::int64_t bytes, std::chrono::steady_clock::time_point now) {
  if (at_ != std::chrono::steady_clock::time_point{}) {
    const double passed = std::chrono::duration<double>(now - at_).count();
    left_ = std::min(kLineBurst, left_ + passed * kLinesPerSecond);
  }
  at_ = now;
  const auto cost = static_cast<double>(1 + std::max<std::int64_t>(0, bytes - 1) / kLineUnit);
  if (left_ < cost) return false;
  left_ -= cost;
  return true;
}

}  // namespace rubato::control
