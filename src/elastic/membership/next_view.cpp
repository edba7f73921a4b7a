#include "elastic/membership/next_view.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "elastic/data/hosting.h"
#include "elastic/memory/board.h"

namespace rubato::elastic::membership {

namespace {

// Newcomers of one request are admitted together if they become ready at about the same time.
constexpr double kWaitForOthersS = 3.0;
constexpr double kFoundingWaitS = 30.0;

std::size_t wanted_workers(const JobRules& rules, const Target& target) {
  return static_cast<std::size_t>(
      std::clamp(target.workers, 1, std::min(rules.logical_workers, kMaxWorkers)));
}

bool shares_no_board(const WorkerAddress& a, const WorkerAddress& b) {
  return a.node == b.node && a.board != b.board;
}

// Workers of the next view, while it is composed.
class Composition {
 public:
  Composition(const JobRules& rules, const Situation& situation)
      : rules_(rules), now_(situation), wanted_(wanted_workers(rules, situation.target)) {
    for (const Member& member : now_.view.members) {
      if (!now_.leaving.contains(member.address.id)) stay_.push_back(member.address);
    }
    left_ = stay_.size() < now_.view.members.size();
    oldest_ready_ = first_join_ = now_.now;
    for (const auto& [worker, newcomer] : now_.newcomers) consider(newcomer);
  }

  // Whether it is better to wait for newcomers that are still starting.
  bool waits() const {
    if (now_.founded_at) {
      const bool patient = !now_.target.stop && now_.now - *now_.founded_at <= kFoundingWaitS;
      return patient && stay_.size() + fresh_.size() < wanted_;
    }
    const std::size_t missing = wanted_ > stay_.size() ? wanted_ - stay_.size() : 0;
    return missing > fresh_.size() && !fresh_.empty() && now_.leaving.empty() &&
           now_.now - oldest_ready_ < kWaitForOthersS;
  }

  void compose() {
    // Newcomers of a node fill the vacancies of that node first.
    std::stable_partition(fresh_.begin(), fresh_.end(),
                          [&](const WorkerAddress& w) { return surplus(w.node) < 0; });
    while (used_ < fresh_.size() && stay_.size() < wanted_ && surplus(fresh_[used_].node) < 0) {
      stay_.push_back(fresh_[used_++]);
      joined_ = true;
    }
    // A node that should have fewer workers, perhaps none, gives way to one that should have more.
    while (used_ < fresh_.size() && surplus(fresh_[used_].node) < 0) {
      const auto goes = first_to_go();
      if (goes == stay_.end() || surplus(goes->node) <= 0) break;
      *goes = fresh_[used_++];
      joined_ = left_ = true;
    }
    for (const int worker : now_.target.migrate) {
      const auto found = std::find_if(stay_.begin(), stay_.end(),
                                      [&](const WorkerAddress& w) { return w.id == worker; });
      if (found == stay_.end() || used_ >= fresh_.size()) continue;
      *found = fresh_[used_++];
      joined_ = left_ = true;
    }
    // Newcomers that nobody asked for are spares.
    for (WorkerAddress& worker : stay_) {
      if (used_ >= fresh_.size() || now_.founded_at) break;
      if (!now_.slow.contains(worker.id)) continue;
      worker = fresh_[used_++];
      replaced_ = true;
    }
    while (stay_.size() > wanted_) {
      stay_.erase(first_to_go());
      left_ = true;
    }
  }

  const std::vector<WorkerAddress>& workers() const { return stay_; }
  bool changes_members() const { return joined_ || left_ || replaced_; }
  std::string cause() const {
    if (joined_) return left_ ? "migrate" : "join";
    return left_ ? "leave" : "replace";
  }
  double asked_at() const {
    if (!joined_ || replaced_) return now_.now;
    return now_.target.at > 0 ? std::min(first_join_, now_.target.at) : first_join_;
  }

 private:
  void consider(const Candidate& newcomer) {
    // Workers of its node may have been admitted meanwhile, on another board.
    const bool apart = std::any_of(stay_.begin(), stay_.end(), [&](const WorkerAddress& w) {
      return shares_no_board(w, newcomer.address);
    });
    if (apart) return;
    first_join_ = std::min(first_join_, newcomer.since);
    if (!newcomer.ready) return;
    fresh_.push_back(newcomer.address);
    oldest_ready_ = std::min(oldest_ready_, newcomer.since);
  }
  int surplus(const std::string& node) const {
    const auto there = std::count_if(stay_.begin(), stay_.end(),
                                     [&](const WorkerAddress& w) { return w.node == node; });
    return static_cast<int>(there) - now_.target.on_node(node, rules_.home);
  }
  std::vector<WorkerAddress>::iterator first_to_go() {
    return std::max_element(stay_.begin(), stay_.end(), [&](const auto& a, const auto& b) {
      return reason_to_go(a) < reason_to_go(b);
    });
  }
  // The highest goes: one of a node with a surplus, but preferably not the leader; then one about
  // to be replaced anyway, then a straggler, then the newest.
  std::tuple<bool, bool, bool, bool, int> reason_to_go(const WorkerAddress& w) const {
    const auto& migrate = now_.target.migrate;
    const bool migrating = std::find(migrate.begin(), migrate.end(), w.id) != migrate.end();
    return {surplus(w.node) > 0, w.id != now_.view.leader, migrating, now_.slow.contains(w.id),
            w.id};
  }

