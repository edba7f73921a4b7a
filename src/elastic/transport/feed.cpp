#include "elastic/transport/feed.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "elastic/data/exchange.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

constexpr auto kAnswerWithin = std::chrono::milliseconds(20);
constexpr auto kDialPause = std::chrono::milliseconds(20);

using Successor = FeedClient::Options::Successor;

std::span<std::byte> gradient_bytes(const Board& board, std::int64_t step) {
  return std::as_writable_bytes(std::span(board.gradient(step), board.shape().gradient_floats));
}

nlohmann::json purpose() { return {{"stream", kFeedPurpose}}; }

}  // namespace

// --- Server --------------------------------------------------------------------------------------

void FeedServer::serve(Stream stream) {
  Session& session = sessions_.emplace_back();
  session.stream = std::move(stream);
  session.thread = std::thread([this, &session] {
    answer_all(session);
    session.ended = true;
  });
}

void FeedServer::answer_all(Session& session) {
  BridgeHeaderBytes bytes;
  while (!stop_ && session.stream.receive(bytes)) {
    const std::optional<BridgeHeader> request = decode_bridge_header(bytes);
    if (!request || request->payload_bytes != 0) break;
    bool good = false;
    if (request->type == BridgeFrame::kNext) good = answer_next(session, *request);
    if (request->type == BridgeFrame::kUnit) good = answer_unit(session, *request);
    if (!good) break;
  }
  session.stream.shut_down();
}

bool FeedServer::answer_next(Session& session, const BridgeHeader& request) {
  session.feeds_board = true;
  session.view = request.view;
  const ViewBlock& block = board_.block(request.view);
  if (request.view == 0 || block.view != request.view) return send_snapshot(session);
  // The newcomer may know the view from a node that was lost together with the only step that made
  // it begin. The job has since continued differently from the previous view.
  if (view_ > request.view && block.next_view == 0) return send_snapshot(session);
  const auto until = steady_clock::now() + kAnswerWithin;
  const auto followed = [&] {
    const Announcement next = block.announcement();
    return next.view != 0 && next.first_step - 1 <= request.step;
  };
  const auto news = [&] { return board_.completed() > request.step || followed(); };
  if (!board_.wait(news, [&] { return stop_ || steady_clock::now() >= until; })) {
    return session.stream.send(encode({.type = BridgeFrame::kNothing}));
  }
  const Announcement next = block.announcement();
  if (next.view != 0 && next.first_step - 1 <= request.step) {
    const ViewBlock& following = board_.block(next.view);
    const BridgeHeader answer{.type = BridgeFrame::kAnnounce,
                              .view = request.view,
                              .next = next,
                              .next_members = following.members};
    if (following.view != next.view || block.view != request.view) return send_snapshot(session);
    return session.stream.send(encode(answer));
  }
  const std::int64_t done = board_.completed();
  std::int64_t step = request.step + 1;
  if (done > step + 1) step = done;  // its gradient is already overwritten or soon will be
  if (next.view != 0) step = std::min(step, next.first_step - 1);
  if (!went_through_board(step))
    return session.stream.send(encode({.type = BridgeFrame::kNothing}));
  return send_step(session, request.view, step, step == request.step + 1);
}

// If a worker ran a step alone, the results may still be on its device (Training::reduce_alone).
// They reach the board before a later step goes through it.
bool FeedServer::went_through_board(std::int64_t step) const {
  const std::int64_t mark = board_.gradient_step(step);
  return std::max(mark, -2 - mark) >= step;
}

