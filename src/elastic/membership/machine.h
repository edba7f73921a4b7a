// The membership of one worker as a state machine: no clock, thread, socket, file or memory of its
// own. It is told what happens (inputs.h) and says what to do (effects.h); drivers carry that out.
//
// How views come about:
//   planned   The leader sends the next view to everybody who is in this one or the next (Prepare).
//             When all have mapped it, it has its training thread wait before a step, commits the
//             view to begin after that step, and announces it on the board, before it arrives.
//             Everybody sees the announcement when that step is complete.
//   failure   The leader, or the lowest surviving worker if the leader is lost, freezes all
//             survivors (they publish nothing more), learns which step is complete, commits a view
//             without the lost workers, makes sure that those are dead, and starts the view.
//   founding  The first worker of a job commits a view of itself, waits for the others, and starts
//             the view with all of them as after a failure.
// In every case the compare-and-swap decides, so two halves of a job can never both continue: a
// step needs all members of a view, and of two candidates for the next view only one is committed.
//
// After every input the rules of the state run until nothing changes (settle()). They look at what
// is known, not at what has just happened, so an input may be repeated or come late.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "elastic/membership/effects.h"
#include "elastic/membership/inputs.h"
#include "elastic/membership/next_view.h"
#include "elastic/membership/roster.h"
#include "elastic/membership/states.h"
#include "elastic/membership/table.h"
#include "elastic/membership/view_log.h"

namespace rubato::elastic::membership {

struct Timing {
  // How often to read the registry if nothing says that it has changed.
  Time registry_interval = std::chrono::milliseconds(30);
  // The worker that should act on a loss notices it within this time; after it, others tell.
  Time time_to_act = std::chrono::milliseconds(300);
  // For a lost worker that said goodbye: its launcher should see how it ended.
  Time time_to_end = std::chrono::milliseconds(500);
  Time prepare_timeout = std::chrono::seconds(10);
};

struct Setup {
  WorkerAddress self;
  std::string description;  // what is trained and in which shape; must be equal on all workers
  std::vector<Program::Trait> traits;
  JobRules rules;
  Step first_step = 0;  // founder: the step its state is at
  // If set, it may found the job only right after the view with this number, which is empty, or 0:
  // that is when it took its state. Otherwise it waits for others to have one.
  std::optional<ViewNumber> founds_after{};
  Timing timing;
};

struct Now {
  Time time{};
  double unix_s = 0;
};

class Machine {
 public:
  explicit Machine(Setup setup) : setup_(std::move(setup)) {}

  // Reacts to an input. The first one (a Tick) makes the worker enter the job.
  void handle(const Now& now, const Input& input, Effects& out);
  // When to send a Tick at the latest; nothing: no need.
  std::optional<Time> wake_at() const { return wake_; }
  const State& state() const { return state_; }
  const ViewLog& log() const { return log_; }
  // The view that this worker trains, follows or has left; null before it knows one.
  const ViewPtr& view() const;
  bool leads() const;
  // Leader: who asked to join.
  const std::map<WorkerId, Candidate>& newcomers() const { return wishes_.newcomers; }

 private:
  // What a leader knows of the wishes of others.
  struct Wishes {
    std::map<WorkerId, Candidate> newcomers;
    std::set<WorkerId> leaving;
    Speeds speeds;
    std::optional<Change> change;
    std::int64_t attempts = 0;
    // Changes in a row that this worker could not map, and when to try the next one.
    int unmapped = 0;
    Time not_before{};
  };
  // A worker is lost without which the view cannot go on; perhaps it left as planned.
  struct Suspicion {
    WorkerId worker = -1;
    ViewLog::Ticket read = 0;  // what the registry says after that counts
    Time told{};
  };

  // machine.cpp: inputs
  void on(const Connected& input);
  void on(const Received& input);
  void on(const Lost& input);
  void on(const Ended& input);
  void on(const ViewsRead& input);
  void on(const ReadFailed& input);
  void on(const RegistryChanged& input);
  void on(const Swapped& input);
  void on(const BoardReady& input);
  void on(const BoardFailed& input);
  void on(const BoardFacts& input);
  void on(const Mapped& input);
  void on(const MapFailed& input);
  void on(const PublishingStopped& input);
  void on(const Restored& input);
  void on(const StreamsBroke& input);
  void on(const Filled& input);
  void on(const FollowsNow& input);
  void on(const Held& input);
  void on(const Entered& input);
  void on(const AsksToLeave& input);
  void on(const Finishes& input);
  void on(const Departs& input);
  void on(const Speeds& input);
  void on(const Tick&) {}

