// Faults that wait for a moment, and what must be true when the faults are over.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

// When the faults are over, the owner's wishes come true within this time, if the job lasts.
constexpr Micros kPatience = 15'000'000;

}  // namespace

// Some faults of a random schedule wait for a moment, and some of those hit whoever is in it.
void add_moments(Schedule& schedule, Random& random) {
  using enum StateKind;
  constexpr std::array kStates = {kFounding,   kNewcomer,   kMember,    kFrozen,   kFrozen,
                                  kRecovering, kRecovering, kRestoring, kStarting, kLeaving};
  for (Fault& fault : schedule.faults) {
    if (!random.one_in(3)) continue;
    Moment moment;
    if (random.one_in(4)) {
      moment.kind = Moment::Kind::kView;
    } else if (random.one_in(2)) {
      moment.kind = Moment::Kind::kHears;
      moment.message = static_cast<std::size_t>(random.below(std::variant_size_v<Message>));
    } else {
      moment.state = kStates[static_cast<std::size_t>(random.below(kStates.size()))];
    }
    fault.when = moment;
    fault.after = random.one_in(2) ? random.between(0, 500) : random.between(0, 5'000);
    fault.patience = 300'000;
    fault.at_whom = random.one_in(2);
  }
}

// --- Waiting for a moment ------------------------------------------------------------------------

void World::fault_is_due(const DoFault& due) {
  Fault& fault = schedule_.faults[due.index];
  if (due.in_vain) {
    if (std::erase(waiting_, due.index) == 0) return;
    fault.when.reset();
  }
  if (fault.when) {
    waiting_.push_back(due.index);
    if (fault.patience > 0) after(fault.patience, -1, {DoFault{due.index, true}});
    return;
  }
  if (const std::optional<Fault> resolved = resolve(fault)) {
    as_it_was_.push_back(*resolved);
    apply(*resolved);
  }
  faults_end_ = std::max(faults_end_, now_ + fault.duration);
  if (++happened_ == schedule_.faults.size() && !schedule_.patient) end_soon();
}

void World::computed(ViewNumber view, Step step) {
  const auto index = static_cast<std::size_t>(step);
  if (index >= computed_in_.size()) computed_in_.resize(index + 1, 0);
  if (computed_in_[index] != 0 && computed_in_[index] != view) ++repeated_;
  computed_in_[index] = view;
}

void World::end_soon() {
  Step done = checkpoint_;
  for (const auto& [name, board] : boards_) done = std::max(done, board.completed);
  last_step_ = std::min(last_step_, done + 6);
}

void World::moment_came(const Moment& moment) {
  if (waiting_.empty()) return;
  const std::vector<std::size_t> waiting = waiting_;
  for (const std::size_t index : waiting) {
    Fault& fault = schedule_.faults[index];
    const Moment& awaited = *fault.when;
    const bool is_it = awaited.kind == moment.kind && awaited.state == moment.state &&
                       awaited.message == moment.message &&
                       (!awaited.worker || awaited.worker == moment.worker) &&
                       (awaited.number == 0 || awaited.number == moment.number);
    if (!is_it) continue;
    std::erase(waiting_, index);
    fault.when.reset();
    if (fault.at_whom && moment.worker) {
      fault.worker = *moment.worker;
      fault.exact = true;
    }
    after(fault.after, -1, {DoFault{index}});
  }
}

// --- When the faults are over --------------------------------------------------------------------

// What the owner wants that the newest view is not; "" if it is as wanted.
std::string World::unmet() const {
  if (finished_) return "";
  if (target_->stop) return "the job is to end";
  const View* const newest = views_.empty() ? nullptr : views_.back().get();
  const int wanted = std::clamp(target_->workers, 1, kLogical);
  const int members = newest == nullptr ? 0 : static_cast<int>(newest->members.size());
  if (members != wanted) return fmt::format("{} workers are wanted, not {}", wanted, members);
  for (const Member& member : newest->members) {
    const int worker = member.address.id;
    if (std::count(target_->migrate.begin(), target_->migrate.end(), worker) > 0) {
      return fmt::format("worker {} is to be replaced", worker);
    }
    // The last one cannot leave.
    if (members > 1 && process(worker).wants_to_leave())
      return fmt::format("worker {} wants to leave", worker);
    if (!process(worker).alive()) return fmt::format("worker {} is dead", worker);
  }
  return "";
}

// Nothing is under way: all who live train the view that the owner wants.
bool World::settled() const {
  if (!unmet().empty()) return false;
  return std::all_of(processes_.begin(), processes_.end(), [&](const auto& process) {
    if (!process->alive()) return true;
    const auto* member = std::get_if<state::Member>(&process->machine().state());
    return member != nullptr && member->view->number == static_cast<ViewNumber>(views_.size());
  });
}

// A patient job trains until it is as its owner wants it.
void World::see_to_wishes() {
  if (!schedule_.patient || finished_ || last_step_ < schedule_.steps) return;
  if (happened_ < schedule_.faults.size() || now_ < faults_end_) return;
  const std::string missing = unmet();
  if (missing.empty()) {
    end_soon();
  } else if (now_ > faults_end_ + kPatience) {
    violate(fmt::format("the owner's wish is not met: {};{}", missing, stuck()));
  }
}

}  // namespace rubato::elastic::membership::sim
