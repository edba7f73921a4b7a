#include "elastic/coordinator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;
constexpr auto kRegistryInterval = std::chrono::milliseconds(30);
// Whoever should recover from a loss sees it itself, and begins, within this time.
constexpr auto kTimeToAct = std::chrono::milliseconds(300);

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
      registry_.compare_and_swap(kViewRecord, view.number - 1, to_json(view).dump());
  proposal_.reset();
  if (!won.ok() || !*won) {
    cancelled_ = true;
    return;
  }
  // Not before: of a number that another view has won, the block is in use.
  board_->start_block(view.number, static_cast<int>(view.members.size()), view.first_step);
  ViewBlock& block = board_->block(view.number - 1);
  block.next_first_step.store(view.first_step, std::memory_order_release);
  block.next_view.store(view.number, std::memory_order_release);
}

std::optional<View> Coordinator::view_at(std::int64_t number) const {
  const Result<std::optional<std::string>> record = registry_.at(kViewRecord, number);
  if (!record.ok() || !record->has_value()) return std::nullopt;
  Result<View> view = parse_view(nlohmann::json::parse(**record, nullptr, false));
  if (!view.ok()) return std::nullopt;
  return std::move(*view);
}

// The announced view as it was committed. What this worker has prepared may be an attempt that was
// given up, so the registry has the last word. Null: not a member.
std::shared_ptr<const ActiveView> Coordinator::committed_view(std::int64_t number, bool* empty) {
  const std::optional<View> view = view_at(number);
  if (!view) return nullptr;
  if (empty != nullptr) *empty = view->empty();
  if (view->find(id()) == nullptr) return nullptr;
  const auto found = prepared_.find(number);
  RUBATO_CHECK(found != prepared_.end(), "a view was committed that a member had not prepared");
  auto active = std::make_shared<ActiveView>(*found->second);
  RUBATO_CHECK(active->view.ids() == view->ids(),
               "a view was committed that differs from prepared");
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
  // The view it observed last may be followed by several others already.
  for (std::int64_t number = observed_; number > 0;) {
    const ViewBlock& block = board_->block(number);
    if (block.view != number) return nullptr;
    const Announcement next = block.announcement();
    if (next.view == 0 || board_->completed() < next.first_step - 1) return nullptr;
    if (next.first_step == step && prepared_.contains(next.view)) {
      auto view = committed_view(next.view, nullptr);
      // Others begin by message only: on a node's board they may be on before the streams to other
      // nodes are made anew.
      if (view) return view->view.planned() ? view : nullptr;
    }
    number = next.view;
  }
  return nullptr;
}

