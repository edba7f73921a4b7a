#include "model/learned.h"

#include <algorithm>

#include "base/check.h"

namespace rubato {

void LearnedModel::report(const Observation& o, const GradientNoise& noise) {
  const bool noise_changed =
      noise.squared_norm != noise_.squared_norm || noise.variance != noise_.variance;
  noise_ = noise;
  if (noise_changed) {
    for (PerType& type : types_) type.best.clear();
  }
  PerType& type = types_[o.type.index()];
  const auto known = std::find_if(
      type.observations.begin(), type.observations.end(), [&](const Observation& seen) {
        return seen.nodes == o.nodes && seen.devices == o.devices && seen.local == o.local;
      });
  if (known == type.observations.end()) {
    type.observations.push_back(o);
    type.revisions.push_back(++revision_);
  } else {
    const bool same = known->step_s == o.step_s && known->sync_s == o.sync_s;
    if (o.measurements < 2 || (same && known->measurements == o.measurements)) return;
    *known = o;
    type.revisions[static_cast<std::size_t>(known - type.observations.begin())] = ++revision_;
    if (same) return;
  }
  type.params.reset();
  type.best.clear();
  max_profiled_devices_ = std::max(max_profiled_devices_, o.devices);
}

void LearnedModel::restart(BatchLimits limits) {
  limits_ = limits;
  max_profiled_devices_ = 0;
  types_ = {};
  ++revision_;
}

LearnedModel LearnedModel::copy() const {
  LearnedModel other(limits_);
  other.noise_ = noise_;
  other.max_profiled_devices_ = max_profiled_devices_;
  other.revision_ = revision_;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    other.types_[i].observations = types_[i].observations;
    other.types_[i].revisions = types_[i].revisions;
  }
  return other;
}

const LearnedModel::PerType& LearnedModel::informed(DeviceTypeId type) const {
  const PerType& own = types_[type.index()];
  if (!own.observations.empty()) return own;
  const auto other = std::find_if(types_.begin(), types_.end(),
                                  [](const PerType& t) { return !t.observations.empty(); });
  RUBATO_CHECK(other != types_.end(), "a learned model was used before its first report");
  return *other;
}

const PerfParams& LearnedModel::params(DeviceTypeId type) const {
  const PerType& known = informed(type);
  if (!known.params) known.params = fit(known.observations);
  return *known.params;
}

const BestBatch& LearnedModel::best(DeviceTypeId type, int nodes, int devices) const {
  const PerType& known = informed(type);
  const std::size_t slot = 2 * static_cast<std::size_t>(devices) + (nodes > 1 ? 1 : 0);
  if (slot >= known.best.size()) known.best.resize(slot + 1);
  std::optional<BestBatch>& entry = known.best[slot];
  if (!entry) entry = best_batch(params(type), noise_, limits_, nodes, devices);
  return *entry;
}

}  // namespace rubato
