// The membership of one worker. A thread of its own talks to the other workers and to the registry.
// The training thread asks it a few questions at step boundaries and is otherwise undisturbed.
//
// How views come about:
//   planned   The leader collects ready newcomers and leaving workers and sends kPrepare with the
//             next view to its members. When all have mapped it, the leader's training thread
//             commits it at the next boundary: compare-and-swap in the registry, then an
//             announcement on the board, then arrival. Everybody sees the announcement when that
//             step is complete.
//   failure   The leader, or the lowest surviving worker if the leader is lost, freezes all
//             survivors (they publish nothing more), reads the view's progress from the board,
//             commits a view without the lost workers, makes sure that those are dead, and starts
//             the view.
//   founding  The first worker of a job commits a view of itself, waits for the others, and starts
//             the view with all of them as after a failure.
// Members may be on several nodes. Then each node has a board of its own; bridges keep the boards
// identical (bridge.h). A view that is started by message begins on a node when the node's gateway
// has prepared its board (coordinator_nodes.cpp). In every case the compare-and-swap decides, so
// two halves of a job can never both continue: a step needs all members of a view, and of two
// candidates for the next view only one is committed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "elastic/active_view.h"
#include "elastic/batch_rule.h"
#include "elastic/board.h"
#include "elastic/bridge.h"
#include "elastic/data_board.h"
#include "elastic/feed.h"
#include "elastic/job_folder.h"
#include "elastic/memory_touch.h"
#include "elastic/mesh.h"
#include "elastic/node_names.h"
#include "elastic/program.h"
#include "elastic/registry.h"
#include "elastic/straggler.h"
#include "elastic/view.h"
#include "elastic/worker_segment.h"

namespace rubato::elastic {

class Coordinator final : private Mesh::Listener {
 public:
  struct Options {
    JobSettings settings;
    int worker = 0;
    ProgramShape shape;
    std::string description;  // what is trained and in which shape; must be equal on all workers
    std::vector<Program::Trait> fingerprint;
    std::int64_t first_step = 0;  // founder: the step its state is at
    int logical_slots = 1;        // founder: the number of logical workers the board has room for
    std::int64_t batch = 1;       // consistent job: samples per logical worker
    BatchRule batches;
    std::optional<DataBoardShape> data;                 // adaptive job
    std::function<void(const nlohmann::json&)> record;  // writes an event to the job's event log
    NodeIdentity node;
  };
  static Result<std::unique_ptr<Coordinator>> start(const Options& options, Registry& registry,
                                                    const std::string& secret,
                                                    std::shared_ptr<const WorkerSegment> own);
  ~Coordinator() override;

  // --- For the training thread ---
  enum class Event {
    kFound,     // first worker: fill the board's private state for first_step, then call filled()
    kObserve,   // accepted as a newcomer: copy the state of view() and follow it
    kStart,     // view() starts at its first step
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
  const Board& board();           // after the first event
  const DataBoard& data_board();  // likewise, for an adaptive job

  // Newcomer: the worker whose state to copy; null if the previous donor is gone and no other is
  // known.
  std::shared_ptr<const Donor> donor();
  // Newcomer: whether the board has the view it observes, as admitted_at() requires. The board of a
  // node without members may still be empty.
  bool sees_view();
  // Whether a step of that view is complete.
  bool sees_training();
  void ready();   // newcomer: its state follows the view
  void filled();  // founder: it has filled the board

  // True if the training thread must abandon the current step and wait for an event.
  bool interrupted() const { return interrupted_.load(std::memory_order_acquire); }
  // Runs a publication on the board, unless interrupted (returns false). A survivor that has
  // confirmed the freeze publishes nothing.
  bool publish(const std::function<void()>& write);
  // Leader, before arriving at `step`: commits the prepared view, if any, starting at step + 1.
  void commit_prepared(std::int64_t step);
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
  // Whether this worker still leads: no later view with another leader exists. The others cannot
  // end an excluded worker on another node, so it must check this before it touches anything
  // reserved for the leader.
  bool newest_leads(const View& view);
  // Reports that the training thread now runs in this view.
  void entered(std::shared_ptr<const ActiveView> view);
  // Leader: all steps are done and the result is written.
  void finish();
  // This worker ends normally. Waits until other nodes have everything from it that they need to
  // continue.
  void depart();
  void ask_to_leave();  // asynchronous, from any thread: another view follows

