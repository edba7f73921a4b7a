#include "control/series.h"

#include <cmath>
#include <utility>

#include "control/json_fields.h"

namespace rubato::control {

namespace {

void add_use(nlohmann::json& object, const UseValues& use) {
  for (std::size_t i = 0; i < use.size(); ++i) {
    if (!std::isnan(use[i])) object[std::string(kUseColumns[i])] = use[i];
  }
}

}  // namespace

nlohmann::json to_json(const Series& series) {
  nlohmann::json shown = {{"step", series.step}, {"at", series.at}};
  for (std::size_t i = 0; i < kSeriesColumns.size(); ++i) {
    shown[std::string(kSeriesColumns[i])] = series.columns[i];
  }
  for (std::size_t i = 0; i < kUseColumns.size(); ++i) {
    nlohmann::json values = nlohmann::json::array();
    bool known = false;
    for (const double value : series.use[i]) {
      known = known || !std::isnan(value);
      values.push_back(std::isnan(value) ? nlohmann::json(nullptr) : nlohmann::json(value));
    }
    if (known) shown[std::string(kUseColumns[i])] = std::move(values);
  }
  return shown;
}

nlohmann::json to_json(const ClusterSample& sample) {
  nlohmann::json shown = {{"at", sample.at}};
  for (std::size_t i = 0; i < kSeriesColumns.size(); ++i) {
    shown[std::string(kSeriesColumns[i])] = sample.values[i];
  }
  add_use(shown, sample.use);
  return shown;
}

nlohmann::json to_json(const JobPoint& point) {
  nlohmann::json shown = {{"at", point.at},
                          {"step", point.step},
                          {"held", point.held},
                          {"step_s", point.step_s},
                          {"samples_per_s", point.samples_per_s},
                          {"loss", point.loss},
                          {"metrics", point.metrics}};
  add_use(shown, point.use);
  return shown;
}

JobPoint point_from(const nlohmann::json& object) {
  JobPoint point{.at = number_in(object, "at"),
                 .step = whole_in(object, "step"),
                 .held = static_cast<int>(whole_in(object, "held")),
                 .step_s = number_in(object, "step_s"),
                 .samples_per_s = number_in(object, "samples_per_s"),
                 .loss = number_in(object, "loss")};
  const nlohmann::json* metrics = field_of(object, "metrics");
  if (metrics != nullptr && metrics->is_object()) point.metrics = *metrics;
  for (std::size_t i = 0; i < kUseColumns.size(); ++i) {
    const std::string name(kUseColumns[i]);
    if (field_of(object, name.c_str()) != nullptr) {
      point.use[i] = number_in(object, name.c_str());
    }
  }
  return point;
}

}  // namespace rubato::control