bool FeedServer::send_snapshot(Session& session) {
  while (!stop_) {
    const std::int64_t number = view_;
    const ViewBlock& block = board_.block(number);
    const std::int64_t step = board_.completed();
    if (number == 0 || block.view != number || block.members == 0) {
      return session.stream.send(encode({.type = BridgeFrame::kNothing}));
    }
    // A later view may have begun that the owner does not know yet.
    const Announcement next = block.announcement();
    if (next.view != 0 && next.first_step - 1 < step) {
      if (board_.block(next.view).view != next.view) {
        return session.stream.send(encode({.type = BridgeFrame::kNothing}));
      }
      std::int64_t expected = number;
      view_.compare_exchange_strong(expected, next.view);
      continue;
    }
    if (!went_through_board(step))
      return session.stream.send(encode({.type = BridgeFrame::kNothing}));
    const BridgeHeader header{.type = BridgeFrame::kSnapshot,
                              .view = number,
                              .step = step,
                              .next_members = block.members,
                              .payload_bytes = boards_.all_slot_bytes() + boards_.data_bytes()};
    return session.stream.send(encode(header), true) &&
           boards_.send_slots(session.stream, step + 1) &&
           boards_.send_data(session.stream, step) && session.stream.flush();
  }
  return false;
}

// The gradient may be overwritten while it is sent; a second header says whether it was.
bool FeedServer::send_step(Session& session, std::int64_t view, std::int64_t step,
                           bool with_gradient) {
  // The gradient is marked right after the step is complete, unless a failure intervened.
  const auto until = steady_clock::now() + kAnswerWithin;
  board_.wait([&] { return board_.gradient_step(step) != -2 - step; },
              [&] { return stop_ || steady_clock::now() >= until; });
  with_gradient = with_gradient && board_.gradient_step(step) == step;
  const std::span<std::byte> gradient = gradient_bytes(board_, step);
  BridgeHeader header{.type = BridgeFrame::kStep,
                      .view = view,
                      .step = step,
                      .flag = with_gradient ? kWithGradient : 0,
                      .payload_bytes = boards_.all_slot_bytes() + boards_.data_bytes() +
                                       (with_gradient ? gradient.size() : 0)};
  if (!session.stream.send(encode(header), true) || !boards_.send_slots(session.stream, step + 1) ||
      !boards_.send_data(session.stream, step)) {
    return false;
  }
  if (with_gradient && !session.stream.send(gradient, true)) return false;
  read_barrier();
  header.flag = with_gradient && board_.gradient_step(step) == step ? kWithGradient : 0;
  // The step after the next one overwrites the slots.
  if (board_.completed() <= step) header.flag |= kWithSlots;
  header.payload_bytes = 0;
  return session.stream.send(encode(header));
}

bool FeedServer::answer_unit(Session& session, const BridgeHeader& request) {
  const auto index = static_cast<std::size_t>(request.member);
  if (index >= shape_.unit_bytes.size()) return false;
  session.unit.resize(std::max(session.unit.size(), shape_.unit_bytes[index]));
  const std::span<std::byte> copy = std::span(session.unit).first(shape_.unit_bytes[index]);
  const auto until = steady_clock::now() + kAnswerWithin;
  std::optional<std::int64_t> version;
  while (!version && !stop_ && steady_clock::now() < until) {
    version = own_->copy_unit(index, copy);
    if (!version) std::this_thread::yield();
  }
  if (!version) return session.stream.send(encode({.type = BridgeFrame::kNothing}));
  const BridgeHeader header{.type = BridgeFrame::kUnitData,
                            .member = request.member,
                            .step = *version,
                            .payload_bytes = copy.size()};
  return session.stream.send(encode(header), true) && session.stream.send(copy, true) &&
         session.stream.flush();
}

bool FeedServer::told(std::int64_t view) const {
  return std::all_of(sessions_.begin(), sessions_.end(), [&](const Session& session) {
    return session.ended || !session.feeds_board || session.view >= view;
  });
}

void FeedServer::reap() {
  sessions_.remove_if([](Session& session) {
    if (!session.ended) return false;
    session.thread.join();
    return true;
  });
}

void FeedServer::stop() {
  stop_ = true;
  for (const Session& session : sessions_) session.stream.shut_down();
  for (Session& session : sessions_) {
    if (session.thread.joinable()) session.thread.join();
  }
  sessions_.clear();
}

// --- Client --------------------------------------------------------------------------------------

