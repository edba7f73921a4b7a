// The streams of a simulated gateway, and how it leaves without taking anything along.
#include <fmt/format.h>

#include <algorithm>

#include "elastic/transport/bridge_layout.h"
#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

// A process that ends closes its streams and its connections; the latter tell who is lost.
constexpr Micros kTimeToTell = 300'000;

}  // namespace

ViewPtr Process::committed(ViewNumber number) const {
  const auto index = static_cast<std::size_t>(number - 1);
  return index < world_.views_.size() ? world_.views_[index] : nullptr;
}

const std::array<Hash, kLogical>& Process::sums_of(const WorkerAddress& member) {
  if (process(member.id).node_ != node_) return board_->mirror(member.id).sum;
  return world_.segments_[static_cast<std::size_t>(member.id)].sum;
}

Bridge* Process::bridge(ViewNumber number) {
  for (const auto& each : bridges_) {
    if (each->view().number == number) return each.get();
  }
  return nullptr;
}

Bridge& Process::bridge_for(const ViewPtr& view, const std::optional<Restore>& started) {
  drop_other_bridge(*view);
  Bridge* const known = bridge(view->number);
  if (known != nullptr && !known->broken()) return *known;
  std::erase_if(bridges_, [&](const auto& each) { return each.get() == known; });
  has_streams_ = true;
  bridges_.push_back(std::make_unique<Bridge>(*this, view, started));
  return *bridges_.back();
}

// Of an abandoned attempt with the same number.
void Process::drop_other_bridge(const View& view) {
  std::erase_if(bridges_, [&](const auto& each) {
    const bool other = each->view().number == view.number && !each->serves(view);
    if (other) each->stop();
    return other;
  });
}

Bridge* Process::reachable_bridge(int gateway, ViewNumber number) {
  Process& other = process(gateway);
  const bool cut = std::max(world_.network_.cut_until(node_, other.node_),
                            world_.network_.cut_until(other.node_, node_)) > world_.now_;
  if (cut || !other.alive_ || other.stopped_ || other.ended_) return nullptr;
  return other.bridge(number);
}

void Process::dial_stream(ViewNumber number, int gateway, Micros within) {
  world_.after(world_.random_.between(10, within), id_, {DialStream{number, gateway}});
}

void Process::close_stream(ViewNumber number, int gateway, std::int64_t stream, Micros last) {
  Process& other = process(gateway);
  if (!other.alive_) return;
  Bridge* const there = other.bridge(number);
  if (there == nullptr || !there->has_stream(stream)) return;
  // What was sent still arrives before that, unless the link is dead.
  Micros when = world_.arrival(*this, other, last);
  if (world_.network_.cut_until(node_, other.node_) > world_.now_) {
    when = std::min(when, world_.now_ + kFailureTimeout);
  }
  world_.at(when, gateway, {StreamEnded{number, stream, -1}});
}

void Process::send_frame(int gateway, ViewNumber number, std::int64_t stream, Micros& last,
                         const Frame& frame) {
  Process& other = process(gateway);
  const Micros when = world_.arrival(*this, other, last);
  if (!other.alive_) return;
  world_.at(when, gateway, {StreamData{id_, number, stream, frame}});
}

void Process::take_frame(const StreamData& data) {
  const Micros heals = world_.network_.cut_until(process(data.from).node_, node_);
  if (heals > world_.now_) {
    world_.at(heals, id_, {data});
    return;
  }
  Bridge* const to = bridge(data.view);
  if (to == nullptr) return;
  to->take(data.from, data.stream, data.frame);
  look_at_bridges();
}

void Process::stream_ended(const StreamEnded& ended) {
  if (ended.silent >= 0 && world_.network_.cut_until(ended.silent, node_) <= world_.now_) return;
  if (Bridge* const of = bridge(ended.view)) of->ended(ended.stream);
}

void Process::break_stream(int which) {
  if (bridges_.empty()) return;
  const Bridge& of = *bridges_[static_cast<std::size_t>(which) % bridges_.size()];
  const auto streams = of.streams();
  if (streams.empty()) return;
  const auto& [other, stream] = streams[static_cast<std::size_t>(which / 7) % streams.size()];
  const ViewNumber number = of.view().number;
  world_.after(1, id_, {StreamEnded{number, stream, -1}});
  world_.after(world_.random_.between(1, 3000), other, {StreamEnded{number, stream, -1}});
}

