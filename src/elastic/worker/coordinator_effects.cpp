// What the state machine says, carried out; and what of it takes a while.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "elastic/transport/bridge_layout.h"
#include "elastic/transport/message_text.h"
#include "elastic/worker/coordinator.h"

namespace rubato::elastic {

namespace m = membership;

using std::chrono::steady_clock;

namespace {

// A process that ends closes its streams and its control connection; the latter tells which worker
// is lost.
constexpr auto kTimeToTell = std::chrono::milliseconds(300);

}  // namespace

// --- Mesh and registry ---------------------------------------------------------------------------

void Coordinator::carry_out(const m::Want& effect) { mesh_->want(effect.peer, effect.dial); }

void Coordinator::carry_out(const m::Send& effect) {
  mesh_->send(effect.to, kind_of(effect.message), body_of(effect.message));
}

void Coordinator::carry_out(const m::Forget& effect) { mesh_->forget(effect.peer); }

void Coordinator::carry_out(const m::Fence& effect) {
  fences_[effect.worker] = effect.not_before;
  continue_fences();
}

void Coordinator::continue_fences() {
  const auto now = std::chrono::duration_cast<m::Time>(steady_clock::now().time_since_epoch());
  std::erase_if(fences_, [&](const auto& fence) {
    const auto& [worker, not_before] = fence;
    if (!(now < not_before ? mesh_->ended(worker) : mesh_->fence(worker))) return false;
    answer(m::Ended{worker});
    return true;
  });
}

void Coordinator::carry_out(const m::ReadViews& effect) { async_registry_->ask(effect); }
void Coordinator::carry_out(const m::Swap& effect) { async_registry_->ask(effect); }

// --- Memory --------------------------------------------------------------------------------------

void Coordinator::carry_out(const m::MakeBoard& effect) {
  if (const m::ViewPtr& before = machine_->log().newest()) {
    port_.set_steps_before_restart(before->first_step);
  }
  const Status made = memory_.make_board(*effect.view);
  if (!made.ok()) {
    // The next founder on this machine would fail in the same way.
    answer(m::BoardFailed{made.error().message, true});
    return;
  }
  mesh_->set_board(memory_.board().name());
  answer(m::BoardReady{memory_.board().name()});
}

void Coordinator::carry_out(const m::AdoptBoard& effect) {
  const Status adopted = memory_.adopt_board(*effect.view);
  if (!adopted.ok()) {
    answer(m::BoardFailed{adopted.error().message, false});
    return;
  }
  mesh_->set_board(memory_.board().name());
  answer(m::BoardReady{memory_.board().name()});
}

void Coordinator::carry_out(const m::DropBoard&) { memory_.drop_board(); }

void Coordinator::carry_out(const m::Map& effect) {
  mappings_[effect.view->number] = Mapping{effect.view, effect.proposal, nullptr};
  continue_mapping();
}

void Coordinator::continue_mapping() {
  for (auto entry = mappings_.begin(); entry != mappings_.end();) {
    entry = mapped(entry->second) ? mappings_.erase(entry) : std::next(entry);
  }
}

// Whether that is over, well or badly.
bool Coordinator::mapped(Mapping& mapping) {
  const auto failed = [&](const std::string& why) {
    answer(m::MapFailed{why, mapping.proposal});
    return true;
  };
  std::shared_ptr<const ActiveView> active;  // none if it leaves with this view
  if (mapping.view->find(id()) != nullptr) {
    if (!mapping.touch) {
      Result<std::shared_ptr<const ActiveView>> made = memory_.map_view(*mapping.view);
      if (!made.ok()) return failed(made.error().message);
      mapping.touch = std::make_unique<MemoryTouch>(*made, memory_.board());
    }
    if (!mapping.touch->done()) return false;
    if (mapping.touch->failed()) {
      return failed("there is not enough shared memory for the next view");
    }
    active = mapping.touch->view();
    if (!streams_.ready_for(active, mapping.proposal)) return false;
  }
  port_.prepared(mapping.view, mapping.proposal, std::move(active));
  answer(m::Mapped{mapping.proposal});
  return true;
}

void Coordinator::carry_out(const m::StopPublishing&) {
  port_.stop_publishing();
  memory_.close(*machine_->view());
  mappings_.clear();
  restoring_.reset();
  streams_.stop_receiving();
  answer(m::PublishingStopped{memory_.complete(*machine_->view())});
}

void Coordinator::carry_out(const m::Restore& effect) {
  mappings_.clear();
  streams_.stop_receiving();
  restoring_ = effect;
  continue_restoring();
}

// The node's gateway makes the board ready for the view, and with that the view begins for the
// members of the node.
void Coordinator::continue_restoring() {
  if (!restoring_) return;
  const View& view = *restoring_->view;
  const Result<bool> restored = streams_.restored(*restoring_);
  if (!restored.ok()) {
    answer(m::MapFailed{restored.error().message, std::nullopt});
    restoring_.reset();
    return;
  }
  if (!*restored) return;
  if (gateway_of(view, node()) == id() && !memory_.is_open(view)) {
    memory_.open_block(*machine_->view(), view);
  }
  if (!memory_.is_open(view)) return;
  answer(m::Restored{view.number});
  restoring_.reset();
}

void Coordinator::carry_out(const m::CopyFrom& effect) {
  port_.set_donor(nullptr);
  donor_ = effect.donor;
  find_donor();
}

void Coordinator::find_donor() {
  if (!donor_ || !machine_->view()) return;
  const Member* const member = machine_->view()->find(*donor_);
  if (member == nullptr) return;
  if (member->address.node != node()) {
    port_.set_donor(streams_.donor(member->address));
    donor_.reset();
    return;
  }
  Result<std::shared_ptr<const WorkerSegment>> segment = memory_.map_member(member->address);
  if (!segment.ok()) return;  // tried again
  port_.set_donor(std::move(*segment));
  donor_.reset();
}

// A broken bridge is told again and again: what was told may have been lost.
void Coordinator::watch_streams() {
  const View& view = *machine_->view();
  const bool runs = std::holds_alternative<m::state::Member>(machine_->state());
  const std::string problem = runs ? streams_.problem(view) : "";
  const auto now = steady_clock::now();
  if (problem.empty()) {
    broken_since_.reset();
    return;
  }
  if (!broken_since_) broken_since_ = now;
  if (now - *broken_since_ <= kTimeToTell) return;
  broken_since_ = now;
  answer(m::StreamsBroke{view.number, problem});
}

// --- The training thread -------------------------------------------------------------------------

void Coordinator::carry_out(const m::TellFound&) {
  port_.set_board(memory_.board(), memory_.data_board());
  moved_on_ = machine_->view();
  port_.raise(TrainingPort::Event::kFound);
}

void Coordinator::carry_out(const m::TellObserve& effect) {
  port_.set_board(memory_.board(), memory_.data_board());
  carry_out(m::Observe{effect.view});
  port_.raise(TrainingPort::Event::kObserve);
}

void Coordinator::carry_out(const m::Observe& effect) {
  moved_on_ = effect.view;
  port_.observe(effect.view);
}

void Coordinator::carry_out(const m::Hold& effect) { port_.hold(effect.proposal); }
void Coordinator::carry_out(const m::Release&) { port_.release(); }

void Coordinator::carry_out(const m::Announce& effect) {
  port_.announce(*effect.view, effect.proposal);
}

void Coordinator::carry_out(const m::Begin& effect) {
  Result<std::shared_ptr<const ActiveView>> active = memory_.map_view(*effect.view);
  if (!active.ok()) {
    answer(m::MapFailed{active.error().message, std::nullopt});
    return;
  }
  // Survivors may need the memory of those that are lost.
  memory_.move_on(moved_on_.get(), *effect.view);
  moved_on_ = effect.view;
  port_.start(std::move(*active));
}

void Coordinator::carry_out(const m::TellFinished&) {
  finished_at_ = steady_clock::now();
  port_.raise(TrainingPort::Event::kFinished);
}

void Coordinator::carry_out(const m::TellLeave& effect) { port_.leave(effect.why, effect.refused); }

// What a leader tells everybody on its node's board, and learns there.
void Coordinator::lead() {
  if (!machine_->leads()) return;
  const std::map<int, m::Candidate>& newcomers = machine_->newcomers();
  const auto watchers = static_cast<int>(newcomers.size());
  const auto ready = static_cast<int>(std::count_if(
      newcomers.begin(), newcomers.end(), [](const auto& entry) { return entry.second.ready; }));
  const Board& board = memory_.board();
  board.watchers() = watchers;
  board.copiers() = watchers - ready;  // a spare that is ready only follows the gradients
  board.ready_newcomers() = ready;
  if (!std::holds_alternative<m::state::Member>(machine_->state())) return;
  if (std::optional<m::Speeds> speeds = speeds_.look(board, *machine_->view())) {
    answer(std::move(*speeds));
  }
}

void Coordinator::continue_departure() {
  if (!port_.departing()) return;
  if (!memory_.has_board() || !machine_->view()) return port_.departed(true);
  const NodeStreams::Delivery delivery = streams_.deliver(*machine_->view());
  if (delivery.over) port_.departed(delivery.delivered);
}

// --- For people ----------------------------------------------------------------------------------

void Coordinator::carry_out(const m::Record& effect) {
  nlohmann::json event;
  switch (effect.kind) {
    case m::Record::Kind::kLost:
      event = {{"type", "lost"},
               {"worker", effect.worker.value_or(-1)},
               {"view", effect.view},
               {"reason", effect.text}};
      break;
    case m::Record::Kind::kRefused:
      event = {
          {"type", "refused"}, {"worker", effect.worker.value_or(-1)}, {"reason", effect.text}};
      break;
    case m::Record::Kind::kError:
      event = {{"type", "error"}, {"view", effect.view}, {"message", effect.text}};
      break;
  }
  options_.record(event);
  if (effect.kind == m::Record::Kind::kLost && effect.worker) memory_.remove_lost(*effect.worker);
}

}  // namespace rubato::elastic
