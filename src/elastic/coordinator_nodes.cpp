// Members on other nodes: their memory cannot be mapped and their processes cannot be ended from
// here.
//
// - Every node has a board. In a view of several nodes, the lowest member of each node (its
//   gateway) runs a bridge, which keeps the boards identical. Gateways are a function of the view:
//   if one is lost, the next view has another.
// - Newcomers on a node without members share a board that one of them feeds (feed.h).
// - After a failure, the survivors of each node end the lost processes of their own node. The
//   gateway obtains the last complete step if its board lacks it, then opens the view's block on
//   the board; with that the view begins for the members of the node.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "elastic/coordinator.h"
#include "elastic/exchange.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

// A process that ends closes its streams and its control connection; the latter tells which worker
// is lost.
constexpr auto kTimeToTell = std::chrono::milliseconds(300);
// For a worker that announced its departure: its launcher should see how it ended.
constexpr auto kTimeToEnd = std::chrono::milliseconds(500);

}  // namespace

// The board that this node's members use, or without members the one that its newcomers share.
Status Coordinator::adopt_board(const View& latest) {
  const MutexLock lock(mutex_);
  if (board_) return ok_status();
  const int number = options_.node.board >= 0 ? options_.node.board : id();
  std::string name = board_name(options_.settings.token, node(), number);
  const int gateway = gateway_of(latest, node());
  if (gateway >= 0) {
    name = latest.find(gateway)->address.board;
    Status own = check_node_of_segment(name, options_.settings.token, node());
    if (!own.ok()) return own.error();
  }
  Result<Board> board = Board::open(name);
  if (!board.ok() && gateway < 0) {
    board = Board::create(name, {.logical_workers = options_.settings.logical_workers,
                                 .gradient_floats = options_.shape.gradient_floats,
                                 .private_bytes = options_.shape.private_bytes,
                                 .batch = options_.batch});
    // Another newcomer may be creating it.
    for (int tries = 0; !board.ok() && tries < 200; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      board = Board::open(name);
    }
  }
  if (!board.ok()) return board.error();
  if (gateway < 0 && board->used() != 0) {
    return invalid_input("the workers of this node have just left the job");
  }
  if (options_.data) {
    Result<DataBoard> data = DataBoard::open(DataBoard::name_for(name));
    if (!data.ok()) return data.error();
    data_board_.emplace(std::move(*data));
  }
  board_.emplace(std::move(*board));
  mesh_->set_board(name);
  return ok_status();
}

Result<std::shared_ptr<const WorkerSegment>> Coordinator::map_member(
    const WorkerAddress& worker) const {
  const std::string& token = options_.settings.token;
  const int logical = options_.settings.logical_workers;
  if (here(worker)) {
    Status own = check_node_of_segment(worker.segment, token, node());
    if (!own.ok()) return own.error();
  }
  Result<WorkerSegment> segment =
      here(worker)
          ? WorkerSegment::open(worker.segment, options_.shape, logical)
          : WorkerSegment::mirror(mirror_name(board_->name(), worker.id), options_.shape, logical);
  if (!segment.ok()) return segment.error();
  return std::shared_ptr<const WorkerSegment>(std::make_shared<WorkerSegment>(std::move(*segment)));
}

void Coordinator::drop_segments(const std::function<bool(int)>& unneeded) {
  std::erase_if(segments_,
                [&](const auto& entry) { return entry.first != id() && unneeded(entry.first); });
}

// A mirror keeps its name as long as any worker of this node may still map it, perhaps for a view
// that this worker has not entered: two mirrors of one name would be two separate memories. A
// worker that has left a view never returns.
void Coordinator::remove_mirrors(const View& before) const {
  for (const Member& member : before.members) {
    if (here(member.address) || current_.find(member.address.id) != nullptr) continue;
    remove_segment(mirror_name(board_->name(), member.address.id));
  }
}