FeedClient::FeedClient(const NodeBoards& boards, Options options)
    : boards_(boards), board_(boards_.board()), options_(std::move(options)) {
  const ViewBlock& block = board_.block(options_.view);
  if (options_.view > 0 && block.view == options_.view && block.members > 0) {
    view_ = options_.view;
    step_ = block.complete();
    ready_ = true;
  }
  thread_ = std::thread([this] { run(); });
}

FeedClient::~FeedClient() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    if (stream_) stream_->shut_down();
  }
  changed_.notify_all();
  thread_.join();
}

void FeedClient::set_donor(const WorkerAddress& donor) {
  {
    const MutexLock lock(mutex_);
    if (donor_ && donor_->id == donor.id) return;
    donor_ = donor;
    if (stream_) stream_->shut_down();
  }
  changed_.notify_all();
}

int FeedClient::donor() const {
  const MutexLock lock(mutex_);
  return donor_ ? donor_->id : -1;
}

void FeedClient::run() {
  while (!stop_ && !ended_) {
    WorkerAddress donor;
    {
      const MutexLock lock(mutex_);
      while (!stop_ && !donor_) changed_.wait(mutex_);
      if (stop_) return;
      donor = *donor_;
    }
    Result<Stream> dialled = Stream::dial(donor, options_.identity, purpose(), stop_);
    if (dialled.ok()) {
      const auto stream = std::make_shared<Stream>(std::move(*dialled));
      {
        const MutexLock lock(mutex_);
        if (stop_) return;
        stream_ = stream;
      }
      while (!stop_ && !ended_ && follow(*stream)) {
      }
    }
    const auto again = steady_clock::now() + kDialPause;
    const MutexLock lock(mutex_);
    stream_.reset();
    if (donor_ && donor_->id == donor.id) donor_.reset();  // the owner chooses again
    while (!stop_ && !ended_ && changed_.wait_until(mutex_, again)) {
    }
  }
}

// Asks once. False: the connection is no longer usable.
bool FeedClient::follow(const Stream& stream) {
  BridgeHeaderBytes bytes;
  if (!stream.send(encode({.type = BridgeFrame::kNext, .view = view_, .step = step_})) ||
      !stream.receive(bytes)) {
    return false;
  }
  const std::optional<BridgeHeader> header = decode_bridge_header(bytes);
  return header && take(stream, *header);
}

bool FeedClient::take(const Stream& stream, const BridgeHeader& header) {
  switch (header.type) {
    case BridgeFrame::kNothing:
      return header.payload_bytes == 0;
    case BridgeFrame::kSnapshot:
      return take_snapshot(stream, header);
    case BridgeFrame::kStep:
      return take_step(stream, header);
    case BridgeFrame::kAnnounce: {
      if (header.view != view_ || header.next.view <= view_ || header.payload_bytes != 0 ||
          header.next.first_step - 1 > step_) {
        return false;
      }
      const Successor successor = options_.successor(header.next.view);
      if (successor == Successor::kUnknown) return false;  // the next connection hears it again
      ended_ = successor != Successor::kNobody;
      ViewBlock& block = board_.block(view_);
      view_ = header.next.view;
      if (successor != Successor::kGateway) {
        board_.start_block(header.next.view, header.next_members, header.next.first_step);
        block.announce(header.next);
        board_.pulse();
      }
      // The last message tells the donor which view this node knows.
      if (ended_) stream.send(encode({.type = BridgeFrame::kNext, .view = view_, .step = step_}));
      return true;
    }
    default:
      return false;
  }
}

