#include "control/series.h"

#include "control/json_fields.h"

namespace rubato::control {

nlohmann::json to_json(const Series& series) {
  nlohmann::json shown = {{"step", series.step}, {"at", series.at}};
  for (std::size_t i = 0; i < kSeriesColumns.size(); ++i) {
    shown[std::string(kSeriesColumns[i])] = series.columns[i];
  }
  return shown;
}

nlohmann::json to_json(const ClusterSample& sample) {
  nlohmann::json shown = {{"at", sample.at}};
  for (std::size_t i = 0; i < kSeriesColumns.size(); ++i) {
    shown[std::string(kSeriesColumns[i])] = sample.values[i];
  }
  return shown;
}

nlohmann::json to_json(const JobPoint& point) {
  return {{"at", point.at},
          {"step", point.step},
          {"held", point.held},
          {"step_s", point.step_s},
          {"samples_per_s", point.samples_per_s},
          {"loss", point.loss},
          {"metrics", point.metrics}};
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
  return point;
}

}  // namespace rubato::control
