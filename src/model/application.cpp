#include "model/application.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace rubato {

Application::Application(Description description) : d_(std::move(description)) {
  RUBATO_CHECK(!d_.records.empty() && d_.epochs > 0, "an application has no record");
  RUBATO_CHECK(d_.portable_slowdown.empty() || d_.portable_slowdown.size() == d_.speed.size(),
               "portable_slowdown needs a value for every device type");
  progress_after_.assign(static_cast<std::size_t>(d_.epochs) + 1, 0.0);
  for (std::size_t epoch = 1; epoch < progress_after_.size(); ++epoch) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [batch, record] : d_.records) {
      least = std::min(least, record.progress[epoch - 1]);
    }
    progress_after_[epoch] = least;
  }
}

Application::Neighbours Application::around(double batch) const {
  const auto above = d_.records.lower_bound(static_cast<std::int64_t>(std::ceil(batch)));
  if (above == d_.records.end()) {
    const BatchRecord* last = &d_.records.rbegin()->second;
    return {last, last, 0.0};
  }
  if (static_cast<double>(above->first) == batch || above == d_.records.begin()) {
    return {&above->second, &above->second, 0.0};
  }
  const auto below = std::prev(above);
  const auto width = static_cast<double>(above->first - below->first);
  return {&below->second, &above->second, (batch - static_cast<double>(below->first)) / width};
}

GradientNoise Application::noise(double batch, int epoch) const {
  const Neighbours n = around(batch);
  const auto e = static_cast<std::size_t>(epoch);
  const GradientNoise& low = n.low->noise[e];
  const GradientNoise& high = n.high->noise[e];
  return {.squared_norm = n.share * high.squared_norm + (1 - n.share) * low.squared_norm,
          .variance = n.share * high.variance + (1 - n.share) * low.variance};
}

double Application::iterations_through(double batch, int epoch) const {
  const Neighbours n = around(batch);
  const auto e = static_cast<std::size_t>(epoch);
  return n.share * n.high->iteration[e] + (1 - n.share) * n.low->iteration[e];
}

}  // namespace rubato
