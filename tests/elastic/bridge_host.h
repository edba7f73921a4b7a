// A gateway without a coordinator: a control port that hands streams to a bridge. For tests and
// benchmarks.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "elastic/transport/bridge.h"
#include "elastic/transport/mesh.h"

namespace rubato::elastic {

class BridgeHost final : private Mesh::Listener {
 public:
  BridgeHost(int worker, const std::string& node, const std::string& job, bool encrypt = false,
             const std::string& host = "127.0.0.1")
      : identity_{std::string(kSecretBytes, 's'), job, std::to_string(worker), encrypt} {
    Result<std::unique_ptr<Mesh>> mesh =
        Mesh::open({.job = job, .secret = identity_.secret, .host = host, .encrypt = encrypt},
                   {.id = worker,
                    .node = node,
                    .host = host,
                    .pid = getpid(),
                    .segment = "none",
                    .board = "none"},
                   *this);
    RUBATO_CHECK(mesh.ok(), mesh.error().message.c_str());
    mesh_ = std::move(*mesh);
    thread_ = std::thread([this] {
      while (!stop_) mesh_->poll(50);
    });
  }
  BridgeHost(const BridgeHost&) = delete;
  BridgeHost& operator=(const BridgeHost&) = delete;
  ~BridgeHost() override {
    stop_ = true;
    mesh_->wake();
    thread_.join();
  }

  const WorkerAddress& address() const { return mesh_->self(); }
  const Handshake::Identity& identity() const { return identity_; }
  // Opens a view that was started, not planned. This worker must be the gateway of its node.
  void open(std::shared_ptr<const ActiveView> view, const Board& board, std::int64_t first_step) {
    const std::lock_guard lock(mutex_);
    bridge_.reset();
    bridge_ = std::make_unique<Bridge>(
        std::move(view), board,
        Bridge::Options{.node = address().node, .identity = identity_, .proposal = {}});
    bridge_->start({.first_step = first_step, .source = "", .lagging = {}});
  }
  void close() {
    const std::lock_guard lock(mutex_);
    bridge_.reset();
  }
  Bridge& bridge() const { return *bridge_; }
  int altered() const { return altered_; }  // connections closed because of an altered frame

 private:
  void on_connected(const WorkerAddress&) override {}
  void on_message(int, Message, const nlohmann::json&) override {}
  void on_lost(int, const std::string&) override {}
  std::function<void(Stream)> on_stream(int peer, const nlohmann::json& purpose) override {
    const std::lock_guard lock(mutex_);
    if (!bridge_ || !bridge_->expects(peer, purpose)) return {};
    return [this, peer](Stream stream) {
      const std::lock_guard again(mutex_);
      if (bridge_) bridge_->accept(peer, std::move(stream));
    };
  }
  void on_tampering(int, const std::string&) override { ++altered_; }

  Handshake::Identity identity_;
  std::unique_ptr<Mesh> mesh_;
  std::mutex mutex_;
  std::unique_ptr<Bridge> bridge_;
  std::atomic<int> altered_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rubato::elastic
