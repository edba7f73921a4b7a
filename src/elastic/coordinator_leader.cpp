// Planned changes: the leader admits newcomers that are ready, releases workers that should leave,
// and re-balances slow workers. There is one change at a time; requests that arrive meanwhile are
// merged into the next.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "elastic/coordinator.h"
#include "elastic/hosting.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

// Newcomers of one request are admitted together if they become ready at about the same time.
constexpr double kWaitForOthersS = 3.0;
constexpr auto kFoundingWait = std::chrono::seconds(30);
constexpr auto kPrepareTimeout = std::chrono::seconds(10);

}  // namespace

// The part of the environment that differs, or "".
static std::string fingerprint_difference(const std::vector<Program::Trait>& ours,
                                          const nlohmann::json& theirs) {
  for (const Program::Trait& trait : ours) {
    const std::string value = theirs.is_object() ? theirs.value(trait.name, "(missing)") : "?";
    if (value != trait.value) {
      return fmt::format("{} is '{}' there and '{}' in the job", trait.name, value, trait.value);
    }
  }
  return "";
}

void Coordinator::on_join(int peer, const nlohmann::json& body) {
  if (current_.find(peer) != nullptr) return;  // a repeated message; it has been admitted meanwhile
  const auto refuse = [&](const std::string& reason) {
    options_.record({{"type", "refused"}, {"worker", peer}, {"reason", reason}});
    mesh_->send(peer, Message::kRefused, {{"reason", reason}});
  };
  Result<WorkerAddress> address = parse_address(body.value("address", nlohmann::json()));
  if (!address.ok()) return refuse(address.error().message);
  if (address->id != peer) return refuse("the address names another worker");
  const std::string description = body.value("description", "");
  if (description != options_.description) {
    return refuse(fmt::format("this worker trains something else: {} instead of {}", description,
                              options_.description));
  }
  const std::string difference = fingerprint_difference(
      options_.fingerprint, body.value("fingerprint", nlohmann::json::object()));
  if (!difference.empty()) {
    return refuse(
        fmt::format("its results would not be bit-identical: {}. Make them equal, or run the job "
                    "with --consistency "
                    "d2",
                    difference));
  }
  // Workers of a node train on one board. A newcomer that arrived too early for the members' board
  // tries again. Newcomers that share another board with former members will leave, too.
  const auto other_board = [&](const WorkerAddress& w) {
    return w.node == address->node && w.board != address->board;
  };
  if (std::any_of(current_.members.begin(), current_.members.end(),
                  [&](const Member& member) { return other_board(member.address); })) {
    mesh_->send(peer, Message::kRefused,
                {{"reason", "the workers of its node use another board"}, {"retry", true}});
    return;
  }
  std::erase_if(joiners_, [&](const auto& joiner) { return other_board(joiner.second.address); });
  joiners_[peer] = {.address = *address, .since = unix_seconds()};
  mesh_->send(peer, Message::kAccepted, {});
}

void Coordinator::lead() {
  board_->watchers() = static_cast<int>(joiners_.size());
  board_->ready_newcomers() = static_cast<int>(std::count_if(
      joiners_.begin(), joiners_.end(), [](const auto& joiner) { return joiner.second.ready; }));
  if (!board_filled()) return;
  watch_stragglers();
  if (!change_) {
    if (std::optional<View> view = next_membership()) start_change(std::move(*view));
    return;
  }
  if (change_->touch && change_->touch->done() && !change_->touch->failed() &&
      bridge_ready(change_->touch->view())) {
    const MutexLock lock(mutex_);
    prepared_[change_->view.number] = change_->touch->view();
    change_->unprepared.erase(id());
    change_->touch.reset();
  }
  if (!change_->unprepared.empty()) {
    if (steady_clock::now() - change_->began > kPrepareTimeout) {
      // A worker is alive but unable to prepare. The change can proceed without it or with its
      // successor.
      for (const int worker : change_->unprepared) {
        if (!joiners_.contains(worker)) continue;
        mesh_->fence(worker);
        mesh_->send(worker, Message::kRefused, {{"reason", "it could not prepare the next view"}});
      }
      cancel_change();
    }
    return;
  }
  if (founding_) {
    commit_founding();
    return;
  }
  const MutexLock lock(mutex_);
  if (cancelled_) {
    cancelled_ = false;
    change_.reset();
  } else if (!change_->proposed) {
    change_->proposed = true;
    if (change_->view.empty()) {  // everybody leaves: nothing to map
      auto nothing = std::make_shared<ActiveView>();
      nothing->view = change_->view;
      proposal_ = std::move(nothing);
    } else {
      const auto found = prepared_.find(change_->view.number);
      if (found != prepared_.end()) {
        proposal_ = found->second;
      } else {  // the leader itself leaves
        auto view = std::make_shared<ActiveView>();
        view->view = change_->view;
        proposal_ = std::move(view);
      }
    }
    proposal_asked_at_ = change_->asked_at;
  }
}