 private:
  struct Joiner {
    WorkerAddress address;
    bool ready = false;
    double since = 0;  // unix seconds
  };
  // A planned change in progress.
  struct Change {
    View view;
    std::int64_t attempt = 0;
    std::set<int> unprepared;  // includes this worker until its own memory is ready
    std::unique_ptr<MemoryTouch> touch;
    bool proposed = false;
    double asked_at = 0;  // unix seconds
    std::chrono::steady_clock::time_point began;
  };
  struct Recovery {
    View latest;  // the newest view when the recovery began
    std::set<int> unfrozen;
    std::map<int, std::int64_t> complete;  // by worker: the newest complete step on its board
    std::set<int> to_fence;
    std::optional<View> committed;
    std::set<int> audience;  // workers that are told of the start
    std::chrono::steady_clock::time_point began;
  };

  // A view that was started by message and has not begun here.
  struct PendingStart {
    View view;
    std::string source;  // node that has the step before the first one
    std::vector<std::string> lagging;
    std::set<int> to_fence;  // lost workers of this node
    std::chrono::steady_clock::time_point since;
  };

  Coordinator(const Options& options, Registry& registry, const std::string& secret,
              std::shared_ptr<const WorkerSegment> own);

  // coordinator.cpp: thread, messages
  void run();
  std::optional<View> view_at(std::int64_t number) const;
  std::shared_ptr<const ActiveView> committed_view(std::int64_t number, bool* empty)
      RUBATO_REQUIRES(mutex_);
  void on_connected(const WorkerAddress& peer) override;
  void on_message(int peer, Message message, const nlohmann::json& body) override;
  void on_lost(int peer, const std::string& why) override;
  std::function<void(Descriptor)> on_stream(int peer, const nlohmann::json& purpose) override;
  void tick();
  void want(const WorkerAddress& peer);
  void forget_peer(int peer);
  void say_again(int peer);
  Status adopt_board(const View& latest);
  Result<std::shared_ptr<const ActiveView>> map_view(const View& view);
  void begin_view(const View& view);
  void leave(const std::string& why);
  void raise(Event event);
  bool is_leader() const { return active_number_ > 0 && current_.leader == id(); }
  int id() const { return options_.worker; }

  // coordinator_newcomer.cpp: entering the job
  bool enter_job();
  void be_newcomer(bool say_ready);
  void acknowledge_prepared();
  void follow_registry();

  // coordinator_leader.cpp: planned changes
  void lead();
  void on_join(int peer, const nlohmann::json& body);
  std::optional<View> next_membership();
  int wanted_workers() const;
  void start_change(View view);
  void host_evenly(View& view, std::vector<WorkerAddress> workers) const;
  void commit_founding();
  void cancel_change();
  std::vector<double> measured_speeds(const std::vector<WorkerAddress>& workers) const;
  void watch_stragglers();

  // coordinator_recovery.cpp: failures
  int lost_member() const;
  std::int64_t view_here() const;
  void tell_of_loss(int worker);
  void on_broken(const nlohmann::json& body);
  int lead_now() const;  // worker that should lead: the leader, else the lowest reachable
  void recover();
  void continue_recovery();
  void on_freeze(int peer);
  ViewBlock& last_begun_block() const;
  std::int64_t complete_here() const;
  void start_recovered();

  // coordinator_nodes.cpp: members on other nodes
  const std::string& node() const { return options_.node.name; }
  bool here(const WorkerAddress& worker) const { return worker.node == node(); }
  Result<std::shared_ptr<const WorkerSegment>> map_member(const WorkerAddress& worker) const;
  void drop_segments(const std::function<bool(int)>& unneeded);
  void remove_mirrors(const View& before) const;
  std::shared_ptr<const Donor> choose_donor(int* worker) const;
  void order_by_node(std::vector<WorkerAddress>& workers) const;
  bool board_filled();
  bool bridge_ready(const std::shared_ptr<const ActiveView>& view);
  void stop_bridges();
  bool bridge_broken();
  void tick_nodes();
  void feed_board();
  void start_by_message(const View& view, const std::string& source,
                        const std::vector<std::string>& lagging);
  void continue_start();
  void open_block(const View& view) const;

  Options options_;
  Registry& registry_;
  std::unique_ptr<Mesh> mesh_;
  std::thread thread_;

