// Metrics in the Prometheus text format (0.0.4). docs/metrics.md describes each of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "api/front.h"
#include "base/mutex.h"
#include "control/controller.h"

namespace rubato::api {

std::string metrics_text(const control::ControllerMetrics& metrics);
// Of each tenant, or only of the one of this name. Beyond the first hundred, tenants are counted
// together as "_other".
std::string tenant_metrics_text(const control::ControllerMetrics& metrics,
                                const std::string& only_tenant);

// Counts the requests to the server. Thread-safe.
class RequestMetrics {
 public:
  void count(const std::string& method, const std::string& route, int status, double seconds);
  void limited(const std::string& by);  // "token" or "address"
  std::string text(const FrontCounts& front, int streams) const;

 private:
  // Upper bounds of the histogram's buckets, in seconds.
  static constexpr std::array<double, 8> kBounds{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3};

  mutable Mutex mutex_;
  std::map<std::tuple<std::string, std::string, int>, std::int64_t> requests_
      RUBATO_GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> limited_ RUBATO_GUARDED_BY(mutex_);
  std::array<std::int64_t, kBounds.size() + 1> by_time_ RUBATO_GUARDED_BY(mutex_){};
  double seconds_ RUBATO_GUARDED_BY(mutex_) = 0;
};

}  // namespace rubato::api