void Process::bridge_soon() {
  if (bridging_scheduled_ || !alive_) return;
  bridging_scheduled_ = true;
  world_.after(world_.random_.between(1, 40), id_, {LookAtBridges{}});
}

void Process::look_at_bridges() {
  if (ended_ || board_ == nullptr) return;
  bridging_scheduled_ = true;  // it need not be told of what it takes now
  bool again = true;
  while (again) {
    again = false;
    // NOLINTNEXTLINE(modernize-loop-convert): it may change meanwhile
    for (std::size_t i = 0; i < bridges_.size(); ++i) {
      if (!bridges_[i]->broken() && bridges_[i]->look()) again = true;
    }
  }
  bridging_scheduled_ = false;
  answer_mapped();
  continue_restore();
  if (phase_ == Phase::kDepart && try_depart()) return;
  if (!view_) return;
  std::erase_if(bridges_, [&](const auto& each) {
    const bool over = each->view().number < view_->number && (each->finished() || each->broken());
    if (over) each->stop();
    return over;
  });
}

void Process::stop_bridges() {
  mapping_.clear();
  for (const auto& each : bridges_) each->stop();
  bridges_.clear();
}

void Process::published_for_others(const View& view) {
  check_publishing(view);
  pulse();
}

void Process::take_slots(const std::array<Hash, kLogical>& slots, LogicalRange of, Step after) {
  for (int l = of.begin; l < of.end; ++l) {
    const Hash slot = slots[static_cast<std::size_t>(l)];
    if (slot != world_.reference_.slot(l, after + 1)) {
      world_.violate(
          fmt::format("worker {} gets a wrong private state of {} after step {}", id_, l, after));
    }
    board_->slot_before(l, after + 1) = slot;
  }
}

void Process::bridge_broke(ViewNumber number) {
  if (world_.tracing_) world_.trace(fmt::format("worker {}: bridge {} is broken", id_, number));
  bridge_soon();  // it may be needed again
  world_.after(kTimeToTell, id_, {TellBroken{number}});
}

// As long as it is so: whoever is told may be busy with something else.
void Process::tell_broken(ViewNumber number) {
  const Bridge* const of = bridge(number);
  if (ended_ || of == nullptr || !of->broken()) return;
  world_.after(kTimeToTell, id_, {TellBroken{number}});
  if (view_ && view_->number == number) input(StreamsBroke{number, "a stream broke"});
}

// --- Leaving -------------------------------------------------------------------------------------

void Process::depart(const char* how) {
  departs_how_ = how;
  phase_ = Phase::kDepart;
  if (!try_depart()) {
    world_.after(2 * kFailureTimeout + 1'000'000, id_, {DepartBy{}});
  }
}

// Whether everybody who needs this worker to enter the next view has done so. A leader hands over
// to the members of nodes that had none.
bool Process::has_fed_all() const {
  const ViewNumber next = view_ ? board_->block(view_->number).next : 0;
  const ViewPtr following = next == 0 ? nullptr : committed(next);
  if (!following || !leads()) return true;
  return std::all_of(following->members.begin(), following->members.end(), [&](const Member& m) {
    return gateway_of(*view_, m.address.node) >= 0 || peer_is_gone(m.address.id) ||
           std::any_of(fed_.begin(), fed_.end(), [&](const auto& entry) {
             return entry.first == m.address.id && entry.second >= next;
           });
  });
}

// Ends if other nodes have everything that they need from this worker.
bool Process::try_depart(bool at_once) {
  const ViewNumber number = view_ ? view_->number : 0;
  bool done = has_fed_all();
  bool delivered = true;
  // NOLINTNEXTLINE(modernize-loop-convert): it may change meanwhile
  for (std::size_t i = 0; i < bridges_.size(); ++i) {
    Bridge& each = *bridges_[i];
    if (each.view().number > number) continue;
    each.close();
    if (!each.broken()) each.look();
    delivered = delivered && each.finished();
    done = done && (each.finished() || each.broken());
  }
  if (!done && !at_once) return false;
  input(Departs{delivered});
  end(departs_how_);
  return true;
}

}  // namespace rubato::elastic::membership::sim