// Any living member, preferably of this node.
std::shared_ptr<const Donor> Coordinator::choose_donor(int* worker) const {
  for (const Member& member : current_.members) {
    const int candidate = member.address.id;
    if (!here(member.address) || lost_.contains(candidate) || leaving_.contains(candidate))
      continue;
    Result<std::shared_ptr<const WorkerSegment>> segment = map_member(member.address);
    if (!segment.ok()) continue;
    *worker = candidate;
    return *segment;
  }
  for (const Member& member : current_.members) {
    if (here(member.address) || !mesh_->connected(member.address.id)) continue;
    *worker = member.address.id;
    return std::make_shared<RemoteDonor>(member.address, identity_);
  }
  return nullptr;
}

// Places members of a node next to each other, so that a node's sums and slices form few pieces.
void Coordinator::order_by_node(std::vector<WorkerAddress>& workers) const {
  std::map<std::string, int> lowest;
  for (const WorkerAddress& worker : workers) {
    const auto [entry, fresh] = lowest.try_emplace(worker.node, worker.id);
    if (!fresh) entry->second = std::min(entry->second, worker.id);
  }
  std::sort(workers.begin(), workers.end(), [&](const WorkerAddress& a, const WorkerAddress& b) {
    return std::pair(lowest[a.node], a.id) < std::pair(lowest[b.node], b.id);
  });
}

bool Coordinator::newest_leads(const View& view) {
  const Result<View> newest = newest_view(registry_);
  return !newest.ok() || newest->number <= view.number || newest->leader == id();
}

// --- Streams -------------------------------------------------------------------------------------

// Until then a founder's board lacks the private states; a newcomer fed from it would train with
// wrong ones.
bool Coordinator::board_filled() {
  const MutexLock lock(mutex_);
  return !founding_ || filled_;
}

std::function<void(Descriptor)> Coordinator::on_stream(int peer, const nlohmann::json& purpose) {
  if (!purpose.is_object() || !board_ || gone_) return {};
  if (purpose.value("stream", "") == kFeedPurpose) {
    if (active_number_ == 0 || !board_filled()) return {};  // not a member (yet)
    return [this](Descriptor socket) {
      if (!feed_server_) {
        feed_server_ = std::make_unique<FeedServer>(*board_, segments_.at(id()), options_.shape);
      }
      feed_server_->set_view(current_.number);
      feed_server_->serve(std::move(socket));
      has_streams_ = true;
    };
  }
  for (const auto& [number, bridge] : bridges_) {
    if (!bridge->expects(peer, purpose)) continue;
    return
        [taker = bridge.get(), peer](Descriptor socket) { taker->accept(peer, std::move(socket)); };
  }
  return {};
}

// Whether everything the view needs between nodes is set up, as far as this worker is responsible.
bool Coordinator::bridge_ready(const std::shared_ptr<const ActiveView>& view) {
  if (!several_nodes(view->view) || gateway_of(view->view, node()) != id()) return true;
  std::unique_ptr<Bridge>& bridge = bridges_[view->view.number];
  if (!bridge || membership_of(bridge->view()) != membership_of(view->view) ||
      !bridge->problem().empty()) {
    bridge.reset();
    bridge = std::make_unique<Bridge>(
        view, *board_,
        Bridge::Options{
            .node = node(),
            .identity = identity_,
            .committed = [this, proposed = view->view]() -> std::optional<std::int64_t> {
              const std::optional<View> committed = view_at(proposed.number);
              if (!committed || membership_of(*committed) != membership_of(proposed)) {
                return std::nullopt;
              }
              return committed->first_step;
            }});
    has_streams_ = true;
  }
  return bridge->connected();
}

void Coordinator::stop_bridges() { bridges_.clear(); }

