// The bridge of a node in one view keeps the boards of all nodes identical. It runs in the process
// of the node's lowest member (the gateway). For every other node it has a stream to that node's
// gateway, with one thread that sends and one that receives.
//
// For every step it sends, member by member, in this order:
//   kArrived   when a local member has arrived: the slots of its logical workers after the step,
//              and those sums over the node's logical workers that exist now that it has arrived
//              (node_sums.h); of each sum the slices that the other node's members own
//   kReduced   when a local member sums its slice: that slice, part by part
// With hosts that are aligned to the tree, each of n nodes sends about 2 (n - 1) / n of the
// gradient per step, whatever its number of members. The receiver first writes the bytes to its
// node's memory (the board, and the mirrors of the remote members' segments) and then advances the
// member's row. So `arrived` and `reduced` mean the same on every board as on a single machine, "a
// step is complete" is a fact in each node's own memory, and a worker does not know which members
// are remote.
//
// Nothing is overwritten too early: the receiver does not take a kArrived of step s + 1 before step
// s is complete on its own board. The sender blocks in TCP meanwhile. Until then the slots that
// step s reads stay intact there, so step s can be repeated if the other nodes are lost.
//
// A bridge serves one view. Its streams are opened while the view is prepared, or when a message
// starts it, and are closed with it. Late data from a former member cannot reach anybody's memory.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "elastic/memory/active_view.h"
#include "elastic/memory/board.h"
#include "elastic/transport/bridge_frame.h"
#include "elastic/transport/bridge_layout.h"
#include "elastic/transport/node_boards.h"
#include "elastic/transport/stream.h"

namespace rubato::elastic {

class Bridge {
 public:
  struct Options {
    std::string node;
    Handshake::Identity identity;
    // The attempt that makes it a planned view, which begins when just that one is announced.
    // Nothing: it is started by message.
    std::optional<membership::Proposal> proposal;
  };
  // `view` must be prepared by the gateway of options.node. The boards must outlive the bridge.
  Bridge(std::shared_ptr<const ActiveView> view, const NodeBoards& boards, Options options);
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  ~Bridge() { stop(); }

  const View& view() const { return view_->view; }
  // The required content of the other gateway's kStream message.
  static nlohmann::json purpose(const View& view, const std::string& to_node);
  bool expects(int peer, const nlohmann::json& purpose) const;
  void accept(int peer, Stream stream);
  bool connected() const;  // with all other nodes

  // For a view that was started by message. If this node is one of `lagging`, it receives the step
  // before the first one from `source`. restored() becomes true when that step has arrived, or at
  // once if none is needed.
  struct Start {
    std::int64_t first_step = 0;
    std::string source;
    std::vector<std::string> lagging;
  };
  void start(const Start& start);
  bool restored() const { return restored_.load(std::memory_order_acquire); }

  // Why the bridge cannot continue; "" if it can.
  std::string problem() const;
  // Call when this worker leaves: the bridge sends what is on the board, then ends.
  void close();
  bool finished() const;  // everything was sent and received
  void stop();

 private:
  struct Link {
    const NodeShare* remote = nullptr;
    WorkerAddress gateway;
    bool dials = false;
    Stream stream;            // set once, before `connected`
    std::vector<float> part;  // of a sum, while it is sent
    std::atomic<bool> connected{false};
    std::atomic<bool> sent{false};
    std::atomic<bool> received{false};
    std::thread sender;
    std::thread receiver;
  };

  void connect(Link& link);
  void set_stream(Link& link, Stream stream);
  bool wait_connected(Link& link);
  void pause();
  std::optional<std::int64_t> wait_begin();
  bool wait(const std::function<bool()>& condition, bool until_close);
  void send_all(Link& link);
  bool send_step(Link& link, std::int64_t step, bool* closed);
  bool send_arrived(Link& link, std::size_t position, std::int64_t step);
  bool send_sum(Link& link, const NodeSum& sum, Slice slice);
  bool send_reduced(Link& link, std::size_t position, std::int64_t step, bool* closed);
  bool send_restore(const Link& link, std::int64_t step) const;
  std::size_t restore_bytes() const;
  void receive_all(Link& link);
  bool receive_frame(Link& link, const BridgeHeader& header);
  bool receive_slot(const Link& link, int logical, std::int64_t step);
  bool take_arrived(Link& link, std::size_t position, const BridgeHeader& header);
  bool take_reduced(Link& link, std::size_t position, const BridgeHeader& header);
  bool take_restore(Link& link, const BridgeHeader& header);
  void fail(const Link& link, const std::string& why);
  std::optional<std::int64_t> step_to_restore(const std::string& from, const std::string& to) const;

  std::shared_ptr<const ActiveView> view_;
  NodeBoards boards_;
  const Board& board_;
  Options options_;
  BridgeLayout layout_;
  const NodeShare* own_ = nullptr;
  ViewBlock& block_;
  std::list<Link> links_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<Start> start_ RUBATO_GUARDED_BY(mutex_);
  std::optional<std::int64_t> first_ RUBATO_GUARDED_BY(mutex_);
  std::string problem_ RUBATO_GUARDED_BY(mutex_);
  std::atomic<bool> started_{false};
  std::atomic<bool> restored_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace rubato::elastic
