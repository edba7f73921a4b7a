#include "elastic/transport/bridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace rubato::elastic {

namespace {

constexpr const char* kBroke = "the connection broke";
constexpr const char* kReplaced = "another view has the number of this one";
constexpr auto kPause = std::chrono::milliseconds(10);
// A sum is computed and sent in parts that stay in a core's cache.
constexpr std::size_t kSumPart = std::size_t{1} << 15U;  // floats

std::span<const std::byte> bytes_of(const float* values, Slice slice) {
  return std::as_bytes(std::span(values + slice.begin, slice.end - slice.begin));
}
std::span<std::byte> bytes_of(float* values, Slice slice) {
  return std::as_writable_bytes(std::span(values + slice.begin, slice.end - slice.begin));
}

}  // namespace

Bridge::Bridge(std::shared_ptr<const ActiveView> view, const NodeBoards& boards, Options options)
    : view_(std::move(view)),
      boards_(boards),
      board_(boards_.board()),
      options_(std::move(options)),
      layout_(view_->view, boards_.shape(), boards_.slot_bytes()),
      own_(layout_.find(options_.node)),
      block_(board_.block(view_->view.number)) {
  for (const NodeShare& node : layout_.nodes()) {
    if (&node == own_) continue;
    Link& link = links_.emplace_back();
    link.remote = &node;
    link.gateway = view_->view.find(node.gateway)->address;
    link.dials = own_->gateway > node.gateway;
  }
  for (Link& link : links_) {
    link.receiver = std::thread([this, &link] { receive_all(link); });
    link.sender = std::thread([this, &link] { send_all(link); });
  }
}

nlohmann::json Bridge::purpose(const View& view, const std::string& to_node) {
  return {{"stream", "bridge"}, {"members", membership_of(view)}, {"node", to_node}};
}

bool Bridge::expects(int peer, const nlohmann::json& purpose) const {
  const auto link = std::find_if(links_.begin(), links_.end(),
                                 [&](const Link& l) { return l.remote->gateway == peer; });
  return link != links_.end() && !link->dials && !link->connected &&
         purpose == Bridge::purpose(view_->view, options_.node);
}

void Bridge::accept(int peer, Stream stream) {
  const auto link = std::find_if(links_.begin(), links_.end(),
                                 [&](const Link& l) { return l.remote->gateway == peer; });
  if (link != links_.end()) set_stream(*link, std::move(stream));
}

void Bridge::set_stream(Link& link, Stream stream) {
  {
    const MutexLock lock(mutex_);
    link.stream = std::move(stream);
    link.connected.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

bool Bridge::connected() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& l) { return l.connected.load(); });
}

void Bridge::connect(Link& link) {
  while (!stop_) {
    Result<Stream> stream = Stream::dial(link.gateway, options_.identity,
                                         purpose(view_->view, link.remote->name), stop_);
    if (stream.ok()) {
      set_stream(link, std::move(*stream));
      return;
    }
    pause();  // the peer may not know the view yet
  }
}

void Bridge::pause() {
  const auto end = std::chrono::steady_clock::now() + kPause;
  const MutexLock lock(mutex_);
  while (!stop_ && changed_.wait_until(mutex_, end)) {
  }
}

bool Bridge::wait_connected(Link& link) {
  const MutexLock lock(mutex_);
  while (!stop_ && !link.connected) changed_.wait(mutex_);
  return !stop_;
}

void Bridge::start(const Start& start) {
  {
    const MutexLock lock(mutex_);
    start_ = start;
    first_ = start.first_step;
  }
  if (!step_to_restore(start.source, options_.node)) restored_ = true;
  started_.store(true, std::memory_order_release);
  board_.pulse();
}

// The step that a node receives from another before the view begins, if any.
std::optional<std::int64_t> Bridge::step_to_restore(const std::string& from,
                                                    const std::string& to) const {
  const MutexLock lock(mutex_);
  if (!start_ || start_->source != from) return std::nullopt;
  const std::vector<std::string>& lagging = start_->lagging;
  if (std::find(lagging.begin(), lagging.end(), to) == lagging.end()) return std::nullopt;
  return start_->first_step - 1;
}

bool Bridge::wait(const std::function<bool()>& condition, bool until_close) {
  return board_.wait(condition, [&] { return stop_ || (until_close && closing_); });
}