  const JobRules& rules_;
  const Situation& now_;
  const std::size_t wanted_;
  std::vector<WorkerAddress> stay_;
  std::vector<WorkerAddress> fresh_;  // newcomers that are ready
  std::size_t used_ = 0;              // of them
  double oldest_ready_ = 0;
  double first_join_ = 0;
  bool joined_ = false;
  bool left_ = false;
  bool replaced_ = false;
};

std::vector<LogicalRange> hosting(const View& view) {
  std::vector<LogicalRange> ranges;
  ranges.reserve(view.members.size());
  for (const Member& member : view.members) ranges.push_back(member.hosts);
  return ranges;
}

}  // namespace

void host_evenly(const JobRules& rules, const Target& target, const std::map<int, double>& seconds,
                 std::vector<WorkerAddress> workers, View& view) {
  std::map<std::string, int> lowest;
  for (const WorkerAddress& worker : workers) {
    const auto [entry, fresh] = lowest.try_emplace(worker.node, worker.id);
    if (!fresh) entry->second = std::min(entry->second, worker.id);
  }
  std::sort(workers.begin(), workers.end(), [&](const WorkerAddress& a, const WorkerAddress& b) {
    return std::pair(lowest[a.node], a.id) < std::pair(lowest[b.node], b.id);
  });
  // A newcomer is as fast as those of whom nothing bad is known.
  double usual = seconds.empty() ? 1.0 : std::numeric_limits<double>::max();
  for (const auto& [worker, each] : seconds) usual = std::min(usual, each);
  std::vector<double> speeds;
  speeds.reserve(workers.size());
  for (const WorkerAddress& worker : workers) {
    const auto found = seconds.find(worker.id);
    speeds.push_back(found == seconds.end() ? usual : found->second);
  }
  const auto count = static_cast<int>(workers.size());
  const std::vector<LogicalRange> ranges =
      divide_logical_workers(rules.batches.logical_workers(count), speeds);
  view.batch =
      rules.batches.batch(count, static_cast<int>(wanted_workers(rules, target)), target.batch);
  view.members.clear();
  for (std::size_t i = 0; i < workers.size(); ++i) view.members.push_back({workers[i], ranges[i]});
}

Decision next_view(const JobRules& rules, const Situation& situation) {
  const View& current = situation.view;
  const Target& target = situation.target;
  NextView next;
  next.asked_at = situation.now;
  View& view = next.view;
  view.number = current.number + 1;
  view.leader = current.leader;
  view.board = current.board;
  view.audits = std::max(current.audits, target.audits);
  view.audit = target.audits > current.audits;
  if (target.stop && !situation.founded_at) {  // a job being founded can stop only after that
    view.cause = "stop";
    view.leader = -1;
    return {std::move(next)};
  }
  Composition composition(rules, situation);
  if (composition.waits()) return {};
  composition.compose();
  const std::vector<WorkerAddress>& workers = composition.workers();
  if (workers.empty()) return {};  // the last one cannot leave before another has joined

  const std::int64_t batch =
      rules.batches.batch(static_cast<int>(workers.size()),
                          static_cast<int>(wanted_workers(rules, target)), target.batch);
  const double requested_at = target.at > 0 ? target.at : situation.now;
  if (situation.founded_at) {
    view.cause = current.cause;
  } else if (composition.changes_members()) {
    view.cause = composition.cause();
    next.asked_at = composition.asked_at();
  } else if (batch != current.batch) {
    view.cause = "batch";
    next.asked_at = requested_at;
  } else if (view.audit) {
    view.cause = "audit";
    next.asked_at = requested_at;
  } else if (situation.rebalance) {
    view.cause = "rebalance";
  } else {
    return {};
  }
  host_evenly(rules, target, situation.seconds, workers, view);
  if (view.cause == "rebalance" && hosting(view) == hosting(current)) {
    return {.next = std::nullopt, .balanced = true};
  }
  if (view.find(current.leader) == nullptr) view.leader = view.members.front().address.id;
  view.board = view.find(view.leader)->address.board;
  return {std::move(next)};
}

}  // namespace rubato::elastic::membership
