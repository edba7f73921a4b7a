#include "membership/bridge.h"

#include <algorithm>
#include <utility>

#include "elastic/transport/bridge_layout.h"
#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

constexpr Micros kDialAgain = 30'000;

bool same_members(const View& a, const View& b) {
  return a.number == b.number && std::equal(a.members.begin(), a.members.end(), b.members.begin(),
                                            b.members.end(), [](const Member& x, const Member& y) {
                                              return x.address.id == y.address.id &&
                                                     x.hosts.begin == y.hosts.begin &&
                                                     x.hosts.end == y.hosts.end;
                                            });
}

}  // namespace

Bridge::Bridge(Process& gateway, ViewPtr view, std::optional<Restore> started)
    : gateway_(gateway), view_(std::move(view)), started_(std::move(started)) {
  const std::string& node = gateway_.node_name();
  for (std::size_t i = 0; i < view_->members.size(); ++i) {
    const WorkerAddress& member = view_->members[i].address;
    if (member.node == node) {
      own_.push_back(i);
      continue;
    }
    const int other = gateway_of(*view_, member.node);
    if (link_to(other) == nullptr) links_.emplace_back().gateway = other;
  }
  restored_ = !started_ || !restores(started_->source, node);
  for (const Link& link : links_) {
    if (gateway_.id() > link.gateway) gateway_.dial_stream(view_->number, link.gateway, 400);
  }
}

void Bridge::stop() {
  for (const Link& link : links_) {
    if (link.stream == 0) continue;
    gateway_.close_stream(view_->number, link.gateway, link.stream, link.last_delivery);
  }
}

bool Bridge::serves(const View& view) const { return same_members(*view_, view); }

bool Bridge::connected() const {
  return std::all_of(links_.begin(), links_.end(), [](const Link& l) { return l.stream != 0; });
}

bool Bridge::finished() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.sent && link.received; });
}

bool Bridge::has_stream(std::int64_t stream) const {
  return std::any_of(links_.begin(), links_.end(),
                     [&](const Link& link) { return link.stream == stream; });
}

std::vector<std::pair<int, std::int64_t>> Bridge::streams() const {
  std::vector<std::pair<int, std::int64_t>> result;
  for (const Link& link : links_) {
    if (link.stream != 0) result.emplace_back(link.gateway, link.stream);
  }
  return result;
}

Bridge::Link* Bridge::link_to(int gateway) {
  for (Link& link : links_) {
    if (link.gateway == gateway) return &link;
  }
  return nullptr;
}

// --- Streams -------------------------------------------------------------------------------------

void Bridge::dial(int gateway) {
  Link* const link = link_to(gateway);
  if (link == nullptr || link->stream != 0 || broken_) return;
  Bridge* const other = gateway_.reachable_bridge(gateway, view_->number);
  Link* const back = other == nullptr ? nullptr : other->link_to(gateway_.id());
  if (back == nullptr || back->stream != 0 || other->broken_ || !other->serves(*view_)) {
    gateway_.dial_stream(view_->number, gateway, kDialAgain);
    return;
  }
  link->stream = back->stream = gateway_.new_stream();
  gateway_.bridge_soon();
  other->gateway_.bridge_soon();
}

void Bridge::take(int gateway, std::int64_t stream, const Frame& frame) {
  Link* const link = link_to(gateway);
  if (link == nullptr || link->stream != stream || broken_) return;
  link->inbox.push_back(frame);
}

void Bridge::ended(std::int64_t stream) {
  for (const Link& link : links_) {
    if (link.stream != stream) continue;
    if (!link.sent || !link.received) fail();
  }
}

void Bridge::fail() {
  if (broken_) return;
  broken_ = true;
  for (Link& link : links_) link.inbox.clear();
  stop();
  gateway_.bridge_broke(view_->number);
}

// --- What it carries -----------------------------------------------------------------------------

bool Bridge::restores(const std::string& from, const std::string& to) const {
  const std::vector<std::string>& lagging = started_->lagging;
  return from == started_->source && std::find(lagging.begin(), lagging.end(), to) != lagging.end();
}

// The first step, once the view has begun in this node's memory.
std::optional<Step> Bridge::begun() {
  if (first_) return first_;
  const ViewNumber number = view_->number;
  if (started_) {
    if (gateway_.board().block(number).view == number) first_ = view_->first_step;
    return first_;
  }
  const Block& before = gateway_.board().block(number - 1);
  if (before.view != number - 1 || before.next != number) return std::nullopt;
  const ViewPtr committed = gateway_.committed(number);
  if (!committed) return std::nullopt;
  if (!same_members(*committed, *view_)) {
    fail();  // another view has the number
    return std::nullopt;
  }
  if (before.complete() >= committed->first_step - 1 && !before.closed) {
    first_ = committed->first_step;
  }
  return first_;
}

