#include "sim/speed_cache.h"

#include <algorithm>

#include "base/check.h"

namespace rubato {

StepTime SpeedCache::step_time(const Placement& placement, std::int64_t local) const {
  const auto per_node = placement.per_node();
  std::string key(sizeof local + sizeof(int) * (per_node.size() + 1), '\0');
  char* out = key.data();
  const auto append = [&out](const void* data, std::size_t size) {
    std::copy_n(static_cast<const char*>(data), size, out);
    out += size;
  };
  append(&local, sizeof local);
  const std::int32_t type = placement.type().value;
  append(&type, sizeof type);
  append(per_node.data(), sizeof(int) * per_node.size());
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const SpeedModel* model = application_.speed(placement.type());
  RUBATO_CHECK(model != nullptr, "a job runs on a device type on which it was not measured");
  StepTime time = model->step_time(placement, local);
  if (portable_) {
    time.step_s = (time.step_s - time.sync_s) * application_.portable_slowdown(placement.type()) +
                  time.sync_s;
  }
  known_.emplace(std::move(key), time);
  return time;
}

}  // namespace rubato
