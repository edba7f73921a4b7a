// Failures: the survivors agree on the progress of the view and continue without the lost workers.
//
// Why it is safe: a frozen worker publishes nothing. Once every member of the views in question is
// frozen or excluded, the last complete step can no longer change for any survivor, and all of them
// obey the first step of the next view. An excluded worker may still write to the board until it is
// dead; the next view starts only after that. What it wrote is either a slice of a step that is
// repeated (and overwritten with the same bits) or something nobody reads: the first who freezes
// on a board closes the view there, so an excluded worker that wakes up and completes the step does
// not go on to the next one, which would overwrite what the repeated step reads.
#include <algorithm>

#include "elastic/membership/machine.h"
#include "elastic/transport/bridge_layout.h"

namespace rubato::elastic::membership {

using Phase = state::Recovering::Phase;

// --- Is somebody missing? ------------------------------------------------------------------------

std::optional<WorkerId> Machine::lost_of(const View& of) const {
  for (const Member& member : of.members) {
    if (roster_.has_lost(member.address.id)) return member.address.id;
  }
  return std::nullopt;
}

// A lost member of the view, not of the next one, may end once its last step is done, but not
// before: the others would wait for it for ever. If it was a gateway, everything that goes through
// it must be here, too.
bool Machine::left_in_order(std::size_t position) const {
  const View& current = *view();
  if (facts_.view > current.number) return true;  // this worker already runs without it
  if (facts_.view != current.number || facts_.next == 0) return false;
  const auto has_last_step = [&](std::size_t of) {
    return of < facts_.reduced.size() && facts_.reduced[of] >= facts_.next_first_step - 1;
  };
  const WorkerAddress& worker = current.members[position].address;
  const WorkerId gateway = gateway_of(current, worker.node);
  if (roster_.said_done(worker.id)) {
    // On another node, its row may arrive after its message, through that node's gateway.
    return has_last_step(position) || !roster_.has_lost(gateway) || roster_.said_done(gateway);
  }
  if (worker.id != gateway) return has_last_step(position);
  for (std::size_t i = 0; i < current.members.size(); ++i) {
    const bool same_node = current.members[i].address.node == worker.node;
    if ((i == position || same_node != here(worker)) && !has_last_step(i)) return false;
  }
  return true;
}

// A lost worker without which the view that runs or starts here cannot continue.
std::optional<WorkerId> Machine::lost_member() const {
  if (const auto* s = std::get_if<state::Restoring>(&state_)) return lost_of(*s->start.view);
  const View& current = *view();
  const View& newest = *log_.newest();
  const bool observes = current.find(id()) == nullptr;
  if (observes && newest.find(id()) == nullptr) return std::nullopt;
  // Storage may show the next view later than the board does. Then only those count whose last step
  // is missing: who recovers closes the board for the next view, too.
  const bool announced = facts_.view == current.number && facts_.next > newest.number;
  if (newest.number <= current.number && !announced) return lost_of(current);
  // What was stopped never goes on, whether the lost left in order or not.
  const bool stopped = std::holds_alternative<state::Frozen>(state_) ||
                       (facts_.view == current.number && facts_.closed);
  // A change is in progress.
  for (std::size_t i = 0; i < current.members.size(); ++i) {
    const WorkerId worker = current.members[i].address.id;
    if (!roster_.has_lost(worker)) continue;
    const bool stays = !announced && newest.find(worker) != nullptr;
    if (stopped || stays || !left_in_order(i)) return worker;
  }
  return announced ? std::nullopt : lost_of(newest);
}

// The view that starts or runs here.
const ViewPtr& Machine::view_here() const {
  const auto* restoring = std::get_if<state::Restoring>(&state_);
  return restoring != nullptr ? restoring->start.view : view();
}

// The worker that should act: the leader, else the lowest that is not lost.
WorkerId Machine::who_leads() const {
  const View& current = *view_here();
  if (current.find(current.leader) != nullptr && !roster_.has_lost(current.leader)) {
    return current.leader;
  }
  std::optional<WorkerId> lowest;
  for (const View* of : {&current, &*log_.newest()}) {
    for (const Member& member : of->members) {
      const WorkerId worker = member.address.id;
      if (!roster_.has_lost(worker) && (!lowest || worker < *lowest)) lowest = worker;
    }
  }
  return lowest.value_or(id());
}

// Whether a view after this one, after a failure or a restart, lacks this worker: the others
// consider it dead. A planned change reaches a member through the board.
bool Machine::lacks_after(ViewNumber number) const {
  return log_.any_after(
      number, [&](const View& later) { return later.find(id()) == nullptr && !later.planned(); });
}

bool Machine::excluded() const { return lacks_after(view()->number); }

bool Machine::recover_if_needed() {
  if (broken_) {
    const StreamsBroke broken = *broken_;
    broken_.reset();
    if (broken.view == view_here()->number && view_here()->find(id()) != nullptr) {
      if (who_leads() == id()) {
        effect(Record{Record::Kind::kError, std::nullopt, broken.view,
                      "the view cannot go on: " + broken.why});
        recover();
        return true;
      }
      send(who_leads(), Broken{broken.view, std::nullopt, broken.why});
    }
  }
  const std::optional<WorkerId> lost = lost_member();
  if (!lost) {
    suspicion_.reset();
    return false;
  }
  if (!suspicion_ || suspicion_->worker != *lost) {
    suspicion_ = Suspicion{*lost, log_.next_read(), now_.time};
  }
  if (!log_.answered(suspicion_->read)) {  // it may have left as planned
    read_registry(true);
    return false;
  }
  if (who_leads() == id()) {
    recover();
    return true;
  }
  // That worker may not have lost the other one, so it does not know that this one has.
  const Time due = suspicion_->told + setup_.timing.time_to_act;
  if (now_.time < due) {
    wake_by(due);
    return false;
  }
  suspicion_->told = now_.time;
  wake_by(now_.time + setup_.timing.time_to_act);
  send(who_leads(), Broken{view_here()->number, *lost, ""});
  return false;
}

// --- The promise ---------------------------------------------------------------------------------

// `ask` wants to know what is complete here.
void Machine::freeze(ViewNumber next, std::optional<WorkerId> ask) {
  if (auto* s = std::get_if<state::Frozen>(&state_)) {
    s->next = std::max(s->next, next);
    if (ask) s->ask[*ask] = next;
    return;
  }
  if (const auto* s = std::get_if<state::Recovering>(&state_)) {
    const auto known = s->complete.find(id());
    if (ask && known != s->complete.end()) send(*ask, Frozen{next, known->second});
    return;
  }
  const bool possible = std::holds_alternative<state::Newcomer>(state_) ||
                        std::holds_alternative<state::Member>(state_) ||
                        std::holds_alternative<state::Restoring>(state_) ||
                        std::holds_alternative<state::Starting>(state_);
  if (!possible) return;
  state::Frozen frozen{.view = view(), .next = next};
  if (ask) frozen.ask[*ask] = next;
  wishes_.change.reset();
  become(std::move(frozen), Why::kAskedToStop);
  effect(StopPublishing{});
}

// --- Recovery ------------------------------------------------------------------------------------

void Machine::recover() {
  state::Recovering recovering;
  recovering.view = view();
  recovering.read = log_.next_read();
  recovering.began = now_.time;
  wishes_.change.reset();
  suspicion_.reset();
  become(std::move(recovering), Why::kLoss);
  read_registry(true);
}

bool Machine::rules_of(state::Recovering& recovering) {
  if (excluded() && recovering.phase != Phase::kFencing) {
    leave("the others continued without this worker", Why::kExcluded);
    return false;
  }
  // Somebody else committed: its start, or the next loss, decides.
  if (recovering.latest && recovering.phase < Phase::kCommitting &&
      log_.newest()->number > recovering.latest->number) {
    state::Frozen frozen{.view = recovering.view, .next = log_.newest()->number};
    const auto known = recovering.complete.find(id());
    frozen.outrun = true;
    frozen.stopped = known != recovering.complete.end();
    if (frozen.stopped) frozen.complete = known->second;
    become(std::move(frozen), Why::kOutrun);
    return true;
  }
  // A worker lost meanwhile changes the question: start over.
  const bool another =
      std::any_of(recovering.complete.begin(), recovering.complete.end(),
                  [&](const auto& entry) { return roster_.has_lost(entry.first); });
  const bool silent = std::any_of(recovering.unfrozen.begin(), recovering.unfrozen.end(),
                                  [&](WorkerId worker) { return roster_.has_lost(worker); });
  if ((another || silent) && recovering.phase != Phase::kCommitting) {
    recover();
    return true;
  }
  switch (recovering.phase) {
    case Phase::kReading:
      if (!log_.answered(recovering.read)) {
        read_registry(true);
        return false;
      }
      return ask_to_freeze(recovering);
    case Phase::kFreezing:
      // Whoever of a node stops last has seen all that became complete there.
      if (!recovering.unfrozen.empty() || !recovering.complete.contains(id())) return false;
      commit_recovery(recovering);
      return false;
    case Phase::kCommitting:
      return false;
    case Phase::kFencing:
      if (!recovering.alive.empty()) return false;
      start_recovered(recovering);
      return true;
  }
  return false;
}

// Everybody who may still publish: the members of all views since the one that runs here.
bool Machine::ask_to_freeze(state::Recovering& recovering) {
  if (log_.newest()->find(id()) == nullptr) {  // it was about to leave; others must do this
    leave("the others continue without this worker", Why::kExcluded);
    return false;
  }
  effect(StopPublishing{});
  recovering.latest = log_.newest();
  std::map<WorkerId, WorkerAddress> everybody;
  for (ViewNumber n = recovering.view->number; n <= recovering.latest->number; ++n) {
    const ViewPtr known = n == recovering.view->number ? recovering.view : log_.at(n);
    if (!known) continue;
    for (const Member& member : known->members) everybody[member.address.id] = member.address;
  }
  for (const auto& [worker, address] : everybody) {
    if (worker == id()) continue;
    if (roster_.has(worker) && !roster_.has_lost(worker)) {
      recovering.unfrozen.insert(worker);
      send(worker, Freeze{recovering.latest->number + 1});
      continue;
    }
    // One that this worker has never met, or has seen leave, will not answer.
    recovering.lost.emplace(worker, address);
    if (here(address)) recovering.alive.insert(worker);
  }
  recovering.phase = Phase::kFreezing;
  return true;
}

void Machine::commit_recovery(state::Recovering& recovering) {
  const View& latest = *recovering.latest;
  View next;
  next.number = latest.number + 1;
  next.cause = "failure";
  next.leader = id();
  next.board = setup_.self.board;
  next.audits = latest.audits;
  std::vector<WorkerAddress> survivors;
  std::optional<Step> complete;
  for (const Member& member : latest.members) {
    if (recovering.lost.contains(member.address.id)) continue;
    survivors.push_back(member.address);
    // Nodes may differ by one step: those that lack it get it from one that has it.
    const auto told = recovering.complete.find(member.address.id);
    if (told != recovering.complete.end()) complete = std::max(complete, told->second);
  }
  if (!complete) {
    leave("nobody who is left has the state of the job", Why::kExcluded);
    return;
  }
  next.first_step = *complete + 1;
  // The step that was to be audited begins again.
  next.audit = latest.audit && next.first_step == latest.first_step;
  host_evenly(setup_.rules, log_.target(), wishes_.speeds.seconds, survivors, next);
  next.prepare_s = std::chrono::duration<double>(now_.time - recovering.began).count();
  recovering.next = std::make_shared<const View>(std::move(next));
  recovering.phase = Phase::kCommitting;
  effect(Swap{recovering.next});
}

void Machine::swap_ended(state::Recovering& recovering, Swapped::Outcome outcome) {
  if (recovering.phase != Phase::kCommitting) return;
  switch (outcome) {
    case Swapped::Outcome::kWon:
      recovery_committed(recovering);
      break;
    case Swapped::Outcome::kLost: {
      // Somebody else was faster: its start, or the next loss, decides.
      state::Frozen frozen{.view = recovering.view,
                           .next = recovering.next->number,
                           .complete = recovering.complete[id()],
                           .stopped = true,
                           .outrun = true};
      become(std::move(frozen), Why::kOutrun);
      read_registry(true);
      break;
    }
    case Swapped::Outcome::kUnknown:
      effect(Swap{recovering.next});
      break;
  }
}

void Machine::recovery_committed(state::Recovering& recovering) {
  recovering.phase = Phase::kFencing;
  for (const WorkerId worker : recovering.alive) {
    const bool patient = roster_.said_bye(worker);
    effect(Fence{worker, patient ? recovering.began + setup_.timing.time_to_end : now_.time});
  }
}

void Machine::start_recovered(state::Recovering& recovering) {
  const ViewPtr next = recovering.next;
  std::map<std::string, std::optional<Step>> complete;  // by node
  Start start{.view = next, .source = "", .lagging = {}, .lost = {}};
  for (const auto& [worker, address] : recovering.lost) start.lost.push_back(address);
  for (const Member& member : next->members) {
    const std::optional<Step> step = recovering.complete[member.address.id];
    std::optional<Step>& of_node = complete[member.address.node];
    of_node = std::max(of_node, step);
    if (start.source.empty() && step == next->first_step - 1) start.source = member.address.node;
  }
  for (const auto& [node, step] : complete) {
    if (!step || *step < next->first_step - 1) start.lagging.push_back(node);
  }
  for (const auto& [worker, step] : recovering.complete) {
    if (worker != id()) send(worker, start);
  }
  for (const auto& [worker, address] : recovering.lost) {
    effect(Record{Record::Kind::kLost, worker, next->number, roster_.reason(worker)});
  }
  started_ = start;
  start_by_message(start);
}

}  // namespace rubato::elastic::membership