// Waits until the view has begun in this node's memory and returns its first step. Nothing: the
// bridge was stopped, or another view has the number, so that this one will never begin.
std::optional<std::int64_t> Bridge::wait_begin() {
  const std::int64_t number = view_->view.number;
  if (options_.proposal) {
    const MutexLock lock(mutex_);
    if (first_) return first_;
  } else {
    if (!wait([&] { return started_ && block_.view == number; }, false)) return std::nullopt;
    const MutexLock lock(mutex_);
    return first_;
  }
  const ViewBlock& before = board_.block(number - 1);
  if (!wait([&] { return before.view == number - 1 && before.next_view == number; }, false)) {
    return std::nullopt;
  }
  const Announcement next = before.announcement();
  if (next.view != number || next.proposal != *options_.proposal) return std::nullopt;
  if (!wait([&] { return before.goes_on_after(next.first_step - 1); }, false)) return std::nullopt;
  const MutexLock lock(mutex_);
  first_ = next.first_step;
  return first_;
}

// --- Sending -------------------------------------------------------------------------------------

void Bridge::send_all(Link& link) {
  if (!wait_connected(link)) return;
  if (!options_.proposal) {
    if (!wait([&] { return started_.load(); }, false)) return;
    const auto step = step_to_restore(options_.node, link.remote->name);
    if (step && !send_restore(link, *step)) {
      return fail(link, kBroke);
    }
  }
  const std::optional<std::int64_t> first = wait_begin();
  if (!first) return fail(link, kReplaced);
  bool closed = false;
  for (std::int64_t step = *first; !closed; ++step) {
    if (!send_step(link, step, &closed)) {
      if (!stop_) fail(link, kBroke);
      return;
    }
    // Every announcement precedes the leader's arrival, which precedes the slices sent here.
    closed = closed || (block_.next_view != 0 && block_.next_first_step == step + 1);
  }
  const BridgeHeader end{.type = BridgeFrame::kEnd, .view = view_->view.number};
  link.stream.send(encode(end));
  link.stream.end_sending();
  link.sent = true;
}

// False: the connection broke or the bridge was stopped.
bool Bridge::send_step(Link& link, std::int64_t step, bool* closed) {
  for (const std::size_t position : own_->positions) {
    const MemberRow& row = block_.rows[position];
    if (!wait([&] { return row.arrived.load(std::memory_order_acquire) >= step; }, true)) {
      *closed = true;
      return !stop_;
    }
    if (!send_arrived(link, position, step)) return false;
  }
  for (const std::size_t position : own_->positions) {
    if (!send_reduced(link, position, step, closed)) return false;
    if (*closed) return true;
  }
  return true;
}

bool Bridge::send_arrived(Link& link, std::size_t position, std::int64_t step) {
  const MemberRow& row = block_.rows[position];
  BridgeHeader header{.type = BridgeFrame::kArrived,
                      .member = layout_.worker(position),
                      .view = view_->view.number,
                      .step = step,
                      .compute_us = row.compute_us(step).value_or(0),
                      .stall_us = row.stall_us,
                      .step_us = row.step_us,
                      .payload_bytes = layout_.arrived_bytes(position, *link.remote)};
  if (header.member == view_->view.leader) {
    header.watchers = board_.watchers();
    header.copiers = std::min<std::int32_t>(board_.copiers(), header.watchers);
    const Announcement next = block_.announcement();
    if (next.view != 0 && next.first_step == step + 1) {
      header.next = next;
      header.next_members = board_.block(next.view).members;
    }
  }
  if (!link.stream.send(encode(header), true)) return false;
  const LogicalRange hosts = layout_.hosts(position);
  for (int logical = hosts.begin; logical < hosts.end; ++logical) {
    if (!link.stream.send(board_.slot_bytes(logical, step + 1), true)) return false;
  }
  for (const NodeSum& sum : layout_.sums(position)) {
    for (const Slice& slice : link.remote->slices) {
      if (!send_sum(link, sum, slice)) return false;
    }
  }
  return link.stream.flush();
}

