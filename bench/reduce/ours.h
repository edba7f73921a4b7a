// The runtime's own reduction in the harness.
#pragma once

#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "elastic/data/exchange.h"
#include "reduce/harness.h"

namespace rubato::bench {

enum OursVariant : int {
  kInPlace,       // as the runtime uses it: the result is read in place, in shared memory
  kWithCopy,      // and copied to private memory of every rank
  kInPlaceFloor,  // memcpy of as many bytes as kInPlace must read and write
  kWithCopyFloor
};

inline constexpr float kScale = 1.0F / static_cast<float>(kLogicalWorkers);

template <typename T>
T value_of(Result<T> result) {
  RUBATO_CHECK(result.ok(), result.error().message.c_str());
  return std::move(*result);
}

// Publishes under a lock, as the coordinator does.
class PulsingGuard final : public elastic::ExchangeGuard {
 public:
  explicit PulsingGuard(const elastic::Board& board) : board_(board) {}
  bool interrupted() const override { return false; }
  bool publish(const std::function<void()>& write) override {
    {
      const std::lock_guard lock(mutex_);
      write();
    }
    board_.pulse();
    return true;
  }

 private:
  const elastic::Board& board_;
  std::mutex mutex_;
};

// Follows the commands as a rank of the group until told to quit.
void serve_ours(const std::string& control, int rank, bool aligned);
// Consecutive ranks share a node; each node has its own board, and a bridge to every other node.
struct NodesLayout {
  int members = 1;                        // of every node
  int logical_workers = kLogicalWorkers;  // divided evenly
  std::string host = "127.0.0.1";         // where this rank's node is reached
};
// One variant. With other addresses than that of the loopback interface, call it on that host.
void serve_ours_between_nodes(const std::string& control, int rank, const NodesLayout& layout = {});

}  // namespace rubato::bench
