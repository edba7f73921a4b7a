#include "api/rate_limit.h"

#include <algorithm>

namespace rubato::api {

namespace {
constexpr std::size_t kMostBuckets = 10'000;
}

double RateLimiter::level(const Bucket& bucket, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  return std::min(limit_.burst, bucket.left + std::max(0.0, seconds) * limit_.per_second);
}

double RateLimiter::take(const std::string& key, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (buckets_.size() >= kMostBuckets && !buckets_.contains(key)) forget_full_ones(now);
  Bucket& bucket = buckets_.try_emplace(key, Bucket{limit_.burst, now}).first->second;
  bucket.left = level(bucket, now);
  bucket.at = now;
  if (bucket.left < 1) return (1 - bucket.left) / limit_.per_second;
  bucket.left -= 1;
  return 0;
}

// A full bucket is equivalent to no bucket. If none is full, all are reset to bound the memory.
void RateLimiter::forget_full_ones(Clock::time_point now) {
  std::erase_if(buckets_,
                [&](const auto& entry) { return level(entry.second, now) >= limit_.burst; });
  if (buckets_.size() >= kMostBuckets) buckets_.clear();
}

}  // namespace rubato::api
