// What happened over time, for people to look at: how many devices were used, who had which, how
// jobs progressed. Values for the API; series_store.h keeps them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "control/job_placement.h"
#include "control/live_node.h"
#include "control/state.h"

namespace rubato::control {

// The columns of a series: numbers of devices (see /metrics), jobs, and how long the jobs in the
// queue have been waiting, in seconds.
inline constexpr std::array<std::string_view, 9> kSeriesColumns{
    "devices", "reserved", "allocated",     "held",      "training",
    "queued",  "running",  "waited_median", "waited_p90"};

// Columns of what drivers tell: the mean utilisation of the devices and the share of their memory
// that is in use, 0 to 1, over all devices of which a driver tells it. NaN: none does.
inline constexpr std::array<std::string_view, 2> kUseColumns{"utilisation", "memory"};
inline constexpr double kUnknownUse = std::numeric_limits<double>::quiet_NaN();
using UseValues = std::array<double, kUseColumns.size()>;

// The cluster at one moment. Values are in the order of kSeriesColumns and kUseColumns.
struct ClusterSample {
  double at = 0;
  std::array<double, kSeriesColumns.size()> values{};
  UseValues use{kUnknownUse, kUnknownUse};
};

// Means of samples, one row for each period in which the daemon ran.
struct Series {
  std::int64_t step = 0;     // seconds of a period
  std::vector<double> at{};  // when each period begins
  std::array<std::vector<double>, kSeriesColumns.size()> columns{};
  std::array<std::vector<double>, kUseColumns.size()> use{};
};
// Values of the use columns that are unknown are null; a column without any value is left out.
nlohmann::json to_json(const Series& series);
nlohmann::json to_json(const ClusterSample& sample);

struct SeriesQuery {
  double from = 0;  // seconds since 1970
  double to = 0;
  std::int64_t step = 0;  // seconds of a period; 0: about 500 periods
};

// A running job at one moment.
struct JobPoint {
  JobNumber job = 0;
  double at = 0;
  std::int64_t step = 0;  // steps done
  int held = 0;           // devices
  double step_s = 0;      // 0: unknown
  double samples_per_s = 0;
  double loss = 0;
  nlohmann::json metrics = nlohmann::json::object();  // numbers that its program reported, by name
  UseValues use{kUnknownUse, kUnknownUse};            // of its devices
};
// {"step": .., "held": .., "step_s", "samples_per_s", "loss", "metrics"}, with "at"; and
// "utilisation" and "memory" if they are known.
nlohmann::json to_json(const JobPoint& point);
JobPoint point_from(const nlohmann::json& object);

// Devices that a job held for a while.
struct DeviceSpan {
  JobNumber job = 0;
  JobPlacement nodes{};
  double since = 0;
  double until = 0;  // 0: it still holds them
};

// The devices at one moment.
struct DevicesThen {
  double at = 0;
  std::vector<LiveNode> nodes{};
  std::vector<DeviceSpan> spans{};  // in order of `since`
  std::vector<Reservation> reservations{};
};

}  // namespace rubato::control