void Coordinator::host_evenly(View& view, std::vector<WorkerAddress> workers) const {
  order_by_node(workers);
  const auto count = static_cast<int>(workers.size());
  const std::vector<LogicalRange> ranges =
      divide_logical_workers(options_.batches.logical_workers(count), measured_speeds(workers));
  view.batch = options_.batches.batch(count, wanted_workers(), target_.batch);
  view.members.clear();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    view.members.push_back({workers[i], ranges[i]});
  }
}

std::vector<double> Coordinator::measured_speeds(const std::vector<WorkerAddress>& workers) const {
  std::vector<double> result;
  result.reserve(workers.size());
  for (const WorkerAddress& worker : workers) result.push_back(stragglers_.seconds(worker.id));
  return result;
}

int Coordinator::wanted_workers() const {
  const int most = std::min(options_.settings.logical_workers, kMaxWorkers);
  return std::clamp(target_.workers, 1, most);
}

std::optional<View> Coordinator::next_membership() {
  const auto wanted = static_cast<std::size_t>(wanted_workers());
  View view{.number = current_.number + 1,
            .leader = current_.leader,
            .board = current_.board,
            .audits = std::max(current_.audits, target_.audits),
            .audit = target_.audits > current_.audits};
  if (target_.stop && !founding_) {  // a job being founded can stop only after that
    view.cause = "stop";
    view.leader = -1;
    asked_at_ = unix_seconds();
    return view;
  }
  std::vector<WorkerAddress> stay;
  for (const Member& member : current_.members) {
    if (!leaving_.contains(member.address.id)) stay.push_back(member.address);
  }
  std::vector<WorkerAddress> fresh;
  bool more_coming = false;
  double oldest_ready = unix_seconds();
  double first_join = unix_seconds();
  for (const auto& [worker, joiner] : joiners_) {
    const WorkerAddress& address = joiner.address;
    if (std::any_of(stay.begin(), stay.end(), [&](const WorkerAddress& w) {
          return w.node == address.node && w.board != address.board;
        })) {
      continue;  // workers of its node have been admitted meanwhile, on another board
    }
    first_join = std::min(first_join, joiner.since);
    if (joiner.ready) {
      fresh.push_back(joiner.address);
      oldest_ready = std::min(oldest_ready, joiner.since);
    } else {
      more_coming = true;
    }
  }
  if (founding_) {
    const bool patience_over = target_.stop || steady_clock::now() - founded_at_ > kFoundingWait;
    if (stay.size() + fresh.size() < wanted && !patience_over) return std::nullopt;
  }
  bool joined = false;
  bool left = stay.size() < current_.members.size();
  const std::size_t missing = wanted > stay.size() ? wanted - stay.size() : 0;
  if (!founding_ && missing > fresh.size() && !fresh.empty() && leaving_.empty() &&
      (more_coming || fresh.size() < missing) && unix_seconds() - oldest_ready < kWaitForOthersS) {
    return std::nullopt;  // others of the same request are still starting
  }
  const auto surplus = [&](const std::string& name) {
    const auto there = std::count_if(stay.begin(), stay.end(),
                                     [&](const WorkerAddress& w) { return w.node == name; });
    return static_cast<int>(there) - target_.on_node(name, options_.settings.home);
  };
  // Newcomers of a node fill the vacancies of that node first.
  std::stable_partition(fresh.begin(), fresh.end(),
                        [&](const WorkerAddress& w) { return surplus(w.node) < 0; });
  std::size_t used = 0;
  while (used < fresh.size() && stay.size() < wanted && surplus(fresh[used].node) < 0) {
    stay.push_back(fresh[used++]);
    joined = true;
  }
  for (const int worker : target_.migrate) {
    const auto found = std::find_if(stay.begin(), stay.end(),
                                    [&](const WorkerAddress& w) { return w.id == worker; });
    if (found == stay.end() || used >= fresh.size()) continue;
    *found = fresh[used++];
    joined = left = true;
  }
  // Newcomers that nobody asked for are spares.
  bool replaced = false;
  for (WorkerAddress& worker : stay) {
    if (used >= fresh.size() || founding_) break;
    if (!stragglers_.flagged(worker.id)) continue;
    worker = fresh[used++];
    replaced = true;
  }
  while (stay.size() > wanted) {
    // Which worker leaves: one of a node with a surplus, but preferably not the leader; then one
    // about to be replaced anyway, then a straggler, then the newest.
    const auto rank = [&](const WorkerAddress& w) {
      const bool migrating =
          std::find(target_.migrate.begin(), target_.migrate.end(), w.id) != target_.migrate.end();
      return std::tuple(surplus(w.node) > 0, w.id != current_.leader, migrating,
                        stragglers_.flagged(w.id), w.id);
    };
    stay.erase(std::max_element(stay.begin(), stay.end(),
                                [&](const auto& a, const auto& b) { return rank(a) < rank(b); }));
    left = true;
  }
  if (stay.empty()) return std::nullopt;  // the last one cannot leave before another has joined
  host_evenly(view, stay);
  const bool leader_stays = view.find(current_.leader) != nullptr;
  if (!leader_stays) view.leader = view.members.front().address.id;
  view.board = view.find(view.leader)->address.board;
  if (founding_) {
    view.cause = current_.cause;
    return view;
  }
  if (joined || left || replaced) {
    view.cause = joined && left ? "migrate" : joined ? "join" : left ? "leave" : "replace";
    asked_at_ = joined && !replaced ? std::min(first_join, target_.at > 0 ? target_.at : first_join)
                                    : unix_seconds();
    return view;
  }
  if (view.batch != current_.batch) {
    view.cause = "batch";
    asked_at_ = target_.at > 0 ? target_.at : unix_seconds();
    return view;
  }
  if (view.audit) {
    view.cause = "audit";
    asked_at_ = target_.at > 0 ? target_.at : unix_seconds();
    return view;
  }
  const auto hosts = [](const View& v) {
    std::vector<LogicalRange> ranges;
    for (const Member& member : v.members) ranges.push_back(member.hosts);
    return ranges;
  };
  if (rebalance_ && hosts(view) != hosts(current_)) {
    rebalance_ = false;
    view.cause = "rebalance";
    asked_at_ = unix_seconds();
    return view;
  }
  rebalance_ = false;
  return std::nullopt;
}

