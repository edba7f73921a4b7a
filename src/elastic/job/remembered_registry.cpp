#include "elastic/job/remembered_registry.h"

#include <utility>

namespace rubato::elastic {

using std::chrono::steady_clock;

RememberedRegistry::RememberedRegistry(std::unique_ptr<Registry> beneath)
    : beneath_(std::move(beneath)) {
  watch_ = beneath_->watch([this] { forget(); });
}

Result<Record> RememberedRegistry::get(const std::string& name) {
  if (watch_ == nullptr) return beneath_->get(name);
  const auto now = steady_clock::now();
  std::int64_t changes = 0;
  {
    const MutexLock lock(mutex_);
    changes = changes_;
    const auto found = read_.find(name);
    if (found != read_.end() && found->second.changes == changes &&
        now - found->second.at < look_interval()) {
      return found->second.record;
    }
  }
  Result<Record> record = beneath_->get(name);
  const MutexLock lock(mutex_);
  read_.erase(name);
  if (record.ok()) read_.emplace(name, Read{*record, now, changes});
  return record;
}

Result<bool> RememberedRegistry::compare_and_swap(const std::string& name, std::int64_t expected,
                                                  const std::string& value) {
  Result<bool> won = beneath_->compare_and_swap(name, expected, value);
  forget();
  return won;
}

void RememberedRegistry::forget() {
  const MutexLock lock(mutex_);
  ++changes_;
}

}  // namespace rubato::elastic