// Whether the slots and the data are whole does not matter, unless nobody trains: they are those
// of a founder, from which the first view begins. Otherwise a later step brings others.
bool FeedClient::take_snapshot(const Stream& stream, const BridgeHeader& header) {
  const std::int64_t step = header.step;
  if (header.view < 1 || header.next_members < 1 ||
      header.payload_bytes != boards_.all_slot_bytes() + boards_.data_bytes()) {
    return false;
  }
  // A view in which this node has members is not the feed's to report.
  if (options_.successor(header.view) != Successor::kNobody) return false;
  std::vector<std::byte> data;
  if (!boards_.receive_slots(stream, step + 1) || !boards_.receive_data(stream, data) ||
      !boards_.put_data(step, data, true)) {
    return false;
  }
  board_.fed_slots() = -1;
  board_.gradient_step(0) = -1;
  board_.gradient_step(1) = -1;
  board_.start_block(header.view, header.next_members, step + 1);
  view_ = header.view;
  board_.completed() = step;  // less than before, if the job has restarted meanwhile
  complete(step);
  ready_ = true;
  return true;
}

bool FeedClient::take_step(const Stream& stream, const BridgeHeader& header) {
  const std::int64_t step = header.step;
  const std::span<std::byte> gradient = gradient_bytes(board_, step);
  const bool with_gradient = (header.flag & kWithGradient) != 0;
  const std::size_t bytes =
      boards_.all_slot_bytes() + boards_.data_bytes() + (with_gradient ? gradient.size() : 0);
  if (header.view != view_ || step <= step_ || header.payload_bytes != bytes) return false;
  board_.gradient_step(step) = -2 - step;
  board_.fed_slots() = -1;
  write_barrier();
  std::vector<std::byte> data;
  if (!boards_.receive_slots(stream, step + 1) || !boards_.receive_data(stream, data) ||
      (with_gradient && !stream.receive(gradient))) {
    return false;
  }
  BridgeHeaderBytes end;
  if (!stream.receive(end)) return false;
  const std::optional<BridgeHeader> verdict = decode_bridge_header(end);
  if (!verdict || verdict->type != BridgeFrame::kStep || verdict->step != step) return false;
  const bool with_slots = (verdict->flag & kWithSlots) != 0;
  if (!boards_.put_data(step, data, with_slots)) return false;
  if (with_slots) board_.fed_slots() = step;
  if (with_gradient && (verdict->flag & kWithGradient) != 0) board_.gradient_step(step) = step;
  ViewBlock& block = board_.block(view_);
  const auto members = static_cast<std::size_t>(block.members.load());
  for (std::size_t i = 0; i < members; ++i) {
    block.rows[i].arrived = step;
    block.rows[i].reduced.store(step, std::memory_order_release);
  }
  complete(step);
  return true;
}

void FeedClient::complete(std::int64_t step) {
  step_ = step;
  mark_completed(board_, step);
  board_.pulse();
}

// --- Units ---------------------------------------------------------------------------------------

std::optional<std::int64_t> RemoteDonor::copy_unit(std::size_t index,
                                                   std::span<std::byte> out) const {
  std::shared_ptr<Stream> stream;
  {
    const MutexLock lock(mutex_);
    stream = stream_;
  }
  if (!stream) {
    Result<Stream> dialled = Stream::dial(address_, identity_, purpose(), cancelled_);
    if (!dialled.ok()) return std::nullopt;
    stream = std::make_shared<Stream>(std::move(*dialled));
    const MutexLock lock(mutex_);
    if (cancelled_) return std::nullopt;
    stream_ = stream;
  }
  const auto broken = [&] {
    const MutexLock lock(mutex_);
    stream_.reset();
    return std::nullopt;
  };
  BridgeHeaderBytes bytes;
  if (!stream->send(
          encode({.type = BridgeFrame::kUnit, .member = static_cast<std::int32_t>(index)})) ||
      !stream->receive(bytes)) {
    return broken();
  }
  const std::optional<BridgeHeader> header = decode_bridge_header(bytes);
  if (header && header->type == BridgeFrame::kNothing) return std::nullopt;
  if (!header || header->type != BridgeFrame::kUnitData || header->payload_bytes != out.size() ||
      header->member != static_cast<std::int32_t>(index) || !stream->receive(out)) {
    return broken();
  }
  return header->step;
}

void RemoteDonor::cancel() const {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  if (stream_) stream_->shut_down();
}

}  // namespace rubato::elastic