bool Bridge::send_sum(Link& link, const NodeSum& sum, Slice slice) {
  std::vector<const float*> sources;
  for (const NodeSum::Source& source : sum.sources) {
    sources.push_back(view_->segments[source.position]->buffer(source.buffer));
  }
  if (sources.size() == 1) return link.stream.send(bytes_of(sources.front(), slice), true);
  link.part.resize(kSumPart);
  for (std::size_t begin = slice.begin; begin < slice.end; begin += kSumPart) {
    const std::size_t count = std::min(kSumPart, slice.end - begin);
    for (const float*& source : sources) source += begin;
    sum.program.run(sources, 1.0F, link.part.data(), 0, count);
    for (const float*& source : sources) source -= begin;
    if (!link.stream.send(bytes_of(link.part.data(), Slice{0, count}), true)) return false;
  }
  return true;
}

// If the bridge is closed before the slice exists, it ends between two frames.
bool Bridge::send_reduced(Link& link, std::size_t position, std::int64_t step, bool* closed) {
  const MemberRow& row = block_.rows[position];
  const Slice slice = layout_.slice(position);
  const BridgeHeader header{.type = BridgeFrame::kReduced,
                            .member = layout_.worker(position),
                            .view = view_->view.number,
                            .step = step,
                            .payload_bytes = layout_.reduced_bytes(position)};
  const float* const gradient = board_.gradient(step);
  std::size_t sent = 0;  // parts
  for (;;) {
    bool whole = false;
    const auto more = [&] {
      whole = row.reduced.load(std::memory_order_acquire) >= step;
      return whole || row.parts_summed(step) > sent;
    };
    if (!wait(more, true)) {
      *closed = sent == 0;
      return *closed && !stop_;
    }
    if (sent == 0 && !link.stream.send(encode(header), true)) return false;
    const std::size_t parts = row.parts_summed(step);
    const std::size_t begin = std::min(slice.end, slice.begin + sent * kSlicePart);
    const std::size_t end =
        whole ? slice.end : std::min(slice.end, slice.begin + parts * kSlicePart);
    if (!link.stream.send(bytes_of(gradient, Slice{begin, end}), true)) return false;
    if (whole) return link.stream.flush();
    sent = parts;
  }
}

bool Bridge::send_restore(const Link& link, std::int64_t step) const {
  const BridgeHeader header{.type = BridgeFrame::kRestore,
                            .view = view_->view.number,
                            .step = step,
                            .payload_bytes = restore_bytes()};
  const Slice all{0, board_.shape().gradient_floats};
  return link.stream.send(encode(header), true) &&
         link.stream.send(bytes_of(board_.gradient(step), all), true) &&
         boards_.send_slots(link.stream, step + 1) && boards_.send_data(link.stream, step) &&
         link.stream.flush();
}

std::size_t Bridge::restore_bytes() const {
  return board_.shape().gradient_floats * sizeof(float) + boards_.all_slot_bytes() +
         boards_.data_bytes();
}

// --- Receiving -----------------------------------------------------------------------------------

void Bridge::receive_all(Link& link) {
  if (link.dials) connect(link);
  if (!wait_connected(link)) return;
  for (;;) {
    BridgeHeaderBytes bytes;
    if (!link.stream.receive(bytes)) return fail(link, kBroke);
    const std::optional<BridgeHeader> header = decode_bridge_header(bytes);
    if (!header || header->view != view_->view.number) return fail(link, "a malformed frame");
    if (header->type == BridgeFrame::kEnd) break;
    if (!receive_frame(link, *header)) return;
  }
  link.received = true;
}

bool Bridge::receive_frame(Link& link, const BridgeHeader& header) {
  if (header.type == BridgeFrame::kRestore) return take_restore(link, header);
  const std::optional<std::int64_t> first = wait_begin();
  if (!first) {
    fail(link, kReplaced);
    return false;
  }
  const auto found =
      std::find_if(link.remote->positions.begin(), link.remote->positions.end(),
                   [&](std::size_t p) { return layout_.worker(p) == header.member; });
  if (found == link.remote->positions.end()) {
    fail(link, "a frame for a worker of another node");
    return false;
  }
  const std::size_t position = *found;
  const MemberRow& row = block_.rows[position];
  const char* const problem =
      problem_of(header, {.view = view_->view.number,
                          .arrived = row.arrived,
                          .reduced = row.reduced,
                          .arrived_bytes = layout_.arrived_bytes(position, *own_),
                          .reduced_bytes = layout_.reduced_bytes(position)});
  if (*problem != '\0') {
    fail(link, problem);
    return false;
  }
  if (header.type == BridgeFrame::kReduced) return take_reduced(link, position, header);
  if (header.step > *first && !wait([&] { return block_.goes_on_after(header.step - 1); }, false)) {
    return false;
  }
  return take_arrived(link, position, header);
}

