// The Controller of the running daemon. controller.h states what callers may rely on.
//
// Threads: `loop_` owns scheduler_, executor_ and the writing side of store_. mutex_ guards
// everything that readers access (they hold it shared). The loop holds it only while it changes
// memory, never while it writes to disk. Every change happens in this order:
//   1. the event becomes durable in the store, 2. the state changes, 3. scheduler and executor act.
// If the daemon dies in between, it finds the event at the next start and completes the rest.
//
// The policy decides in the thread of decider_, on values; the loop goes on meanwhile and then
// applies what still holds of the plan (live_controller_decide.cpp).
//
// Notices of the executor contain what jobs wrote. All of one turn are recorded in one transaction.
// Only what the store cannot write now (an I/O error) is tried again; a notice that it refuses, or
// whose handling throws, becomes an `error` event of its job, and the loop goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "base/mutex.h"
#include "base/shared_mutex.h"
#include "control/cluster/cluster_executor.h"
#include "control/controller.h"
#include "control/decision_thread.h"
#include "control/dependencies.h"
#include "control/eta.h"
#include "control/folder_removal.h"
#include "control/job_executor.h"
#include "control/job_health.h"
#include "control/job_owner.h"
#include "control/live_scheduler.h"
#include "control/outlook_thread.h"
#include "control/recorder.h"
#include "control/snapshot.h"
#include "control/step_times.h"

namespace rubato::control {

class LiveController final : public Controller {
 public:
  LiveController(const ControllerOptions& options, std::unique_ptr<Store> store,
                 std::unique_ptr<JobExecutor> executor, LiveCluster cluster,
                 std::string admin_token_sha256);
  ~LiveController() override;
  LiveController(const LiveController&) = delete;
  LiveController& operator=(const LiveController&) = delete;
  // Call it before begin(), with what the executor has. `cluster` is made of the executor's nodes.
  void use_uploads(std::shared_ptr<Uploads> uploads);
  // Likewise, if that is the executor: its nodes join and leave.
  void use_cluster(ClusterExecutor* nodes, std::string join_token_sha256);
  // Adopts running jobs and starts the loop.
  void begin();

  Result<JobRecord> submit(const Caller& caller, JobDocument document,
                           const std::string& key) override;
  Status cancel(const Caller& caller, JobNumber job) override;
  Result<std::vector<JobNumber>> cancel_all(const Caller& caller, const JobFilter& filter) override;
  Status remove(const Caller& caller, JobNumber job) override;
  Status pause(const Caller& caller, JobNumber job) override;
  Status resume(const Caller& caller, JobNumber job) override;
  Status scale(const Caller& caller, JobNumber job, int devices) override;
  Status change(const Caller& caller, JobNumber job, const nlohmann::json& fields) override;
  Status note_supply(const Caller& caller, const std::string& text, double seconds) override;
  Status use_policy(const Caller& caller, const std::string& name,
                    const Settings& settings) override;
  Result<Reservation> reserve(const Caller& caller, int devices, double seconds) override;
  Status release(const Caller& caller, std::int64_t reservation) override;
  Result<ChangedTenant> set_tenant(const Caller& caller, const std::string& name,
                                   const TenantChange& change) override;
  Status remove_tenant(const Caller& caller, const std::string& name, bool cancel_jobs) override;

