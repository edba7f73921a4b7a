#include "elastic/coordinator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/json_text.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;
constexpr auto kRegistryInterval = std::chrono::milliseconds(30);

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::start(const Options& options, Registry& registry,
                                                        const std::string& secret,
                                                        std::shared_ptr<const WorkerSegment> own) {
  WorkerAddress self{
      .id = options.worker, .node = options.node.name, .pid = getpid(), .segment = own->name()};
  auto coordinator =
      std::unique_ptr<Coordinator>(new Coordinator(options, registry, secret, std::move(own)));
  Result<std::unique_ptr<Mesh>> mesh =
      Mesh::open({.job = options.settings.name,
                  .secret = secret,
                  .host = options.node.listen,
                  .failure_timeout_s = options.settings.failure_timeout_s},
                 self, *coordinator);
  if (!mesh.ok()) return mesh.error();
  coordinator->mesh_ = std::move(*mesh);
  coordinator->thread_ = std::thread([c = coordinator.get()] { c->run(); });
  return coordinator;
}

Coordinator::Coordinator(const Options& options, Registry& registry, const std::string& secret,
                         std::shared_ptr<const WorkerSegment> own)
    : options_(options),
      registry_(registry),
      identity_{secret, options.settings.name, std::to_string(options.worker)} {
  segments_[options.worker] = std::move(own);
}

Coordinator::~Coordinator() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  if (mesh_) mesh_->wake();
  if (thread_.joinable()) thread_.join();
  // Their threads use the board.
  feed_.reset();
  feed_server_.reset();
  stop_bridges();
}

// --- The training thread's side ------------------------------------------------------------------

std::optional<Coordinator::Event> Coordinator::wait_event(std::chrono::milliseconds at_most) {
  const auto deadline = steady_clock::now() + at_most;
  const MutexLock lock(mutex_);
  while (events_.empty()) {
    if (!changed_.wait_until(mutex_, deadline)) break;
  }
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.erase(events_.begin());
  return event;
}

std::shared_ptr<const ActiveView> Coordinator::started_view() {
  const MutexLock lock(mutex_);
  return std::exchange(to_start_, nullptr);
}

std::string Coordinator::reason() {
  const MutexLock lock(mutex_);
  return reason_;
}

bool Coordinator::was_refused() {
  const MutexLock lock(mutex_);
  return refused_;
}

const Board& Coordinator::board() { return *board_; }
const DataBoard& Coordinator::data_board() { return *data_board_; }

std::shared_ptr<const Donor> Coordinator::donor() {
  const MutexLock lock(mutex_);
  return donor_;
}

void Coordinator::ready() {
  const MutexLock lock(mutex_);
  ready_ = true;
  mesh_->wake();
}

bool Coordinator::sees_view() {
  const MutexLock lock(mutex_);
  return board_->block(observed_).view == observed_;
}

bool Coordinator::sees_training() {
  const MutexLock lock(mutex_);
  return board_->completed() >= observed_first_step_;
}

void Coordinator::filled() {
  const MutexLock lock(mutex_);
  filled_ = true;
  mesh_->wake();
}

bool Coordinator::pending() {
  const MutexLock lock(mutex_);
  return !events_.empty();
}

bool Coordinator::publish(const std::function<void()>& write) {
  {
    const MutexLock lock(mutex_);
    if (interrupted_) return false;
    write();
  }
  board_->pulse();
  return true;
}

void Coordinator::commit_prepared(std::int64_t step) {
  const MutexLock lock(mutex_);
  if (!proposal_ || interrupted_ || proposal_->view.number != entered_number_ + 1) return;
  View view = proposal_->view;
  view.first_step = step + 1;
  view.prepare_s = std::max(0.0, unix_seconds() - proposal_asked_at_);
  const Result<bool> won =
      registry_.compare_and_swap(kViewRecord, view.number - 1, compact_json(to_json(view)));
  proposal_.reset();
  if (!won.ok() || !*won) {
    cancelled_ = true;
    return;
  }
  // Not before winning: if another view has won the number, its block is in use.
  board_->start_block(view.number, static_cast<int>(view.members.size()), view.first_step);
  ViewBlock& block = board_->block(view.number - 1);
  block.next_first_step.store(view.first_step, std::memory_order_release);
  block.next_view.store(view.number, std::memory_order_release);
}

std::optional<View> Coordinator::view_at(std::int64_t number) const {
  const Result<std::optional<std::string>> record = registry_.at(kViewRecord, number);
  if (!record.ok() || !record->has_value()) return std::nullopt;
  Result<View> view = parse_view(parse_json(**record));
  if (!view.ok()) return std::nullopt;
  return std::move(*view);
}

