#include "model/jsa.h"

#include <algorithm>

#include "base/check.h"

namespace rubato {

Seconds ring_allreduce_s(double bytes, int devices, const NetworkTier& tier) {
  if (devices <= 1) return 0;
  const double rounds = 2.0 * (devices - 1);
  return rounds * tier.latency_s + rounds / devices * bytes / tier.bytes_per_s;
}

JsaSpeed::JsaSpeed(std::vector<Processed> processed, double weight_bytes, Network network)
    : processed_(std::move(processed)), weight_bytes_(weight_bytes), network_(network) {
  RUBATO_CHECK(!processed_.empty(), "the analyzer needs a one-device measurement");
  std::sort(processed_.begin(), processed_.end(),
            [](const Processed& a, const Processed& b) { return a.local < b.local; });
}

Seconds JsaSpeed::processing_s(std::int64_t local) const {
  const auto above =
      std::lower_bound(processed_.begin(), processed_.end(), local,
                       [](const Processed& p, std::int64_t value) { return p.local < value; });
  const auto wanted = static_cast<double>(local);
  if (above == processed_.end()) {
    return processed_.back().seconds * wanted / static_cast<double>(processed_.back().local);
  }
  if (above == processed_.begin()) {
    // Smaller batches take as long as the smallest measured one, because fixed costs dominate
    // there.
    return above->seconds;
  }
  const Processed& low = *(above - 1);
  const double share =
      (wanted - static_cast<double>(low.local)) / static_cast<double>(above->local - low.local);
  return low.seconds + share * (above->seconds - low.seconds);
}

StepTime JsaSpeed::step_time(const Placement& placement, std::int64_t local) const {
  const NetworkTier& tier = placement.nodes() > 1 ? network_.within_rack : network_.within_node;
  const double sync = ring_allreduce_s(weight_bytes_, placement.devices(), tier);
  const bool alone = placement.devices() == 1;
  const bool measured = alone && std::any_of(processed_.begin(), processed_.end(),
                                             [&](const Processed& p) { return p.local == local; });
  const bool between =
      alone && local >= processed_.front().local && local <= processed_.back().local;
  return {.step_s = processing_s(local) + sync,
          .sync_s = sync,
          .confidence = measured  ? Confidence::kMeasured
                        : between ? Confidence::kInterpolated
                                  : Confidence::kExtrapolated};
}

}  // namespace rubato
