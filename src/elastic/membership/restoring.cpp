// A view that a message starts: the survivors of each node end the lost processes of their own
// node, the node's gateway gets the last complete step if its board lacks it, opens the view on the
// board, and with that the view begins for the members of the node.
#include "elastic/membership/machine.h"

namespace rubato::elastic::membership {

void Machine::start_by_message(const Start& start) {
  const bool possible = !std::holds_alternative<state::Arriving>(state_) &&
                        !std::holds_alternative<state::Leaving>(state_) &&
                        !std::holds_alternative<state::Finished>(state_) &&
                        !std::holds_alternative<state::Gone>(state_);
  if (!possible) return;
  if (start.view->find(id()) == nullptr) {
    if (!std::holds_alternative<state::Newcomer>(state_)) {
      leave("this worker is not part of the next view", Why::kExcluded);
    }
    return;
  }
  state::Restoring restoring{.before = view(), .start = start};
  const auto must_end = [&](const WorkerAddress& worker) {
    if (here(worker) && start.view->find(worker.id) == nullptr) restoring.alive.insert(worker.id);
  };
  for (ViewNumber n = restoring.before->number; n < start.view->number; ++n) {
    const ViewPtr known = n == restoring.before->number ? restoring.before : log_.at(n);
    if (!known) continue;
    for (const Member& member : known->members) must_end(member.address);
  }
  for (const WorkerAddress& worker : start.lost) must_end(worker);
  wishes_.change.reset();
  suspicion_.reset();
  const bool recovered =
      std::holds_alternative<state::Recovering>(state_) && start.view->leader == id();
  for (const WorkerId worker : restoring.alive) {
    const bool patient = roster_.said_bye(worker);
    effect(Fence{worker, patient ? now_.time + setup_.timing.time_to_end : now_.time});
  }
  become(std::move(restoring), recovered ? Why::kRecovered : Why::kStarted);
}

bool Machine::rules_of(state::Restoring& restoring) {
  if (lacks_after(restoring.start.view->number)) {
    leave("the others continued without this worker", Why::kExcluded);
    return false;
  }
  if (recover_if_needed()) return true;
  if (restoring.asked || !restoring.alive.empty()) return false;
  restoring.asked = true;
  effect(Restore{restoring.start.view, restoring.start.source, restoring.start.lagging});
  return false;
}

}  // namespace rubato::elastic::membership