// The announced view as committed. What this worker has prepared may be an abandoned attempt, so
// the registry has the final say. Null: this worker is not a member.
std::shared_ptr<const ActiveView> Coordinator::committed_view(std::int64_t number, bool* empty) {
  const std::optional<View> view = view_at(number);
  if (!view) return nullptr;
  if (empty != nullptr) *empty = view->empty();
  if (view->find(id()) == nullptr) return nullptr;
  const auto found = prepared_.find(number);
  RUBATO_CHECK(found != prepared_.end(), "a committed view was not prepared by a member");
  auto active = std::make_shared<ActiveView>(*found->second);
  RUBATO_CHECK(active->view.ids() == view->ids(), "a committed view differs from the prepared one");
  active->view = *view;
  return active;
}

Coordinator::Next Coordinator::after_step(const ActiveView& view, std::int64_t step) {
  const MutexLock lock(mutex_);
  if (interrupted_) return {.kind = Next::Kind::kInterrupted};
  const Announcement next = view.block->announcement();
  if (next.view == 0 || next.first_step != step + 1) return {.kind = Next::Kind::kSame};
  bool empty = false;
  std::shared_ptr<const ActiveView> following = committed_view(next.view, &empty);
  if (!following) return {.kind = Next::Kind::kGone, .job_stops = empty};
  return {.kind = Next::Kind::kSwitch, .view = std::move(following)};
}

std::shared_ptr<const ActiveView> Coordinator::admitted_at(std::int64_t step) {
  const MutexLock lock(mutex_);
  if (interrupted_) return nullptr;
  // Several views may already follow the one it observed last.
  for (std::int64_t number = observed_; number > 0;) {
    const ViewBlock& block = board_->block(number);
    if (block.view != number) return nullptr;
    const Announcement next = block.announcement();
    if (next.view == 0 || board_->completed() < next.first_step - 1) return nullptr;
    if (next.first_step == step && prepared_.contains(next.view)) {
      auto view = committed_view(next.view, nullptr);
      // The others begin only by message: they may have begun on a node's board before the streams
      // to other nodes are reopened.
      if (view) return view->view.planned() ? view : nullptr;
    }
    number = next.view;
  }
  return nullptr;
}

void Coordinator::entered(std::shared_ptr<const ActiveView> view) {
  const MutexLock lock(mutex_);
  // A freeze, the start of a later view, or an exclusion that arrived meanwhile still applies.
  if (!frozen_ && !to_start_ && !excluded_) interrupted_ = false;
  prepared_.erase(prepared_.begin(), prepared_.upper_bound(view->view.number));
  entered_number_ = view->view.number;
  board_->used() = 1;
  entered_ = std::move(view);
  mesh_->wake();
}

void Coordinator::finish() {
  const MutexLock lock(mutex_);
  finished_ = true;
  mesh_->wake();
}

void Coordinator::depart() {
  if (!has_streams_) {  // everything it published is on its node's board; others pass it on
    const MutexLock lock(mutex_);
    delivered_ = true;
    return;
  }
  // A worker it waits for may be lost, and detecting that takes the failure timeout.
  const auto deadline =
      steady_clock::now() +
      std::chrono::duration_cast<steady_clock::duration>(
          std::chrono::duration<double>(2 * options_.settings.failure_timeout_s + 1));
  const MutexLock lock(mutex_);
  departing_ = true;
  mesh_->wake();
  while (!departed_) {
    if (!changed_.wait_until(mutex_, deadline)) break;
  }
}

void Coordinator::ask_to_leave() { wants_to_leave_ = true; }

// --- The coordinator's thread --------------------------------------------------------------------

void Coordinator::raise(Event event) {
  {
    const MutexLock lock(mutex_);
    events_.push_back(event);
  }
  changed_.notify_all();
}

void Coordinator::leave(const std::string& why) {
  if (gone_) return;
  gone_ = true;
  {
    const MutexLock lock(mutex_);
    reason_ = why;
    excluded_ = true;
    interrupted_ = true;
    if (donor_) donor_->cancel();
  }
  raise(Event::kLeave);
  if (board_) board_->pulse();
}