  Uploads& uploads() override { return *uploads_; }
  std::string store_problem() const override;
  Result<elastic::Descriptor> store_copy() const override;
  std::optional<Caller> authenticate(std::string_view token) const override;
  std::string token_version(const Caller& caller) const override;
  std::string make_session(const Caller& caller, double lasts_s) const override;
  std::optional<Caller> session_caller(std::string_view session) const override;
  std::optional<Caller> local_caller(uid_t uid) const override;
  Result<JobRecord> job(const Caller& caller, JobNumber job) const override;
  Result<JobNumber> find_job(const Caller& caller, std::string_view text) const override;
  Result<std::vector<JobNumber>> find_all(const Caller& caller,
                                          std::string_view text) const override;
  Result<std::vector<JobRecord>> list(const Caller& caller, JobQuery query, bool active,
                                      const JobFilter& filter) const override;
  std::vector<JobRecord> jobs(const Caller& caller, bool active, JobNumber after, int limit,
                              const JobFilter& filter) const override;
  Result<nlohmann::json> why(const Caller& caller, JobNumber job) const override;
  Result<nlohmann::json> profile(const Caller& caller, JobNumber job) const override;
  Result<nlohmann::json> plan(const Caller& caller, const JobDocument& document,
                              const std::function<bool()>& abandoned) const override;
  Result<nlohmann::json> forecast(const Caller& caller, const std::string& policy,
                                  const Settings& settings,
                                  const std::function<bool()>& abandoned) const override;
  Result<nlohmann::json> outlook(const Caller& caller, JobNumber job) const override;
  nlohmann::json cluster(const Caller& caller) const override;
  Result<nlohmann::json> snapshot(const Caller& caller) const override;
  std::vector<Tenant> tenants(const Caller& caller) const override;
  std::vector<Reservation> reservations() const override;
  std::string policy_name() const override;
  ControllerMetrics metrics() const override;
  Result<UsageReport> usage(const Caller& caller, UsageQuery query) const override;
  Result<std::vector<Event>> events(const Caller& caller, std::int64_t after, JobNumber job,
                                    int limit, double wait_s) const override;
  Result<EventPage> find_events(const Caller& caller, EventQuery query) const override;
  Result<std::vector<std::string>> log_files(const Caller& caller, JobNumber job) const override;
  Result<ResultPlace> result_place(const Caller& caller, JobNumber job) const override;
  Result<Series> series(const SeriesQuery& query) const override;
  ClusterSample newest_sample() const override;
  Result<std::vector<JobPoint>> job_points(const Caller& caller, JobNumber job) const override;
  std::optional<JobPoint> newest_point(const Caller& caller, JobNumber job) const override;
  Result<nlohmann::json> devices_at(const Caller& caller, double at) const override;
  nlohmann::json nodes(const Caller& caller) const override;
  Status change_node(const Caller& caller, const std::string& name, NodeChange change,
                     double within_s) override;
  Result<NodeOrders> sync_node(const Caller& caller, const NodeReport& report) override;
  nlohmann::json ask_registry(const Caller& caller, JobNumber job,
                              const nlohmann::json& request) override;
  Result<std::string> job_copy(const Caller& caller, JobNumber job) const override;
  Result<elastic::Descriptor> job_upload(const Caller& caller, JobNumber job,
                                         const std::string& sha256) const override;

 private:
  std::optional<Caller> caller_of(uid_t uid) const;
  struct Submission {
    JobDocument document;
    std::string tenant;
    std::string key;
    std::string uid;
    Caller caller;
    std::promise<Result<JobRecord>> answer;
  };
  // What readers may know about a job beyond its record.
  struct Live {
    LiveProgress progress;
    Profile profile;  // measurements of this job itself; empty: none yet
    StepTimes step_times{};
    double grown_at = 0;  // time of a decision to grow that is not carried out yet
    int grown_to = 0;
    // Why it waits, of the newest decision. Only changes of its devices become events.
    std::string waits{};
    nlohmann::json facts{};
  };

  // --- The loop's side (live_controller.cpp) ---
  void run();
  void turn();  // everything that the loop does besides commands
  void handle_submissions(std::deque<Submission> submissions);
  int queued_of(const std::string& tenant) const;
  // Whether the tenant may submit this many more. `queued` counts what was submitted together.
  Status check_queue(const std::string& tenant, int jobs, std::map<std::string, int>& queued);
  void end_reservations();
  void carry_out(const std::vector<Action>& actions);
  void note_who_waits();
  int reserved_now() const;
  double now_unix() const { return time_.now(); }
  // Runs `what` in the loop and waits for its result.
  template <typename T>
  Result<T> ask(std::function<Result<T>()> what);

  // --- Decisions (live_controller_decide.cpp) ---
  // Takes an answer that is there, asks for a decision that is due, and bridges the time while one
  // is late. True if something was decided.
  bool decide();
  void ask_policy();
  bool take_answer();
  bool accept(DecisionAnswer& answer);
  void note_late();
  void bridge();