bool Bridge::look() {
  bool took = false;
  for (Link& link : links_) {
    if (broken_) return took;
    if (link.stream == 0) continue;
    if (started_ && !link.restore_sent) {
      link.restore_sent = true;
      const std::string& to = view_->find(link.gateway)->address.node;
      if (restores(gateway_.node_name(), to)) {
        Board& board = gateway_.board();
        Frame frame{.kind = Frame::Kind::kRestore, .step = started_->view->first_step - 1};
        frame.values = board.gradient_of(frame.step);
        for (int l = 0; l < kLogical; ++l) {
          frame.slots[static_cast<std::size_t>(l)] = board.slot_before(l, frame.step + 1);
        }
        send(link, frame);
      }
    }
    if (const std::optional<Step> first = begun()) send_possible(link, *first);
    while (!broken_ && !link.inbox.empty() && take_possible(link)) {
      if (!link.inbox.empty()) link.inbox.pop_front();
      took = true;
    }
  }
  return took;
}

void Bridge::send(Link& link, const Frame& frame) {
  gateway_.send_frame(link.gateway, view_->number, link.stream, link.last_delivery, frame);
}

void Bridge::send_possible(Link& link, Step first) {
  Board& board = gateway_.board();
  const Block& block = board.block(view_->number);
  if (link.step == kNever) link.step = first;
  const auto end = [&] {
    send(link, Frame{});
    link.sent = true;
  };
  while (!link.sent) {
    if (link.sends == 2 * own_.size()) {
      // Every announcement precedes the leader's arrival, which precedes the slices sent here.
      if (block.next != 0 && block.next_first_step == link.step + 1) return end();
      ++link.step;
      link.sends = 0;
    }
    const bool arrivals = link.sends < own_.size();
    const std::size_t position = own_[link.sends % own_.size()];
    const Row& row = block.rows[position];
    if ((arrivals ? row.arrived : row.reduced) < link.step) {
      if (closing_) end();
      return;
    }
    Frame frame{.kind = arrivals ? Frame::Kind::kArrived : Frame::Kind::kReduced,
                .position = position,
                .step = link.step};
    const Member& member = view_->members[position];
    if (arrivals) {
      for (int l = member.hosts.begin; l < member.hosts.end; ++l) {
        frame.slots[static_cast<std::size_t>(l)] = board.slot_before(l, link.step + 1);
      }
      frame.values = gateway_.sums_of(member.address);
      if (member.address.id == view_->leader && block.next != 0 &&
          block.next_first_step == link.step + 1) {
        frame.next = block.next;
        frame.next_first_step = block.next_first_step;
        frame.next_members = board.block(block.next).rows.size();
        frame.proposal = block.proposal;
      }
    } else {
      frame.values = board.gradient_of(link.step);
    }
    send(link, frame);
    ++link.sends;
  }
}

// Whether the first frame could be taken.
bool Bridge::take_possible(Link& link) {
  const Frame& frame = link.inbox.front();
  Board& board = gateway_.board();
  if (frame.kind == Frame::Kind::kEnd) {
    link.received = true;
    return true;
  }
  if (frame.kind == Frame::Kind::kRestore) {
    board.gradient_of(frame.step) = frame.values;
    board.gradient_tag(frame.step) = frame.step;
    gateway_.take_slots(frame.slots, {0, kLogical}, frame.step);
    restored_ = true;
    gateway_.published_for_others(*view_);
    return true;
  }
  const std::optional<Step> first = begun();
  if (!first) return false;
  Block& block = board.block(view_->number);
  if (frame.kind == Frame::Kind::kReduced) {
    const auto members = static_cast<int>(view_->members.size());
    const auto at = static_cast<int>(frame.position);
    board.gradient_tag(frame.step) = -2 - frame.step;
    for (int piece = kLogical * at / members; piece < kLogical * (at + 1) / members; ++piece) {
      const auto i = static_cast<std::size_t>(piece);
      board.gradient_of(frame.step)[i] = frame.values[i];
    }
    block.rows[frame.position].reduced = frame.step;
    if (block.complete() >= frame.step) gateway_.complete_on_board(view_->number, frame.step);
  } else {
    // Until the step before is complete here, it may have to be repeated with the slots of now.
    if (frame.step > *first && (block.complete() < frame.step - 1 || block.closed)) return false;
    take_arrived(frame);
  }
  gateway_.published_for_others(*view_);
  return true;
}

void Bridge::take_arrived(const Frame& frame) {
  Board& board = gateway_.board();
  const Member& member = view_->members[frame.position];
  gateway_.take_slots(frame.slots, member.hosts, frame.step);
  board.mirror(member.address.id).sum = frame.values;
  Block& block = board.block(view_->number);
  if (frame.next != 0) {
    if (frame.next_members > 0) board.open(frame.next, frame.next_members, frame.next_first_step);
    block.next_first_step = frame.next_first_step;
    block.next = frame.next;
    block.proposal = frame.proposal;
  }
  block.rows[frame.position].arrived = frame.step;
}

}  // namespace rubato::elastic::membership::sim