void Coordinator::run() {
  while (!enter_job()) {
    const MutexLock lock(mutex_);
    if (stopping_ || gone_) return;
  }
  for (;;) {
    // A newcomer waits for connections, a recovery for processes to end: poll frequently.
    const bool busy = recovery_.has_value() || change_.has_value() || to_prepare_.has_value() ||
                      pending_start_.has_value() || founding_ || active_number_ == 0;
    mesh_->poll(busy ? 2 : 20);
    bool finished = false;
    {
      const MutexLock lock(mutex_);
      if (stopping_) break;
      finished = finished_;
    }
    if (board_ && mesh_->refused() > reported_refusals_) {
      board_->refused_connections() += mesh_->refused() - reported_refusals_;
      reported_refusals_ = mesh_->refused();
    }
    if (finished && !said_finished_) {
      said_finished_ = true;
      for (const auto& [peer, address] : peers_) mesh_->send(peer, Message::kFinished, {});
    }
    tick();
    tick_nodes();
  }
  bool finished = false;
  bool done = false;
  {
    const MutexLock lock(mutex_);
    finished = finished_;
    done = delivered_;
  }
  for (const auto& [peer, address] : peers_) {
    if (finished && !said_finished_) mesh_->send(peer, Message::kFinished, {});
    mesh_->send(peer, Message::kBye, {{"done", done}});
  }
}

// Of two members of a prepared view that were both newcomers, the one with the higher id dials.
void Coordinator::want(const WorkerAddress& peer) { mesh_->want(peer, id() > peer.id); }

void Coordinator::on_connected(const WorkerAddress& peer) {
  peers_[peer.id] = peer;
  lost_.erase(peer.id);
  say_again(peer.id);
}

// A connection that broke between two living workers may have lost messages. Send again whatever
// this worker still waits for or the other may have missed; duplicates are harmless.
void Coordinator::say_again(int peer) {
  if (recovery_ && recovery_->unfrozen.contains(peer)) mesh_->send(peer, Message::kFreeze, {});
  if (change_ && change_->unprepared.contains(peer)) {
    mesh_->send(peer, Message::kPrepare,
                {{"view", to_json(change_->view)}, {"attempt", change_->attempt}});
  }
  if (started_by_message_.number > 0 && started_by_message_.number >= current_.number &&
      started_by_message_.find(peer) != nullptr) {
    mesh_->send(peer, Message::kStart, start_message_);
  }
  if (said_finished_) mesh_->send(peer, Message::kFinished, {});
  if (joined_leader_ == peer) joined_leader_ = -1;
  if (leave_sent_to_ == peer) leave_sent_to_ = -1;
}

void Coordinator::on_message(int peer, Message message, const nlohmann::json& body) {
  switch (message) {
    case Message::kJoin:
      on_join(peer, body);
      break;
    case Message::kAccepted:
      if (!accepted_) {
        accepted_ = true;
        raise(Event::kObserve);
      }
      break;
    case Message::kRefused: {
      const MutexLock lock(mutex_);
      refused_ = !body.value("retry", false);
    }
      leave(body.value("reason", "refused"));
      break;
    case Message::kReady:
      if (const auto found = joiners_.find(peer); found != joiners_.end()) {
        found->second.ready = true;
      }
      break;
    case Message::kPrepare: {
      Result<View> view = parse_view(body.value("view", nlohmann::json()));
      if (!view.ok()) break;
      for (const Member& member : view->members) want(member.address);
      to_prepare_ = ToPrepare{std::move(*view), peer, body.value("attempt", std::int64_t{0}), {}};
      break;
    }
    case Message::kPrepared:
      if (change_ && body.value("attempt", std::int64_t{-1}) == change_->attempt) {
        change_->unprepared.erase(peer);
      }
      break;
    case Message::kFreeze:
      on_freeze(peer);
      break;
    case Message::kFrozen:
      if (recovery_) {
        recovery_->unfrozen.erase(peer);
        recovery_->complete[peer] = body.value("complete", std::int64_t{-1});
      }
      break;
    case Message::kStart: {
      Result<View> view = parse_view(body);
      if (view.ok() && view->number > current_.number) {
        start_by_message(*view, body.value("source", ""),
                         body.value("lagging", std::vector<std::string>()));
      }
      break;
    }
    case Message::kLeave:
      leaving_.insert(peer);
      break;
    case Message::kBye:
      lost_.insert(peer);
      said_bye_.insert(peer);
      if (body.value("done", false)) said_done_.insert(peer);
      lost_reasons_[peer] = "it gave up";
      mesh_->forget(peer);
      forget_peer(peer);
      break;
    case Message::kFinished:
      gone_ = true;
      finished_at_ = steady_clock::now();
      raise(Event::kFinished);
      break;
    case Message::kBroken:
      on_broken(body);
      break;
    case Message::kPing:
    case Message::kHello:
    case Message::kStream:
      break;
  }
}

void Coordinator::forget_peer(int peer) {
  peers_.erase(peer);
  joiners_.erase(peer);
  leaving_.erase(peer);
  if (current_.find(peer) == nullptr) drop_segments([&](int worker) { return worker == peer; });
  if (change_ && change_->view.find(peer) != nullptr) cancel_change();
}

