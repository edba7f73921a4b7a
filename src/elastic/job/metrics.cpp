#include "elastic/job/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace rubato::elastic {

namespace {

constexpr auto kBetweenLines = std::chrono::seconds(1);

// JSON has no number for these.
nlohmann::json value_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace

Status Metrics::report(std::string_view name, double value) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) < 0x7f;
  });
  if (name.empty() || name.size() > kLongestMetricName || !plain) {
    return invalid_input(fmt::format(
        "metric '{}': expected a name of 1 to {} characters, without spaces and letters beyond "
        "ASCII",
        name.substr(0, kLongestMetricName), kLongestMetricName));
  }
  if (!known_.contains(name)) {
    if (known_.size() >= kMostMetrics) {
      return invalid_input(
          fmt::format("metric '{}': the job has {} metrics already; reuse names instead of putting "
                      "a number into them",
                      name, kMostMetrics));
    }
    known_.emplace(name);
  }
  fresh_.insert_or_assign(std::string(name), value);
  if (finished_) tell_now();
  return ok_status();
}

void Metrics::tell() {
  if (!fresh_.empty() && std::chrono::steady_clock::now() - written_ >= kBetweenLines) tell_now();
}

void Metrics::finish() {
  finished_ = true;
  tell_now();
}

void Metrics::tell_now() {
  if (fresh_.empty()) return;
  nlohmann::json values = nlohmann::json::object();
  for (const auto& [name, value] : fresh_) values[name] = value_text(value);
  fresh_.clear();
  written_ = std::chrono::steady_clock::now();
  static_cast<void>(folder_.append_event({{"type", "metrics"},
                                          {"at", unix_seconds()},
                                          {"step", steps_},
                                          {"values", std::move(values)}}));
}

}  // namespace rubato::elastic
