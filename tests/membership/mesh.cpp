// The connections of a simulated worker, and what happens to its process.
#include <fmt/format.h>

#include <algorithm>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

Process::Peer& Process::peer(int id) {
  for (Peer& known : peers_) {
    if (known.id == id) return known;
  }
  peers_.push_back(Peer{.id = id});
  return peers_.back();
}

bool Process::peer_is_gone(int id) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Peer& known) { return known.id == id && known.lost; });
}

std::vector<int> Process::connected_peers() const {
  std::vector<int> result;
  for (const Peer& known : peers_) {
    if (known.connection != 0) result.push_back(known.id);
  }
  return result;
}

void Process::dial(int id) {
  Peer& of = peer(id);
  Process& other = process(id);
  if (of.lost || of.connection != 0) return;
  const bool cut = std::max(world_.network_.cut_until(node_, other.node_),
                            world_.network_.cut_until(other.node_, node_)) > world_.now_;
  if (!other.alive_ && !cut) {
    lose(id, "its process has ended");
    return;
  }
  if (cut || other.stopped_ || other.peer(id_).lost || other.ended_) {
    world_.after(100'000, id_, {Dial{id}});
    return;
  }
  connect(other);
}

void Process::connect(Process& other) {
  const std::int64_t connection = static_cast<std::int64_t>(++world_.order_);
  Peer& there = peer(other.id_);
  Peer& back = other.peer(id_);
  there.connection = back.connection = connection;
  there.serial = back.serial = connection;
  const Micros delay = world_.random_.between(10, 300);
  there.last_delivery = back.last_delivery = world_.now_ + delay;
  world_.after(delay, id_, {Greeted{other.id_, connection}});
  world_.after(delay, other.id_, {Greeted{id_, connection}});
}

WorkerAddress Process::address() const {
  WorkerAddress result;
  result.id = id_;
  result.node = node_name();
  result.board = board_name_;
  return result;
}

// The connection is gone; both dial again or wait, and lose each other if that takes too long.
void Process::disconnect(Peer& of, bool tell_other) {
  if (of.connection == 0) return;
  of.connection = 0;
  of.serial = static_cast<std::int64_t>(++world_.order_);
  if (!of.lost) {
    if (of.dials) world_.after(world_.random_.between(200, 60'000), id_, {Dial{of.id}});
    world_.after(kFailureTimeout + world_.random_.below(50'000), id_, {Silence{of.id, of.serial}});
  }
  if (!tell_other) return;
  Process& other = process(of.id);
  if (!other.alive_) return;
  Peer& back = other.peer(id_);
  const Micros heals = world_.network_.cut_until(node_, other.node_);
  if (heals <= world_.now_) {
    other.disconnect(back, false);
  } else {
    world_.at(std::min(heals, world_.now_ + kFailureTimeout), of.id, {Silence{id_, back.serial}});
  }
}

// Nothing was heard from the peer for a while, perhaps.
void Process::handle(const Silence& silence) {
  Peer& of = peer(silence.peer);
  Process& other = process(silence.peer);
  if (of.lost) return;
  if (!other.alive_) {
    // While there is a connection, what it had sent comes first; then this is asked again.
    if (silence.serial == kItEnded || of.connection == 0) {
      lose(silence.peer, "its process has ended");
    }
    return;
  }
  if (of.serial != silence.serial) return;
  const bool heard = of.connection != 0 && !other.stopped_ &&
                     world_.network_.cut_until(other.node_, node_) <= world_.now_ &&
                     other.peer(id_).connection == of.connection;
  if (!heard) lose(silence.peer, "silent");
}

void Process::lose(int id, const std::string& why) {
  Peer& of = peer(id);
  if (of.lost) return;
  of.lost = true;
  disconnect(of, true);
  if (ended_) return;
  facts();
  input(Lost{id, why});
}

void Process::send(int to, const Message& message) {
  Peer& of = peer(to);
  if (of.connection == 0) return;
  world_.at(world_.arrival(*this, process(to), of.last_delivery), to,
            {Deliver{id_, of.connection, message}});
}

void Process::break_connection(int id) {
  Process& other = process(id);
  disconnect(peer(id), false);
  if (other.alive_) other.disconnect(other.peer(id_), false);
}

void Process::link_was_cut(int from, Micros until) {
  if (until < world_.now_ + kFailureTimeout) return;
  const auto when = [&] { return kFailureTimeout + world_.random_.below(100'000); };
  for (const Peer& of : peers_) {
    if (of.connection == 0 || process(of.id).node_ != from) continue;
    world_.after(when(), id_, {Silence{of.id, of.serial}});
  }
  for (const auto& bridge : bridges_) {
    for (const auto& [other, stream] : bridge->streams()) {
      if (process(other).node_ != from) continue;
      world_.after(when(), id_, {StreamEnded{bridge->view().number, stream, from}});
    }
  }
}

void Process::kill() {
  if (!alive_) return;
  alive_ = false;
  if (world_.tracing_) world_.trace(fmt::format("worker {} is dead", id_));
  for (Peer& of : peers_) {
    Process& other = process(of.id);
    if (!other.alive_ || other.peer(id_).lost) continue;
    // What it had sent still arrives.
    Micros when = std::max(of.last_delivery, world_.now_) + world_.random_.between(10, 2000);
    const Micros heals = world_.network_.cut_until(node_, other.node_);
    if (heals > world_.now_) {
      when = std::max(when, std::min(heals, world_.now_ + kFailureTimeout));
    }
    other.peer(id_).dials = false;
    world_.at(when, of.id, {Silence{id_, kItEnded}});
  }
  stop_bridges();
  if (board_ != nullptr) {
    std::erase(board_->at, this);
    pulse();
  }
}

void Process::stop(Micros duration) {
  if (!alive_ || stopped_) return;
  stopped_ = true;
  ++stop_serial_;
  world_.after(duration, id_, {WakeUp{stop_serial_}});
  if (duration < kStall) return;
  for (const Peer& of : peers_) {
    Process& other = process(of.id);
    if (other.alive_) {
      world_.after(kFailureTimeout + world_.random_.below(100'000), of.id,
                   {Silence{id_, other.peer(id_).serial}});
    }
  }
}

}  // namespace rubato::elastic::membership::sim