// True: this worker must recover the view although nobody is lost.
bool Coordinator::bridge_broken() {
  if (active_number_ == 0 || !several_nodes(current_) || latest_.number > current_.number) {
    return false;
  }
  const auto now = steady_clock::now();
  if (gateway_of(current_, node()) == id()) {
    const auto bridge = bridges_.find(current_.number);
    const std::string problem =
        bridge == bridges_.end()
            ? fmt::format("view {} has no bridge on node {}", current_.number, node())
            : bridge->second->problem();
    const bool works = problem.empty();
    if (works) broken_since_ = {};
    if (!works && broken_since_ == steady_clock::time_point()) broken_since_ = now;
    if (!works && now - broken_since_ > kTimeToTell) {
      broken_since_ = now;
      const int leader = lead_now();
      if (leader == id()) {
        broken_view_ = current_.number;
        broken_why_ = problem;
      } else {
        mesh_->send(leader, Message::kBroken, {{"view", current_.number}, {"reason", problem}});
      }
    }
  }
  if (broken_view_ != current_.number || lead_now() != id()) return false;
  broken_view_ = 0;
  options_.record({{"type", "error"},
                   {"view", current_.number},
                   {"message", "the streams between nodes broke: " + broken_why_}});
  return true;
}

// Keeps the board of a node without members up to date, if that is this newcomer's task.
void Coordinator::feed_board() {
  const bool frozen = [&] {
    const MutexLock lock(mutex_);
    return frozen_;
  }();
  // Also as a member of the next view, until the board says that it begins.
  const bool wanted =
      active_number_ == 0 && !pending_start_ && !frozen && !current_.empty() &&
      current_.find(id()) == nullptr && gateway_of(current_, node()) < 0 &&
      (gateway_of(latest_, node()) < 0 || (latest_.planned() && latest_.find(id()) != nullptr));
  if (feed_ && feed_->ended()) feed_.reset();
  const int gateway = gateway_of(latest_, node());
  if (active_number_ == 0 && gateway >= 0 && latest_.find(id()) == nullptr &&
      latest_.find(gateway)->address.board != board_->name()) {
    leave("workers of this node have joined on another board");
    return;
  }
  if (!feed_) {
    const bool used = board_->used() != 0;
    if (!wanted || (!used && !board_->try_lock())) return;
    const Result<View> newest = newest_view(registry_);
    if (!newest.ok()) return;
    if (gateway_of(*newest, node()) >= 0 && newest->find(id()) == nullptr) return;
    using Successor = FeedClient::Options::Successor;
    const auto successor = [this](std::int64_t number) {
      const std::optional<View> view = view_at(number);
      if (!view || gateway_of(*view, node()) < 0) return Successor::kNobody;
      return view->planned() ? Successor::kBridge : Successor::kGateway;
    };
    const ViewBlock& block = board_->block(current_.number);
    if (block.view == current_.number && successor(block.next_view) != Successor::kNobody) {
      return;  // nothing more to feed
    }
    if (used) {
      // Former members, stopped or leaving, may still write to it.
      leave("all other workers of this node have left the job");
      return;
    }
    has_streams_ = true;
    feed_ = std::make_unique<FeedClient>(
        *board_, FeedClient::Options{
                     .identity = identity_, .view = current_.number, .successor = successor});
  }
  const int donor = feed_->donor();
  if (donor >= 0 && current_.find(donor) != nullptr && !lost_.contains(donor)) return;
  for (const Member& member : current_.members) {
    if (!mesh_->connected(member.address.id)) continue;
    feed_->set_donor(member.address);
    return;
  }
}

void Coordinator::tick_nodes() {
  if (board_ && !gone_) feed_board();
  if (feed_server_) {
    feed_server_->reap();
    if (active_number_ > 0) feed_server_->set_view(current_.number);
  }
  std::erase_if(bridges_, [&](const auto& entry) {
    return entry.first < current_.number &&
           (entry.second->finished() || !entry.second->problem().empty());
  });
  if (finished_at_ && steady_clock::now() - *finished_at_ >
                          std::chrono::duration<double>(2 * options_.settings.failure_timeout_s)) {
    const MutexLock lock(mutex_);  // the rest of the last step will never arrive
    interrupted_ = true;
    board_->pulse();
  }
  {
    const MutexLock lock(mutex_);
    if (!departing_ || departed_) return;
  }
  const std::int64_t next = board_->block(current_.number).next_view;
  bool done = !feed_server_ || next == 0 || feed_server_->told(next);
  bool delivered = true;
  for (const auto& [number, bridge] : bridges_) {
    if (number > current_.number) continue;
    bridge->close();
    delivered = delivered && bridge->finished();
    done = done && (bridge->finished() || !bridge->problem().empty());
  }
  if (!done) return;
  const MutexLock lock(mutex_);
  departed_ = true;
  delivered_ = delivered;
  changed_.notify_all();
}

