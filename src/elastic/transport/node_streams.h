// The streams of a worker to and from other nodes, as far as they are its task.
//
// - In a view of several nodes, the lowest member of each node (its gateway) runs a bridge, which
//   keeps the boards identical. Gateways are a function of the view: if one is lost, the next view
//   has another.
// - Newcomers on a node without members share a board that one of them feeds (feed.h), from a
// member
//   that serves them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "elastic/membership/effects.h"
#include "elastic/memory/node_memory.h"
#include "elastic/transport/bridge.h"
#include "elastic/transport/feed.h"
#include "elastic/transport/stream.h"

namespace rubato::elastic {

class NodeStreams {
 public:
  NodeStreams(std::string node, int worker, ProgramShape shape, Handshake::Identity identity,
              NodeMemory& memory)
      : node_(std::move(node)),
        worker_(worker),
        shape_(std::move(shape)),
        identity_(std::move(identity)),
        memory_(memory) {}
  ~NodeStreams() { stop(); }
  NodeStreams(const NodeStreams&) = delete;
  NodeStreams& operator=(const NodeStreams&) = delete;

  // --- Bridges ---
  // For a planned view that this worker prepares: whether everything it needs between nodes is set
  // up, as far as this worker is responsible. Call again until it is.
  bool ready_for(const std::shared_ptr<const ActiveView>& view,
                 const membership::Proposal& proposal);
  // For a view that is started by message: whether the step before its first one is here. Call
  // again until it is.
  Result<bool> restored(const membership::Restore& start);
  // Why the bridge of this view cannot continue; "" if it can, or if it is not this worker's task.
  std::string problem(const View& view) const;
  // Nothing from other nodes changes this node's memory any more.
  void stop_receiving();

  // --- Feeds ---
  // What the worker knows of the views; see feed_board().
  struct Situation {
    membership::ViewPtr view;    // that it trains or follows
    membership::ViewPtr newest;  // that it knows
    bool member = false;         // it trains `view`
    bool newcomer = false;       // it follows `view` and is not about to begin another
    bool serves = false;         // its board has all private states
    std::function<bool(int)> connected;
    // Whether the registry has answered a question that was asked after this call for the first
    // time with the same `view`.
    std::function<bool()> fresh;
  };
  // Tells threads of feeds what the views are.
  void know(const std::vector<membership::ViewPtr>& views);
  // Keeps the board of a node without members up to date, if that is this newcomer's task. Not "":
  // this worker must leave for that reason.
  std::string feed_board(const Situation& now);
  // What takes over a stream that a peer asks for; nothing if it is not wanted (now).
  std::function<void(Stream)> on_stream(int peer, const nlohmann::json& purpose,
                                        const Situation& now);
  std::unique_ptr<Donor> donor(const WorkerAddress& worker) const;

  void tidy(const Situation& now);
  // For a worker that leaves: whether other nodes have everything from it, or cannot get it.
  struct Delivery {
    bool over = false;
    bool delivered = false;
  };
  Delivery deliver(const View& current);

  void stop();

 private:
  bool is_gateway(const View& view) const;
  FeedClient::Options::Successor successor(std::int64_t number);

  std::string node_;
  int worker_;
  ProgramShape shape_;
  Handshake::Identity identity_;
  NodeMemory& memory_;
  bool used_ = false;                                        // there were streams
  std::map<std::int64_t, std::unique_ptr<Bridge>> bridges_;  // by view
  std::map<std::int64_t, membership::Proposal> proposals_;   // of the bridges to planned views
  std::unique_ptr<FeedServer> feed_server_;
  std::unique_ptr<FeedClient> feed_;
  Mutex mutex_;
  std::map<std::int64_t, membership::ViewPtr> known_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::elastic
