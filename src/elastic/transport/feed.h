// How newcomers on a node without members get what is in the memory of a node with members: a feed
// of the board (complete steps with their gradients, slots, announcements of views), and units of
// the state. The newcomer asks, and a thread of a member answers from memory; training never waits
// for it. A newcomer that is too slow for the gradients skips steps and copies the state again
// (state_follower.h), as on one machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "elastic/memory/board.h"
#include "elastic/memory/donor.h"
#include "elastic/memory/worker_segment.h"
#include "elastic/transport/bridge_frame.h"
#include "elastic/transport/node_boards.h"
#include "elastic/transport/stream.h"

namespace rubato::elastic {

inline constexpr const char* kFeedPurpose = "feed";

// The member's side.
class FeedServer {
 public:
  FeedServer(const NodeBoards& boards, std::shared_ptr<const WorkerSegment> own, ProgramShape shape)
      : boards_(boards), board_(boards.board()), own_(std::move(own)), shape_(std::move(shape)) {}
  FeedServer(const FeedServer&) = delete;
  FeedServer& operator=(const FeedServer&) = delete;
  ~FeedServer() { stop(); }

  // Sets the view that runs here now.
  void set_view(std::int64_t number) { view_ = number; }
  void serve(Stream stream);
  // Whether every newcomer fed from here knows `view`. A leaving worker waits for this.
  bool told(std::int64_t view) const;
  void reap();  // removes sessions that have ended
  void stop();

 private:
  struct Session {
    Stream stream;
    std::atomic<bool> ended{false};
    std::atomic<bool> feeds_board{false};
    std::atomic<std::int64_t> view{0};  // the newest view the newcomer knows
    std::vector<std::byte> unit;
    std::thread thread;
  };
  void answer_all(Session& session);
  bool answer_next(Session& session, const BridgeHeader& request);
  bool answer_unit(Session& session, const BridgeHeader& request);
  bool send_snapshot(Session& session);
  bool send_step(Session& session, std::int64_t view, std::int64_t step, bool with_gradient);
  bool went_through_board(std::int64_t step) const;

  NodeBoards boards_;
  const Board& board_;
  std::shared_ptr<const WorkerSegment> own_;
  ProgramShape shape_;
  std::atomic<std::int64_t> view_{0};
  std::atomic<bool> stop_{false};
  std::list<Session> sessions_;  // used only by the owner's thread
};

// The newcomer's side: keeps the board of its node up to date. There is one per node, in the holder
// of the board's lock.
class FeedClient {
 public:
  struct Options {
    Handshake::Identity identity;
    // The view that the newcomer observes, or a newer one that the board has from an earlier
    // feeder. If the board has it, this one continues after the last complete step there.
    std::int64_t view = 0;
    // What happens to the feed when a view follows.
    enum class Successor {
      kUnknown,  // the registry does not show the view yet: ask again
      kNobody,   // no members here: the feed continues
      kBridge,   // members here: the feed announces the view, then the bridge takes over
      kGateway,  // members here and started by message: the gateway opens it, or already has
    };
    std::function<Successor(std::int64_t view)> successor;
  };
  FeedClient(const NodeBoards& boards, Options options);
  FeedClient(const FeedClient&) = delete;
  FeedClient& operator=(const FeedClient&) = delete;
  ~FeedClient();

  // Sets the member to ask from now on.
  void set_donor(const WorkerAddress& donor);
  int donor() const;                     // -1: none, or the last one does not answer
  bool ready() const { return ready_; }  // the board has been filled once
  bool ended() const { return ended_; }

 private:
  void run();
  bool follow(const Stream& stream);
  bool take(const Stream& stream, const BridgeHeader& header);
  bool take_snapshot(const Stream& stream, const BridgeHeader& header);
  bool take_step(const Stream& stream, const BridgeHeader& header);
  void complete(std::int64_t step);

  NodeBoards boards_;
  const Board& board_;
  Options options_;
  std::int64_t view_ = 0;
  std::int64_t step_ = -1;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<WorkerAddress> donor_ RUBATO_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> stream_ RUBATO_GUARDED_BY(mutex_);
  std::atomic<bool> ready_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A member of another node whose units are copied.
class RemoteDonor final : public Donor {
 public:
  RemoteDonor(WorkerAddress address, Handshake::Identity identity)
      : address_(std::move(address)), identity_(std::move(identity)) {}
  std::optional<std::int64_t> copy_unit(std::size_t index, std::span<std::byte> out) const override;
  void cancel() const override;

 private:
  WorkerAddress address_;
  Handshake::Identity identity_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<Stream> stream_ RUBATO_GUARDED_BY(mutex_);
  mutable std::atomic<bool> cancelled_{false};
};

}  // namespace rubato::elastic