bool Bridge::receive_slot(const Link& link, int logical, std::int64_t step) {
  if (!link.stream.receive(board_.slot_bytes(logical, step))) return false;
  const bool possible = boards_.possible_slot(logical, step);
  if (!possible) fail(link, "more samples in a step than a logical worker can have");
  return possible;
}

bool Bridge::take_arrived(Link& link, std::size_t position, const BridgeHeader& header) {
  const LogicalRange hosts = layout_.hosts(position);
  bool good = true;
  for (int logical = hosts.begin; good && logical < hosts.end; ++logical) {
    good = receive_slot(link, logical, header.step + 1);
  }
  for (const NodeSum& sum : layout_.sums(position)) {
    float* const mirror = view_->segments[sum.place().position]->buffer(sum.place().buffer);
    for (const Slice& slice : own_->slices) {
      good = good && link.stream.receive(bytes_of(mirror, slice));
    }
  }
  if (!good || stop_) {
    fail(link, kBroke);
    return false;
  }
  MemberRow& row = block_.rows[position];
  if (header.compute_us > 0) row.note_compute(header.step, header.compute_us);
  row.stall_us = header.stall_us;
  row.step_us = header.step_us;
  if (header.member == view_->view.leader) {
    board_.watchers() = header.watchers;
    board_.copiers() = header.copiers;
    if (header.next.view != 0) {
      board_.start_block(header.next.view, header.next_members, header.next.first_step);
      block_.announce(header.next);
    }
  }
  row.arrived.store(header.step, std::memory_order_release);
  board_.pulse();
  return true;
}

bool Bridge::take_reduced(Link& link, std::size_t position, const BridgeHeader& header) {
  // Marked as in exchange.cpp; a newcomer may be reading the previous content.
  board_.gradient_step(header.step) = -2 - header.step;
  write_barrier();
  if (!link.stream.receive(bytes_of(board_.gradient(header.step), layout_.slice(position))) ||
      stop_) {
    fail(link, kBroke);
    return false;
  }
  block_.rows[position].reduced.store(header.step, std::memory_order_release);
  board_.pulse();
  return true;
}

bool Bridge::take_restore(Link& link, const BridgeHeader& header) {
  if (!wait([&] { return started_.load(); }, false)) return false;
  if (restored_ || step_to_restore(link.remote->name, options_.node) != header.step ||
      header.payload_bytes != restore_bytes()) {
    fail(link, "a step that was not requested");
    return false;
  }
  board_.gradient_step(header.step) = -2 - header.step;
  write_barrier();
  const Slice all{0, board_.shape().gradient_floats};
  std::vector<std::byte> data;
  if (!link.stream.receive(bytes_of(board_.gradient(header.step), all)) ||
      !boards_.receive_slots(link.stream, header.step + 1) ||
      !boards_.receive_data(link.stream, data) || stop_) {
    fail(link, kBroke);
    return false;
  }
  if (!boards_.put_data(header.step, data, true)) {
    fail(link, "the data of a step that cannot be true");
    return false;
  }
  board_.gradient_step(header.step) = header.step;
  restored_.store(true, std::memory_order_release);
  board_.pulse();
  return true;
}

// --- End -----------------------------------------------------------------------------------------

void Bridge::fail(const Link& link, const std::string& why) {
  if (stop_) return;
  {
    const MutexLock lock(mutex_);
    if (problem_.empty()) {
      problem_ = fmt::format("bridge to node {} (worker {}): {}", link.remote->name,
                             link.remote->gateway, why);
    }
  }
  link.stream.shut_down();  // ends the link's other thread and the remote side
}

std::string Bridge::problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

void Bridge::close() {
  closing_ = true;
  board_.pulse();
}

bool Bridge::finished() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.sent && link.received; });
}

void Bridge::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    for (const Link& link : links_) {
      if (link.connected) link.stream.shut_down();
    }
  }
  changed_.notify_all();
  board_.pulse();
  for (Link& link : links_) {
    if (link.sender.joinable()) link.sender.join();
    if (link.receiver.joinable()) link.receiver.join();
  }
}

}  // namespace rubato::elastic