  // --- Start and restart (live_controller_start.cpp) ---
  // Folders of other histories are set aside, and numbers that they used are not used again.
  void claim_history();
  void adopt_jobs();
  // --- Nodes with agents (live_controller_cluster.cpp)
  std::optional<Caller> agent_with(const std::string& token_sha256) const
      RUBATO_REQUIRES_SHARED(mutex_);
  // Records an event about a node, and tells the executor.
  Status record_node(const Event& event);
  Status admit(const Caller& caller, const NodeReport& report);
  // Nodes that are silent, heard again, or leave.
  void watch_nodes();
  // --- Nodes (live_controller_nodes.cpp) ---
  // Records where devices are if their nodes have other names today than in the log.
  void name_nodes();
  // Nodes came or went: the scheduler begins anew with those that are there.
  void follow_nodes();
  LiveCluster live_cluster() const;
  // What jobs like this one are known to need.
  Profile known_profile_of(const JobRecord& job) const;
  // Makes the scheduler anew from the durable state. No job can keep it from that.
  void start_scheduler();
  // Tells the executor what a job was granted, once its folder belongs to it.
  void start_granted(JobNumber number);

  // --- The log (live_controller_store.cpp) ---
  Error read_only(const std::string& problem) const;
  // An append that the operating system refuses (kIo) makes the daemon read-only: further ones are
  // tried once in a while, and in between fail at once.
  Status append(std::vector<Event> events);
  // A command was carried out and will be answered now.
  void before_answer();
  // While the daemon is read-only: tries to write. Records for how long it was when it is over.
  void watch_store();
  Event event(std::string type, nlohmann::json body) const;
  Event about(const JobRecord& job, std::string type, nlohmann::json body) const;
  // The event of a command: with who gave it and from where.
  static Event given(const Caller& caller, Event event);

  // --- Jobs that wait for others, and arrays (live_controller_links.cpp)
  // What the document's `after` means now. A job that has ended as it should is left out; `never`
  // says why if one has ended in another way.
  struct Links {
    WaitsFor waits_for{};
    std::string never{};
  };
  Result<Links> links_of(const Caller& caller, const JobDocument& document) const;
  // The events of one submission: its jobs, numbered from `first` on.
  static std::vector<Event> events_of(const Submission& submission, const Links& links,
                                      JobNumber first, double now);
  // Adds what follows from the ends among the events (dependencies.h). Returns how many there were.
  std::size_t add_consequences(std::vector<Event>& events) const;
  // All are durable; those from `causes` on were added.
  void note_consequences(const std::vector<Event>& events, std::size_t causes);
  // Jobs that were released join the scheduler, and those that can never start leave it.
  void settle_links();
  void begin_turns();
  // Waiting jobs that the scheduler does not see, for estimates.
  std::vector<EtaJob> held_back() const;
  // The jobs of the array with this name that is active, or of the newest; empty: there is none.
  Result<std::vector<JobNumber>> members_of(const Caller& caller, const ArrayName& name) const;
  // A job of that array.
  Result<std::optional<JobRecord>> one_of(const Caller& caller, const ArrayName& name) const;
  // --- What has ended (live_controller_retention.cpp) ---
  // Lets go of jobs at rest, and does a portion of what the retention asks for.
  void keep_house();
  void let_go_of_jobs();
  void remove_folders();

  // --- Notices from the executor (live_controller_notices.cpp) ---
  void handle(std::vector<Notice> notices);
  // What one notice means: the events to record and, once they are durable, what to do.
  struct Deed {
    const Notice* notice = nullptr;
    std::vector<Event> events{};
    std::vector<std::function<void()>> effects{};
    bool last_try = false;  // if the store refuses it too, the store is to blame
  };
  // What the events of this turn that are not recorded yet will change.
  struct Upcoming {
    bool over = false;
    int held = 0;
    JobPlacement held_nodes{};
    int program_workers = 0;
    std::optional<Profile> profile{};
  };
  using Turn = std::map<JobNumber, Upcoming>;
  Deed deed_of(const Notice& notice, Turn& turn);
  void note_view(const JobRecord& job, const nlohmann::json& body, Upcoming& upcoming, Deed& deed);
  void note_progress(const JobRecord& record, const nlohmann::json& body, Deed& deed);
  void note_end(const JobRecord& job, const std::string& type, nlohmann::json body, Deed& deed);
  Deed instead_of(const Notice& notice, const std::string& why);
  // Jobs of notices that the store cannot write now are added to `waiting`: their later notices
  // wait as well, and all of them come again.
  void carry_out(std::span<Deed> deeds, std::set<JobNumber>& waiting);
  void forget_caps();

