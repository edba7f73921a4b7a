// Rate limiting with token buckets, one per key (the owner of an API token, or an address).
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "api/channel.h"
#include "base/mutex.h"

namespace rubato::api {

struct RateLimit {
  double per_second = 5000;
  double burst = 20'000;
};

class RateLimiter {
 public:
  explicit RateLimiter(RateLimit limit) : limit_(limit) {}

  // Takes one token from the bucket of `key`. Returns 0 on success, else the seconds until one is
  // available. Thread-safe.
  double take(const std::string& key, Clock::time_point now);

 private:
  struct Bucket {
    double left = 0;
    Clock::time_point at{};
  };
  void forget_full_ones(Clock::time_point now) RUBATO_REQUIRES(mutex_);
  double level(const Bucket& bucket, Clock::time_point now) const;

  const RateLimit limit_;
  Mutex mutex_;
  std::map<std::string, Bucket> buckets_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::api