void Coordinator::entered(std::shared_ptr<const ActiveView> view) {
  const MutexLock lock(mutex_);
  // A freeze, the start of a later view, or an exclusion that came meanwhile is still to be obeyed.
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
  if (!has_streams_) {  // what it has published is on its node's board, which others pass on
    const MutexLock lock(mutex_);
    delivered_ = true;
    return;
  }
  // Whom one waits for may be lost, which takes the failure timeout to be seen.
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
    // A newcomer waits for connections, a recovery for processes to end: look often then.
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

bool Coordinator::enter_job() {
  Result<View> latest = newest_view(registry_);
  if (!latest.ok()) {
    leave(latest.error().message);
    return false;
  }
  if (!latest->empty()) {
    Status adopted = adopt_board(*latest);
    if (!adopted.ok()) {
      leave(adopted.error().message);
      return false;
    }
    current_ = *latest;
    {
      const MutexLock lock(mutex_);
      observed_ = current_.number;
    }
    for (const Member& member : current_.members) mesh_->want(member.address, true);
    return true;
  }
  const std::string name = founders_board_name(options_.settings.token, node(), options_.worker);
  Result<Board> board = Board::create(name, {.logical_workers = options_.logical_slots,
                                             .gradient_floats = options_.shape.gradient_floats,
                                             .private_bytes = options_.shape.private_bytes,
                                             .batch = options_.data ? 0 : options_.batch});
  if (!board.ok()) {
    leave(board.error().message);
    return false;
  }
  std::optional<DataBoard> data;
  if (options_.data) {
    Result<DataBoard> made = DataBoard::create(DataBoard::name_for(name), *options_.data);
    if (!made.ok()) {
      remove_segment(name);
      leave(made.error().message);
      return false;
    }
    data.emplace(std::move(*made));
  }
  mesh_->set_board(name);
  View view{.number = latest->number + 1,
            .first_step = options_.first_step,
            .cause = latest->number == 0 ? "start" : "restart",
            .leader = id(),
            .board = name,
            .members = {{mesh_->self(), {0, options_.batches.logical_workers(1)}}},
            .batch = options_.batches.batch(1, 1, 0)};
  board->start_block(view.number, 1, view.first_step);
  board->completed() = view.first_step - 1;
  // There is no gradient of it, but all else that nodes without members may ask for (feed.h).
  board->gradient_step(view.first_step - 1) = -2 - (view.first_step - 1);
  const Result<bool> won =
      registry_.compare_and_swap(kViewRecord, latest->number, to_json(view).dump());
  if (!won.ok()) leave(won.error().message);
  if (!won.ok() || !*won) {
    remove_segment(name);
    if (data) remove_segment(DataBoard::name_for(name));
    return false;
  }
  {
    const MutexLock lock(mutex_);
    board_.emplace(std::move(*board));
    data_board_ = std::move(data);
  }
  current_ = view;
  active_number_ = view.number;
  founding_ = true;
  founded_at_ = steady_clock::now();
  raise(Event::kFound);
  return true;
}

// Between two who meet in a prepared view and were both newcomers before.
void Coordinator::want(const WorkerAddress& peer) { mesh_->want(peer, id() > peer.id); }

void Coordinator::on_connected(const WorkerAddress& peer) {
  peers_[peer.id] = peer;
  lost_.erase(peer.id);
  say_again(peer.id);
}

// A connection that broke between two living workers may have swallowed messages. Whatever this
// worker still waits for, or the other may not have heard, is said again; all of it may come twice.
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

// Maps what is not mapped yet, so that the view can be trained in.
Result<std::shared_ptr<const ActiveView>> Coordinator::map_view(const View& view) {
  const int expected = options_.batches.logical_workers(static_cast<int>(view.members.size()));
  if (view.logical_workers() != expected) {
    return invalid_input(fmt::format("view {} hosts {} logical workers instead of {}", view.number,
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

// A view that was started by message, after a failure or by a founder.
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
    if (finished_ || departing_) return;  // whoever goes now is not missed
    entered.swap(entered_);
    say_ready = ready_ && !said_ready_;
  }
  // The news may be older than a view that was started by message since.
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

  // Someone who matters is lost: whoever should lead recovers, the others wait for it.
  if (recovery_) {
    continue_recovery();
    return;
  }
  if (!founding_) {
    if (lost_member() >= 0) follow_registry();  // perhaps it left by plan
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

// Somebody without whom the view that runs or starts here cannot go on; -1: nobody.
int Coordinator::lost_member() const {
  const auto lost_of = [&](const View& view) {
    const auto found = std::find_if(view.members.begin(), view.members.end(),
                                    [&](const Member& m) { return lost_.contains(m.address.id); });
    return found == view.members.end() ? -1 : found->address.id;
  };
  // Who is not in it is excluded already. Asking again would keep it from ever beginning.
  if (pending_start_) return lost_of(pending_start_->view);
  if (active_number_ == 0 && latest_.find(id()) == nullptr) return -1;  // a mere observer
  if (latest_.number <= current_.number) return lost_of(current_);
  // A planned change is on its way. Who leaves by it may end as soon as its last step is done, but
  // not before: the others would wait for it for ever.
  const ViewBlock& block = board_->block(current_.number);
  const Announcement next = block.announcement();
  for (std::size_t i = 0; i < current_.members.size(); ++i) {
    const int worker = current_.members[i].address.id;
    if (!lost_.contains(worker)) continue;
    if (latest_.find(worker) != nullptr) return worker;
    // From another node its row may come later than its word, by way of that node's gateway.
    const int gateway = gateway_of(current_, current_.members[i].address.node);
    const bool done =
        said_done_.contains(worker) && (!lost_.contains(gateway) || said_done_.contains(gateway));
    const std::int64_t reduced = block.rows[i].reduced.load(std::memory_order_acquire);
    if (next.view == 0 || (reduced < next.first_step - 1 && !done)) return worker;
  }
  return lost_of(latest_);
}

// The number of the view that starts or runs here.
std::int64_t Coordinator::view_here() const {
  return pending_start_ ? pending_start_->view.number : current_.number;
}

// Whoever should lead may not have lost that worker, and so does not know that this one has. The
// two cannot go on together: who is lost is never listened to again.
void Coordinator::tell_of_loss(int worker) {
  const auto now = steady_clock::now();
  if (worker < 0 || lost_since_ == steady_clock::time_point()) {
    lost_since_ = worker < 0 ? steady_clock::time_point() : now;
    return;
  }
  if (now - lost_since_ < kTimeToAct) return;
  lost_since_ = now;
  mesh_->send(lead_now(), Message::kBroken, {{"view", view_here()}, {"lost", worker}});
}

void Coordinator::on_broken(const nlohmann::json& body) {
  if (recovery_ || body.value("view", std::int64_t{0}) != view_here()) return;
  const int worker = body.value("lost", -1);
  if (worker < 0) {
    broken_view_ = current_.number;
    broken_why_ = body.value("reason", "");
    return;
  }
  const View& view = pending_start_ ? pending_start_->view : current_;
  if (worker == id() || view.find(worker) == nullptr || lost_.contains(worker)) return;
  mesh_->forget(worker);
  on_lost(worker, "another worker cannot reach it");
}

int Coordinator::lead_now() const {
  if (current_.find(current_.leader) != nullptr && !lost_.contains(current_.leader)) {
    return current_.leader;
  }
  int lowest = -1;
  for (const View* view : {&current_, &latest_}) {
    for (const Member& member : view->members) {
      const int worker = member.address.id;
      if (lost_.contains(worker)) continue;
      if (lowest < 0 || worker < lowest) lowest = worker;
    }
  }
  return lowest;
}

void Coordinator::be_newcomer(bool say_ready) {
  if (current_.find(id()) != nullptr) return;  // started; the training thread is about to enter
  if (joined_leader_ != current_.leader && mesh_->connected(current_.leader)) {
    joined_leader_ = current_.leader;
    said_ready_ = false;
    nlohmann::json traits = nlohmann::json::object();
    for (const Program::Trait& trait : options_.fingerprint) traits[trait.name] = trait.value;
    mesh_->send(current_.leader, Message::kJoin,
                {{"address", to_json(mesh_->self())},
                 {"description", options_.description},
                 {"fingerprint", traits}});
    return;
  }
  if (say_ready && joined_leader_ == current_.leader) {
    said_ready_ = true;
    mesh_->send(current_.leader, Message::kReady, {});
  }
  // Whose state to copy: any member that is alive.
  const bool all_lost = std::all_of(current_.members.begin(), current_.members.end(),
                                    [&](const Member& m) { return lost_.contains(m.address.id); });
  if (all_lost && !current_.empty()) {
    const std::int64_t before = current_.number;
    follow_registry();  // they may have handed over, perhaps to this worker
    if (gone_ || current_.number != before || latest_.find(id()) != nullptr) return;
    leave("all workers of the job are gone");
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (donor_ && donor_worker_ >= 0 && current_.find(donor_worker_) != nullptr &&
        !lost_.contains(donor_worker_)) {
      return;
    }
  }
  int worker = -1;
  std::shared_ptr<const Donor> donor = choose_donor(&worker);
  const MutexLock lock(mutex_);
  if (donor_) donor_->cancel();
  donor_ = std::move(donor);
  donor_worker_ = worker;
}

void Coordinator::acknowledge_prepared() {
  if (!to_prepare_->touch) {
    for (const Member& member : to_prepare_->view.members) {
      if (member.address.id != id() && !mesh_->connected(member.address.id)) return;
    }
    Result<std::shared_ptr<const ActiveView>> active = map_view(to_prepare_->view);
    if (!active.ok()) return;  // the leader gives up after a while
    to_prepare_->touch = std::make_unique<MemoryTouch>(*active, *board_);
  }
  // The board of a newcomer's node, which it shares with no members, may be behind the view, or
  // have been left for good; without the view before it would never see this one begin.
  const std::int64_t before = to_prepare_->view.number - 1;
  if (board_->block(before).view != before) return;
  // Without enough memory the leader gives up as well.
  if (!to_prepare_->touch->done() || to_prepare_->touch->failed()) return;
  if (!bridge_ready(to_prepare_->touch->view())) return;
  {
    const MutexLock lock(mutex_);
    prepared_[to_prepare_->view.number] = to_prepare_->touch->view();
  }
  mesh_->send(to_prepare_->leader, Message::kPrepared, {{"attempt", to_prepare_->attempt}});
  to_prepare_.reset();
}

void Coordinator::follow_registry() {
  last_registry_look_ = steady_clock::now();
  Result<Target> target = newest_target(registry_);
  if (target.ok()) target_ = *target;
  Result<View> latest = newest_view(registry_);
  if (!latest.ok()) return;
  if (latest->number > latest_.number) latest_ = *latest;
  if (latest_.number <= current_.number) return;
  if (current_.find(id()) != nullptr) {
    // A planned change reaches the training thread through the board. A failure view without this
    // worker was made by others who hold it for dead.
    if (latest_.find(id()) == nullptr &&
        (latest_.cause == "failure" || latest_.cause == "restart")) {
      leave("the others went on without this worker");
    }
    return;
  }
  if (latest_.empty()) {
    leave("the job was stopped or restarts");
    return;
  }
  // A view that has this worker as a member comes first, even when the next one has not: it may be
  // on, and then nobody gets further without this worker. admitted_at() or kStart brings it in.
  for (std::int64_t number = current_.number + 1; number <= latest_.number; ++number) {
    const std::optional<View> view = view_at(number);
    if (!view || view->find(id()) != nullptr) break;
    current_ = *view;
    const MutexLock lock(mutex_);
    observed_ = current_.number;
  }
  for (const Member& other : current_.members) mesh_->want(other.address, true);
}

}  // namespace rubato::elastic