  // hearing.cpp: what others tell
  void hear(WorkerId from, const Join& message);
  void hear(WorkerId from, const Accepted& message);
  void hear(WorkerId from, const Refused& message);
  void hear(WorkerId from, const Ready& message);
  void hear(WorkerId from, const Leave& message);
  void hear(WorkerId from, const Bye& message);
  void hear(WorkerId from, const JobFinished& message);
  void hear(WorkerId from, Current<Prepare> message);
  void hear(WorkerId from, Current<Prepared> message);
  void hear(WorkerId from, Current<Freeze> message);
  void hear(WorkerId from, Current<Frozen> message);
  void hear(WorkerId from, Current<Start> message);
  void hear(WorkerId from, Current<Broken> message);
  void say_again(WorkerId peer);
  void forget_peer(WorkerId peer);

  // rules.cpp
  void settle();
  bool apply_rules();  // true: something changed, look again
  bool rules_of(state::Arriving& arriving);
  bool rules_of(state::Founding&);
  bool rules_of(state::Newcomer& newcomer);
  bool rules_of(state::Member& member);
  bool rules_of(state::Frozen& frozen);
  bool rules_of(state::Recovering& recovering);
  bool rules_of(state::Restoring& restoring);
  bool rules_of(state::Starting&);
  bool rules_of(state::Leaving&) { return false; }
  bool rules_of(state::Finished&) { return false; }
  bool rules_of(state::Gone&) { return false; }
  void read_registry(bool at_once);
  void founding_ended(state::Arriving& arriving, Swapped::Outcome outcome);

  // newcomer.cpp
  bool follow(state::Newcomer& newcomer);
  bool abandoned(state::Newcomer& newcomer);
  bool unheard(state::Newcomer& newcomer);
  bool cannot_prepare(const std::optional<ToPrepare>& to_prepare);
  void ask_to_join(state::Newcomer& newcomer);
  void choose_donor(state::Newcomer& newcomer);
  void prepare(std::optional<ToPrepare>& to_prepare);

  // leader.cpp: planned changes
  bool lead();
  bool begin_change();
  bool continue_change(Change& change);
  void cancel_change();
  void try_later();
  void commit_change(Step held);
  void change_committed();

  // recovery.cpp: failures
  std::optional<WorkerId> lost_member() const;
  std::optional<WorkerId> lost_of(const View& of) const;
  bool left_in_order(std::size_t position) const;
  const ViewPtr& view_here() const;
  WorkerId who_leads() const;
  bool recover_if_needed();
  void recover();
  void freeze(ViewNumber next, std::optional<WorkerId> ask);
  bool ask_to_freeze(state::Recovering& recovering);
  void commit_recovery(state::Recovering& recovering);
  void swap_ended(state::Recovering& recovering, Swapped::Outcome outcome);
  void recovery_committed(state::Recovering& recovering);
  void start_recovered(state::Recovering& recovering);
  bool lacks_after(ViewNumber number) const;
  bool excluded() const;

  // restoring.cpp
  void start_by_message(const Start& start);

  // Shared by all
  WorkerId id() const { return setup_.self.id; }
  bool here(const WorkerAddress& worker) const { return worker.node == setup_.self.node; }
  // Messages about views with a lower number are of the past.
  ViewNumber floor() const;
  void become(State next, Why why);
  void leave(const std::string& why, Why reason, bool refused = false);
  void effect(Effect what) { out_->push_back(std::move(what)); }
  void send(WorkerId to, Message message) { effect(Send{to, std::move(message)}); }
  void want(const WorkerAddress& peer, bool dial);
  void wake_by(Time time) {
    if (!wake_ || time < *wake_) wake_ = time;
  }

  Setup setup_;
  State state_;
  Roster roster_;
  ViewLog log_;
  Wishes wishes_;
  BoardFacts facts_;
  std::optional<Suspicion> suspicion_;
  std::optional<Start> started_;  // the newest view that this worker started by message
  std::optional<StreamsBroke> broken_;
  bool wants_to_leave_ = false;
  Now now_;
  Effects* out_ = nullptr;
  std::optional<Time> wake_;
};

}  // namespace rubato::elastic::membership
