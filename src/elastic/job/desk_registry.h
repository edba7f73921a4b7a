// The registry of a job that a daemon spreads over nodes. It is in the daemon; the agent of each
// node asks there for the job's processes, which reach the agent at a socket in the job's folder on
// the node. While the agent or the daemon is away, calls fail with kIo, and the job trains on.
//
// A call is a line of JSON, and so is its answer:
//   {"op": "get", "name": N}                                 {"version": V, "value": TEXT}
//   {"op": "at", "name": N, "version": V}                    {"value": TEXT}, or {} if there is
//   none
//   {"op": "swap", "name": N, "expected": V, "value": TEXT}  {"won": BOOL}
//   {"op": "watch"}                                          {}, and again at every change
// An error is {"error": MESSAGE, "code": "io" | "refused" | "invalid"}; "io" for a swap: it may
// have been written or not.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/mutex.h"
#include "elastic/job/registry.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

class DeskRegistry final : public Registry {
 public:
  explicit DeskRegistry(std::string socket) : socket_(std::move(socket)) {}

  Result<Record> get(const std::string& name) override;
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override;
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override;
  bool may_be_away() const override { return true; }
  std::chrono::milliseconds look_interval() const override;
  std::unique_ptr<RegistryWatch> watch(std::function<void()> changed) override;

 private:
  Result<nlohmann::json> call(const nlohmann::json& request);

  const std::string socket_;
  Mutex mutex_;
  Descriptor connection_ RUBATO_GUARDED_BY(mutex_);
};

// The longest line of a call or an answer.
inline constexpr std::size_t kLongestDeskLine = 4 << 20;

}  // namespace rubato::elastic
