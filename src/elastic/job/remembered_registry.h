// A registry for those who look all the time, such as a launcher: get() answers with what it read
// last, as long as the watch of the registry beneath tells of nothing new and look_interval() has
// not passed. So the answer is as old as the hint is late, which a compare-and-swap finds out.
// Without a watch it passes everything on.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "elastic/job/registry.h"

namespace rubato::elastic {

class RememberedRegistry final : public Registry {
 public:
  explicit RememberedRegistry(std::unique_ptr<Registry> beneath);

  Result<Record> get(const std::string& name) override;
  // After this, get() reads.
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override;
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override {
    return beneath_->at(name, version);
  }
  // After this, get() reads: for a decision that is hard to take back.
  void forget();
  std::chrono::milliseconds look_interval() const override { return beneath_->look_interval(); }
  bool may_be_away() const override { return beneath_->may_be_away(); }

 private:
  struct Read {
    Record record;
    std::chrono::steady_clock::time_point at;  // when it was asked for
    std::int64_t changes = 0;                  // that the watch had told by then
  };

  const std::unique_ptr<Registry> beneath_;
  Mutex mutex_;
  std::int64_t changes_ RUBATO_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Read> read_ RUBATO_GUARDED_BY(mutex_);
  std::unique_ptr<RegistryWatch> watch_;  // ends first
};

}  // namespace rubato::elastic