// --- Views that are started by message -----------------------------------------------------------

void Coordinator::start_by_message(const View& view, const std::string& source,
                                   const std::vector<std::string>& lagging) {
  if (pending_start_ && pending_start_->view.number >= view.number) return;
  if (view.find(id()) == nullptr) {
    begin_view(view);  // it is not part of this view
    return;
  }
  PendingStart pending{.view = view,
                       .source = source,
                       .lagging = lagging,
                       .to_fence = {},
                       .since = steady_clock::now()};
  // The leader has already fenced those of its own node.
  if (!here(view.find(view.leader)->address)) {
    for (std::int64_t number = current_.number; number < view.number; ++number) {
      const std::optional<View> before = view_at(number);
      if (!before) continue;
      for (const Member& member : before->members) {
        if (here(member.address) && view.find(member.address.id) == nullptr) {
          pending.to_fence.insert(member.address.id);
        }
      }
    }
  }
  recovery_.reset();
  feed_.reset();
  stop_bridges();
  if (view.number > latest_.number) latest_ = view;
  pending_start_ = std::move(pending);
  continue_start();
}

void Coordinator::continue_start() {
  PendingStart& pending = *pending_start_;
  const View view = pending.view;
  const bool patient = steady_clock::now() - pending.since < kTimeToEnd;
  std::erase_if(pending.to_fence, [&](int worker) {
    return patient && said_bye_.contains(worker) ? mesh_->ended(worker) : mesh_->fence(worker);
  });
  if (!pending.to_fence.empty()) return;
  const ViewBlock& block = board_->block(view.number);
  if (several_nodes(view) && gateway_of(view, node()) == id()) {
    std::unique_ptr<Bridge>& bridge = bridges_[view.number];
    if (!bridge || !bridge->problem().empty()) {
      Result<std::shared_ptr<const ActiveView>> active = map_view(view);
      if (!active.ok()) {
        leave(active.error().message);
        return;
      }
      bridge.reset();
      bridge = std::make_unique<Bridge>(
          *active, *board_,
          Bridge::Options{
              .node = node(), .identity = identity_, .committed = {}, .planned = false});
      bridge->start({view.first_step, pending.source, pending.lagging});
      has_streams_ = true;
    }
    if (!bridge->restored()) return;
    if (block.view != view.number) open_block(view);
  } else if (gateway_of(view, node()) == id() && block.view != view.number) {
    open_block(view);  // all members are here; the leader lacked nothing
  }
  if (block.view == view.number) begin_view(view);
}

// Prepares the board of this node for the view and links the view's block to the previous one, so
// that the next recovery follows it.
void Coordinator::open_block(const View& view) const {
  const std::int64_t complete = view.first_step - 1;
  ViewBlock& before = last_begun_block();
  mark_completed(*board_, complete);
  const auto members = static_cast<std::size_t>(before.members.load());
  for (std::size_t i = 0; i < members; ++i) {  // if the last step came from another node
    MemberRow& row = before.rows[i];
    if (row.reduced >= complete) continue;
    row.arrived = complete;
    row.reduced = complete;
  }
  board_->start_block(view.number, static_cast<int>(view.members.size()), view.first_step);
  before.next_view.store(0, std::memory_order_release);
  before.next_first_step.store(view.first_step, std::memory_order_release);
  before.next_view.store(view.number, std::memory_order_release);
  board_->pulse();
}

}  // namespace rubato::elastic