  // --- Health and estimated ends of jobs (live_controller_health.cpp) ---
  void watch_health();
  void check_progress(double now);
  void estimate_ends(double now);
  // Ends jobs whose time_limit is over (live_controller_limits.cpp).
  void end_overdue(double now);
  void free_unused(double now);
  // Whether the job is known to do steps.
  bool does_steps(const JobRecord& job) const;
  // Adds a sample and drops the oldest one if there are too many.
  static void keep(std::vector<double>& samples, double value);
  struct TurnStart {
    std::chrono::steady_clock::time_point at;
    double cpu_s = 0;  // of the loop's thread
  };
  static TurnStart turn_start();
  void note_turn(const TurnStart& began);

  // --- The callers' side (live_controller_commands.cpp, live_controller_tenants.cpp,
  //     live_controller_reads.cpp) ---
  void note_cancelled(JobNumber job);
  Status check_possible(const JobDocument& document) const;
  // Checks that the program exists and can be executed where the job will run.
  Status check_startable(const JobDocument& document) const;
  // Fills in the unix user of a submitted job, or says why it has none (live_controller_users.cpp).
  Status settle_user(const Caller& caller, const std::string& tenant, JobDocument& document) const;
  // No two tenants have the same user. For the loop.
  Status check_tenant_user(const std::string& name, const std::string& user) const;
  // Checks that the files of a submitted job are here (live_controller_uploads.cpp).
  Status settle_upload(const Caller& caller, JobDocument& document);
  // What the submitter may not see must not be found out by submitting.
  AsUser rights_for(const JobDocument& document) const;
  // Counts a refused submission; returns what was refused (live_controller_usage.cpp).
  Error refuse(const std::string& tenant, const char* reason, const Error& error);
  std::string session_key() const;
  void measure_tenants(ControllerMetrics& metrics) const RUBATO_REQUIRES_SHARED(mutex_);
  std::vector<JobRecord> list_active(const JobQuery& query, const JobFilter& filter) const;
  Result<std::vector<JobRecord>> list_all(JobQuery query, const JobFilter& filter) const;
  // The job of an idempotency key that is still valid; 0: none.
  Result<JobNumber> job_of_key(const std::string& tenant, const std::string& key) const;
  Result<JobRecord> visible(const Caller& caller,
                            JobNumber job) const;  // call without the lock
  JobRecord with_progress(const JobRecord& record) const RUBATO_REQUIRES_SHARED(mutex_);
  // As callers see it: with its progress, ETA and device time up to now.
  JobRecord shown(const JobRecord& record, double now) const RUBATO_REQUIRES_SHARED(mutex_);
  Snapshot take_snapshot(const Caller& caller) const;
  // For everybody; see outlook() for what a caller may see of it.
  Result<Outlook> look_ahead(const std::function<bool()>& should_stop) const;

  // --- What happened over time (live_controller_series.cpp) ---
  void start_recorder();
  ClusterSample take_sample() const;
  std::vector<JobPoint> take_points() const;
  // What drivers tell of the devices, by the job that holds them; 0: no job.
  std::map<JobNumber, std::vector<DeviceUse>> use_by_job() const;
  std::optional<JobPoint> point_of(const JobRecord& job, double now) const
      RUBATO_REQUIRES_SHARED(mutex_);

  const ControllerOptions options_;
  const std::string admin_token_sha256_;
  std::unique_ptr<Store> store_;
  const SteadyTime time_;
  NumberMark numbers_;
  std::shared_ptr<Uploads> uploads_;
  std::unique_ptr<JobExecutor> executor_;
  ClusterExecutor* nodes_ = nullptr;  // the same, if it is one
  std::string join_token_sha256_;
  mutable Mutex cluster_mutex_;
  LiveCluster cluster_ RUBATO_GUARDED_BY(cluster_mutex_);  // the nodes of executor_
  std::string refused_nodes_;                              // why they could not be taken over
  std::unique_ptr<LiveScheduler> scheduler_;