  // --- Shared between the two threads ---
  Mutex mutex_;
  CondVar changed_;
  std::vector<Event> events_ RUBATO_GUARDED_BY(mutex_);
  std::shared_ptr<const ActiveView> to_start_ RUBATO_GUARDED_BY(mutex_);
  std::string reason_ RUBATO_GUARDED_BY(mutex_);
  bool refused_ RUBATO_GUARDED_BY(mutex_) = false;
  std::map<std::int64_t, std::shared_ptr<const ActiveView>> prepared_ RUBATO_GUARDED_BY(mutex_);
  // Newcomer: number of the view it observes.
  std::int64_t observed_ RUBATO_GUARDED_BY(mutex_) = 0;
  std::int64_t observed_first_step_ RUBATO_GUARDED_BY(mutex_) = 0;
  // Leader: the view for the training thread to commit.
  std::shared_ptr<const ActiveView> proposal_ RUBATO_GUARDED_BY(mutex_);
  double proposal_asked_at_ RUBATO_GUARDED_BY(mutex_) = 0;
  // Updates from the training thread.
  std::shared_ptr<const ActiveView> entered_ RUBATO_GUARDED_BY(mutex_);
  std::int64_t entered_number_ RUBATO_GUARDED_BY(mutex_) = 0;
  bool cancelled_ RUBATO_GUARDED_BY(mutex_) = false;  // committing the proposal failed
  bool ready_ RUBATO_GUARDED_BY(mutex_) = false;
  bool filled_ RUBATO_GUARDED_BY(mutex_) = false;
  bool finished_ RUBATO_GUARDED_BY(mutex_) = false;
  bool frozen_ RUBATO_GUARDED_BY(mutex_) = false;
  bool excluded_ RUBATO_GUARDED_BY(mutex_) = false;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::optional<Board> board_;  // set once per job, before the first event
  std::optional<DataBoard> data_board_;
  std::shared_ptr<const Donor> donor_ RUBATO_GUARDED_BY(mutex_);
  int donor_worker_ RUBATO_GUARDED_BY(mutex_) = -1;
  bool departing_ RUBATO_GUARDED_BY(mutex_) = false;
  bool departed_ RUBATO_GUARDED_BY(mutex_) = false;
  bool delivered_ RUBATO_GUARDED_BY(mutex_) = false;  // others have everything they need from here
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> wants_to_leave_{false};
  std::atomic<bool> has_streams_{false};  // to or from other nodes

  // --- Used only by the coordinator's thread ---
  View current_;                    // the view this worker runs in or observes
  std::int64_t active_number_ = 0;  // its number if this worker runs in it; 0: newcomer
  SegmentMap segments_;
  View latest_;  // the newest view in the registry, as last seen
  std::map<int, WorkerAddress> peers_;
  std::set<int> lost_;
  std::map<int, std::string> lost_reasons_;
  std::set<int> said_bye_;
  bool accepted_ = false;
  bool gone_ = false;
  bool said_finished_ = false;
  bool founding_ = false;  // it committed a view of itself and waits for the others
  std::chrono::steady_clock::time_point founded_at_;
  std::atomic<std::int64_t> steps_before_restart_ = 0;
  int joined_leader_ = -1;  // newcomer: the leader it has asked
  bool said_ready_ = false;
  int leave_sent_to_ = -1;
  std::int64_t reported_refusals_ = 0;
  View started_by_message_;  // the newest view that this worker has started
  nlohmann::json start_message_;
  std::map<int, Joiner> joiners_;
  std::set<int> leaving_;
  std::optional<Change> change_;
  std::int64_t attempts_ = 0;
  double asked_at_ = 0;
  // A view this worker was asked to prepare. It acknowledges when all members are connected and its
  // memory is ready.
  struct ToPrepare {
    View view;
    int leader = -1;
    std::int64_t attempt = 0;
    std::unique_ptr<MemoryTouch> touch;
  };
  std::optional<ToPrepare> to_prepare_;
  std::optional<Recovery> recovery_;
  Handshake::Identity identity_;
  std::map<std::int64_t, std::unique_ptr<Bridge>>
      bridges_;  // by view; those whose gateway is this worker
  std::optional<PendingStart> pending_start_;
  std::unique_ptr<FeedServer> feed_server_;
  std::unique_ptr<FeedClient> feed_;
  std::set<int> said_done_;  // leaving workers that have finished their last step
  std::int64_t broken_view_ = 0;
  std::string broken_why_;
  std::chrono::steady_clock::time_point broken_since_;
  std::chrono::steady_clock::time_point lost_since_;  // for a member that the leader has not lost
  std::optional<std::chrono::steady_clock::time_point> finished_at_;
  StragglerWatch stragglers_;
  std::int64_t judged_step_ = -1;
  bool rebalance_ = false;
  std::chrono::steady_clock::time_point last_registry_look_;
  Target target_;
};

}  // namespace rubato::elastic