void Coordinator::on_lost(int peer, const std::string& why) {
  lost_.insert(peer);
  lost_reasons_[peer] = why;
  forget_peer(peer);
}

// Maps everything that is not mapped yet, so that the view can be trained.
Result<std::shared_ptr<const ActiveView>> Coordinator::map_view(const View& view) {
  const int expected = options_.batches.logical_workers(static_cast<int>(view.members.size()));
  if (view.logical_workers() != expected) {
    return invalid_input(fmt::format("view {} hosts {} logical workers; expected {}", view.number,
                                     view.logical_workers(), expected));
  }
  for (const Member& member : view.members) {
    const int worker = member.address.id;
    if (segments_.contains(worker)) continue;
    Result<std::shared_ptr<const WorkerSegment>> segment = map_member(member.address);
    if (!segment.ok()) return segment.error();
    segments_[worker] = std::move(*segment);
  }
  return make_active_view(view, id(), *board_, segments_);
}

// Begins a view that was started by message, after a failure or by a founder.
void Coordinator::begin_view(const View& view) {
  if (view.find(id()) == nullptr) {
    leave("this worker is not part of the next view");
    return;
  }
  Result<std::shared_ptr<const ActiveView>> active = map_view(view);
  if (!active.ok()) {
    leave(active.error().message);
    return;
  }
  recovery_.reset();
  change_.reset();
  to_prepare_.reset();
  pending_start_.reset();
  founding_ = false;
  const View before = std::exchange(current_, view);
  remove_mirrors(before);
  if (view.number > latest_.number) latest_ = view;
  active_number_ = 0;  // until the training thread has entered it
  {
    const MutexLock lock(mutex_);
    proposal_.reset();
    to_start_ = *active;
    frozen_ = false;
    interrupted_ = true;
  }
  raise(Event::kStart);
  board_->pulse();
}

void Coordinator::tick() {
  if (gone_) return;
  std::shared_ptr<const ActiveView> entered;
  bool say_ready = false;
  {
    const MutexLock lock(mutex_);
    if (finished_ || departing_) return;  // losses no longer matter
    entered.swap(entered_);
    say_ready = ready_ && !said_ready_;
  }
  // The news may be older than a view that has since been started by message.
  if (entered && entered->view.number >= current_.number) {
    const View before = std::exchange(current_, entered->view);
    remove_mirrors(before);
    active_number_ = current_.number;
    change_.reset();
    {
      const MutexLock lock(mutex_);
      if (donor_) donor_->cancel();
      donor_.reset();
      donor_worker_ = -1;
    }
    for (const Member& member : current_.members) {
      joiners_.erase(member.address.id);
      want(member.address);
    }
    stragglers_.keep_only(current_.ids());
    const auto is_history = [&](int worker) {
      return current_.find(worker) == nullptr && latest_.find(worker) == nullptr;
    };
    std::erase_if(lost_, is_history);
    std::erase_if(said_bye_, is_history);
    std::erase_if(said_done_, is_history);
    std::erase_if(lost_reasons_, [&](const auto& e) { return is_history(e.first); });
    std::erase_if(leaving_, [&](int worker) { return current_.find(worker) == nullptr; });
    drop_segments([&](int worker) { return current_.find(worker) == nullptr; });
  }
  if (steady_clock::now() - last_registry_look_ >= kRegistryInterval) follow_registry();
  if (gone_) return;

  // A relevant worker is lost: the one that should lead recovers, the others wait for it.
  if (recovery_) {
    continue_recovery();
    return;
  }
  if (!founding_) {
    if (lost_member() >= 0) follow_registry();  // it may have left as planned
    if (gone_) return;
    const int lost = lost_member();
    if (lost >= 0 && lead_now() == id()) {
      recover();
      return;
    }
    tell_of_loss(lost);
  }
  if (!founding_ && bridge_broken()) {
    recover();
    return;
  }
  if (pending_start_) {
    continue_start();
    return;
  }
  if (active_number_ == 0) be_newcomer(say_ready);
  if (to_prepare_) acknowledge_prepared();
  if (wants_to_leave_ && leave_sent_to_ != current_.leader && active_number_ > 0 &&
      (is_leader() || mesh_->connected(current_.leader))) {
    leave_sent_to_ = current_.leader;
    if (is_leader()) {
      leaving_.insert(id());
    } else {
      mesh_->send(current_.leader, Message::kLeave, {});
    }
  }
  if (is_leader()) lead();
}

}  // namespace rubato::elastic
