// Where the training thread of a worker and its membership meet. The training thread asks a few
// questions at step boundaries and is otherwise undisturbed; nothing here waits for a file or the
// network. What it says reaches the state machine as inputs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "elastic/membership/effects.h"
#include "elastic/memory/active_view.h"
#include "elastic/memory/board.h"
#include "elastic/memory/data_board.h"
#include "elastic/memory/donor.h"

namespace rubato::elastic {

class TrainingPort {
 public:
  // `wake` makes the other side look at take_inputs(); callable from any thread.
  explicit TrainingPort(std::function<void()> wake) : wake_(std::move(wake)) {}

  // --- For the training thread ---
  enum class Event {
    kFound,     // first worker: fill the board's private state for first_step, then call filled()
    kObserve,   // accepted as a newcomer: copy the state of the view and follow it
    kStart,     // started_view() starts at its first step
    kFinished,  // the job is done
    kLeave,     // this worker is no longer part of the job; see reason()
  };
  // Waits for the next event; nothing on timeout.
  std::optional<Event> wait_event(std::chrono::milliseconds at_most);
  bool pending();  // an event is waiting
  // The view of kStart. Null if an earlier event has already delivered it: a later view replaces
  // one that has not begun.
  std::shared_ptr<const ActiveView> started_view();
  std::string reason();
  bool was_refused();
  // Of the worker that restarted the job: steps done before all workers were gone.
  std::int64_t steps_before_restart() const { return steps_before_restart_; }
  const Board& board() const { return *board_; }                // after the first event
  const DataBoard& data_board() const { return *data_board_; }  // likewise, for an adaptive job

  // Newcomer: the worker whose state to copy; null if the previous donor is gone and no other is
  // known.
  std::shared_ptr<const Donor> donor();
  // Newcomer: whether the board has the view it observes, as admitted_at() requires. The board of a
  // node without members may still be empty.
  bool sees_view();
  // Whether a step of that view is complete.
  bool sees_training();
  // Newcomer: whether its state follows the view. One that could not keep up starts over.
  void ready(bool is_ready = true);
  void filled();  // founder: it has filled the board

  // True if the training thread must abandon the current step and wait for an event.
  bool interrupted() const { return interrupted_.load(std::memory_order_acquire); }
  // Runs a publication on the board, unless interrupted (returns false). A survivor that has
  // confirmed the freeze publishes nothing.
  bool publish(const std::function<void()>& write);
  // It computes this step and will arrive at it.
  void begins(std::int64_t step);
  // Call before arriving at the step. If a view is being committed that begins after it, waits for
  // the answer, so that the view is announced before.
  void before_arrival(std::int64_t step);
  // What follows once `step` is complete.
  struct Next {
    enum class Kind { kSame, kSwitch, kGone, kInterrupted } kind = Kind::kSame;
    std::shared_ptr<const ActiveView> view;  // for kSwitch
    bool job_stops = false;                  // for kGone: nobody continues
  };
  Next after_step(const ActiveView& view, std::int64_t step);
  // For a newcomer whose state is that before `step`: the announced view that starts there and has
  // the newcomer as a member; null if there is none (yet).
  std::shared_ptr<const ActiveView> admitted_at(std::int64_t step);
  // Reports that the training thread now runs in this view.
  void entered(const std::shared_ptr<const ActiveView>& view);
  // Leader: all steps are done and the result is written.
  void finish();
  // This worker ends normally. Waits, but not longer than this, until other nodes have everything
  // from it that they need to continue.
  void depart(std::chrono::milliseconds at_most);
  void ask_to_leave() { wants_to_leave_ = true; }  // from any thread or a signal handler

  // --- For the membership's thread ---
  // What the training thread has said since the last call.
  std::vector<membership::Input> take_inputs();
  void add_input(membership::Input input);  // from any other thread that has an answer
  bool departing();
  void departed(bool delivered);
  bool delivered();
  void set_board(const Board& board, const DataBoard* data);  // once, before the first event
  void set_steps_before_restart(std::int64_t steps) { steps_before_restart_ = steps; }

  void raise(Event event);
  void leave(const std::string& why, bool refused);
  void observe(const membership::ViewPtr& view);
  void set_donor(std::shared_ptr<const Donor> donor);
  void stop_publishing();
  void interrupt();  // whatever the training thread waits for will not come
  bool frozen();
  void hold(const membership::Proposal& proposal);
  void release();
  void announce(const View& view, const membership::Proposal& proposal);
  // A view is prepared; `active` is null if this worker is not in it.
  void prepared(const membership::ViewPtr& view, const membership::Proposal& proposal,
                std::shared_ptr<const ActiveView> active);
  void start(std::shared_ptr<const ActiveView> view);

 private:
  struct Prepared {
    membership::Proposal proposal;
    membership::ViewPtr view;
    std::shared_ptr<const ActiveView> active;
  };
  const Prepared* announced(const Announcement& next) const RUBATO_REQUIRES(mutex_);
  void held_at(std::int64_t step) RUBATO_REQUIRES(mutex_);

  // Leader: the arrival that waits for an answer of the registry.
  struct Holding {
    std::optional<std::int64_t> next_arrival;  // the step that it computes
    std::optional<std::int64_t> held;
    std::optional<membership::Proposal> wanted_for;
  };
  struct Farewell {
    std::string reason;  // why it must leave
    bool refused = false;
    bool excluded = false;
    bool departing = false;  // it leaves, and waits until everything is delivered
    bool departed = false;
    bool delivered = false;
  };

  const std::function<void()> wake_;
  const Board* board_ = nullptr;
  const DataBoard* data_board_ = nullptr;
  std::atomic<std::int64_t> steps_before_restart_ = 0;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> wants_to_leave_{false};

  Mutex mutex_;
  CondVar changed_;
  std::vector<membership::Input> inputs_ RUBATO_GUARDED_BY(mutex_);
  std::vector<Event> events_ RUBATO_GUARDED_BY(mutex_);
  std::shared_ptr<const ActiveView> to_start_ RUBATO_GUARDED_BY(mutex_);
  std::map<membership::ViewNumber, Prepared> prepared_ RUBATO_GUARDED_BY(mutex_);
  membership::ViewPtr observed_ RUBATO_GUARDED_BY(mutex_);
  std::shared_ptr<const Donor> donor_ RUBATO_GUARDED_BY(mutex_);
  bool frozen_ RUBATO_GUARDED_BY(mutex_) = false;
  Holding holding_ RUBATO_GUARDED_BY(mutex_);
  Farewell farewell_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::elastic
