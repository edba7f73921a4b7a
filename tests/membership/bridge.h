// The bridge of a node in one view, as elastic/transport/bridge.h: it keeps the boards of the
// view's nodes identical. It belongs to the process of the node's gateway and has a stream to each
// other one.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "elastic/membership/effects.h"
#include "membership/memory.h"
#include "membership/network.h"

namespace rubato::elastic::membership::sim {

class Process;

struct Frame {
  enum class Kind { kArrived, kReduced, kRestore, kEnd };
  Kind kind = Kind::kEnd;
  std::size_t position = 0;  // of the member in the view
  Step step = 0;
  std::array<Hash, kLogical> slots{};   // after the step
  std::array<Hash, kLogical> values{};  // partial sums, or pieces of the gradient
  // With the leader's arrival: the announced view.
  ViewNumber next = 0;
  Step next_first_step = 0;
  std::size_t next_members = 0;
  Proposal proposal;
};

class Bridge {
 public:
  // `started`: how the view begins if a message starts it; nothing for a planned one.
  Bridge(Process& gateway, ViewPtr view, std::optional<Restore> started);
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  const View& view() const { return *view_; }
  bool serves(const View& view) const;  // the same members under the same number
  bool connected() const;               // with all other nodes
  bool restored() const { return restored_; }
  bool broken() const { return broken_; }
  bool finished() const;  // everything was sent and received
  // Sends what is on the board, then ends.
  void close() { closing_ = true; }
  // Closes the streams; what was sent still arrives.
  void stop();
  // Sends and takes whatever is possible now. True: it took something.
  bool look();

  // --- What happens to its streams ---
  void dial(int gateway);
  void take(int gateway, std::int64_t stream, const Frame& frame);
  void ended(std::int64_t stream);  // by the other side, or because the link is dead
  bool has_stream(std::int64_t stream) const;
  std::vector<std::pair<int, std::int64_t>> streams() const;  // by the other gateway

 private:
  struct Link {
    int gateway = -1;
    std::int64_t stream = 0;  // 0: not connected
    Micros last_delivery = 0;
    std::deque<Frame> inbox;
    Step step = kNever;     // that it sends
    std::size_t sends = 0;  // of that step: first arrivals, then slices, member by member
    bool restore_sent = false;
    bool sent = false;
    bool received = false;
  };

  Link* link_to(int gateway);
  std::optional<Step> begun();
  void send(Link& link, const Frame& frame);
  void send_possible(Link& link, Step first);
  bool take_possible(Link& link);
  void take_arrived(const Frame& frame);
  bool restores(const std::string& from, const std::string& to) const;
  void fail();

  Process& gateway_;
  ViewPtr view_;
  std::optional<Restore> started_;
  std::vector<std::size_t> own_;  // positions of the node's members
  std::vector<Link> links_;
  std::optional<Step> first_;
  bool restored_ = false;
  bool closing_ = false;
  bool broken_ = false;
};

}  // namespace rubato::elastic::membership::sim