  // Guards the state of store_ (append() changes it under this lock), live_ and metrics_.
  SharedMutex& mutex_;
  std::map<JobNumber, Live> live_ RUBATO_GUARDED_BY(mutex_);
  std::map<JobNumber, Eta> etas_ RUBATO_GUARDED_BY(mutex_);
  double etas_at_ RUBATO_GUARDED_BY(mutex_) = 0;  // when they were estimated
  ControllerMetrics metrics_ RUBATO_GUARDED_BY(mutex_);

  mutable Mutex news_mutex_;
  mutable CondVar new_events_;
  std::int64_t newest_event_ RUBATO_GUARDED_BY(news_mutex_) = 0;

  Mutex inbox_mutex_;
  CondVar inbox_filled_;
  std::deque<Submission> submissions_ RUBATO_GUARDED_BY(inbox_mutex_);
  std::deque<std::function<void()>> commands_ RUBATO_GUARDED_BY(inbox_mutex_);
  bool stopping_ RUBATO_GUARDED_BY(inbox_mutex_) = false;

  std::string problem_ RUBATO_GUARDED_BY(mutex_);  // of the store; empty: it can be written
  double read_only_since_ = 0;                     // 0: it is not
  double next_try_at_ = 0;                         // of writing, while it is read-only
  bool epoch_due_ = false;                         // no agent gets orders before it has one
  bool rebuild_due_ = false;    // the scheduler knows decisions that are not in the log
  std::set<JobNumber> silent_;  // capped because their programs have not called the runtime
  DependentJobs dependents_;
  std::set<JobNumber> settled_;      // released or cancelled with the end of another job
  std::set<JobNumber> not_started_;  // granted devices, but their folders could not be created yet

  std::string commanded_;          // type of the last event that a command recorded
  std::vector<Notice> unwritten_;  // notices that could not be made durable yet, in order
  std::map<JobNumber, ProgressWatch> watches_;  // of jobs that hold devices
  double next_health_at_ = 0;
  bool round_due_ = true;
  double next_round_at_ = 0;  // latest time of the next round
  double quiet_until_ = 0;    // earliest time: rounds must not crowd out everything else

  // The decision that is being made.
  struct Asked {
    int scheduler = 0;  // see schedulers_
    std::chrono::steady_clock::time_point at;
    bool late = false;
  };
  std::optional<Asked> asked_;
  int schedulers_ = 0;      // made so far: a plan for an earlier one is stale
  double ask_after_ = 0;    // earliest time of the next question, after a late decision
  bool told_late_ = false;  // since the last decision in time
  int dropped_ = 0;         // whole plans in a row
  bool answered_ RUBATO_GUARDED_BY(inbox_mutex_) = false;
  DecisionThread decider_;  // ends before what it calls
  double next_prune_at_ = 0;
  double next_removals_at_ = 0;
  JobNumber removals_until_ = 0;  // the remover knows those up to this number
  bool prune_failed_ = false;     // not tried again before the next start
  FolderRemover remover_;
  std::thread loop_;
  std::unique_ptr<Recorder> recorder_;  // ends before what it looks at, like the next
  std::unique_ptr<OutlookThread> lookout_;
};

double now_unix();

template <typename T>
Result<T> LiveController::ask(std::function<Result<T>()> what) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> answer = promise->get_future();
  {
    const MutexLock lock(inbox_mutex_);
    if (stopping_) return Error{ErrorCode::kIo, "the daemon is stopping; retry"};
    commands_.emplace_back([this, promise = std::move(promise), what = std::move(what)] {
      Result<T> result = what();
      before_answer();
      promise->set_value(std::move(result));
    });
  }
  inbox_filled_.notify_all();
  try {
    return answer.get();
  } catch (const std::future_error&) {
    return Error{ErrorCode::kIo, "the daemon is stopping; retry"};
  }
}

}  // namespace rubato::control