void Coordinator::start_change(View view) {
  Change change{.attempt = ++attempts_, .asked_at = asked_at_, .began = steady_clock::now()};
  for (const Member& member : view.members) {
    const int worker = member.address.id;
    want(member.address);
    if (worker == id()) continue;
    change.unprepared.insert(worker);
    mesh_->send(worker, Message::kPrepare, {{"view", to_json(view)}, {"attempt", change.attempt}});
  }
  if (view.find(id()) != nullptr) {
    Result<std::shared_ptr<const ActiveView>> active = map_view(view);
    if (!active.ok()) {
      options_.record({{"type", "error"}, {"message", active.error().message}});
      return;
    }
    change.touch = std::make_unique<MemoryTouch>(*active, *board_);
    change.unprepared.insert(id());
  }
  change.view = std::move(view);
  change_ = std::move(change);
}

void Coordinator::cancel_change() {
  if (!change_) return;
  const MutexLock lock(mutex_);
  if (change_->proposed && !proposal_) return;  // committed: the board or a recovery ends it
  proposal_.reset();
  rebalance_ = rebalance_ || change_->view.cause == "rebalance";
  change_.reset();
}

// Nobody trains yet, so the coordinator commits by itself and starts the view by message.
void Coordinator::commit_founding() {
  View view = change_->view;
  view.first_step = options_.first_step;
  view.prepare_s = std::chrono::duration<double>(steady_clock::now() - founded_at_).count();
  const Result<bool> won =
      registry_.compare_and_swap(kViewRecord, view.number - 1, compact_json(to_json(view)));
  if (!won.ok() || !*won) {
    leave("another worker founded the job first");
    return;
  }
  latest_ = view;
  open_block(view);
  start_message_ = to_json(view);
  started_by_message_ = view;
  for (const Member& member : view.members) {
    if (member.address.id != id()) mesh_->send(member.address.id, Message::kStart, start_message_);
  }
  start_by_message(view, "", {});
}

// Judges every step as far back as the board remembers, except the first step of a view, which maps
// memory and warms up caches.
void Coordinator::watch_stragglers() {
  const std::int64_t step = board_->completed();
  if (founding_ || step <= judged_step_ || current_.members.size() < 2) return;
  const ViewBlock& block = board_->block(current_.number);
  std::int64_t next = std::max(judged_step_, current_.first_step) + 1;
  next = std::max(next, step - static_cast<std::int64_t>(kTimedSteps) + 1);
  judged_step_ = step;
  for (; next <= step; ++next) {
    std::vector<StragglerWatch::Sample> samples;
    for (std::size_t i = 0; i < current_.members.size(); ++i) {
      const Member& member = current_.members[i];
      const std::optional<std::int64_t> spent = block.rows[i].compute_us(next);
      if (!spent) break;  // overwritten meanwhile, or from another view
      samples.push_back(
          {member.address.id, static_cast<double>(*spent) * 1e-6 / member.hosts.size()});
    }
    if (samples.size() < current_.members.size()) continue;
    const StragglerWatch::Verdict verdict = stragglers_.observe(samples);
    for (const StragglerWatch::Verdict::Flag& flag : verdict.flagged) {
      options_.record({{"type", "straggler"},
                       {"worker", flag.worker},
                       {"step", next},
                       {"view", current_.number},
                       {"slowdown", flag.slowdown}});
    }
    for (const int worker : verdict.cleared) {
      options_.record(
          {{"type", "recovered"}, {"worker", worker}, {"step", next}, {"view", current_.number}});
    }
    rebalance_ = rebalance_ || !verdict.empty();
  }
}

}  // namespace rubato::elastic
