// The interface of the running daemon. One thread, the live loop, owns the Scheduler, the executor
// and the writing side of the Store. Any thread may call commands: they are queued to
// the loop and return once their effect is durable. Reads access the State under a shared lock.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/isolation.h"
#include "control/job_filter.h"
#include "control/job_health.h"
#include "control/machine.h"
#include "control/result_files.h"
#include "control/retention.h"
#include "control/series.h"
#include "control/state.h"
#include "control/steady_time.h"
#include "control/store.h"
#include "control/uploads.h"

namespace rubato {
class Policy;
}  // namespace rubato

namespace rubato::control {

class JobExecutor;
struct ClusterOptions;
struct NodeReport;
struct NodeOrders;

struct ControllerOptions {
  std::string folder;        // the daemon's state folder
  std::string supervisor;    // see LocalExecutorOptions
  Machine machine;           // where the jobs run
  double round_every_s = 5;  // run a round at least this often while jobs are active
  StallRule stall{};
  TimeSource time = computer_time();
  Isolation isolation{};
  UploadLimits uploads{};
  bool local_users = false;    // every local user is a tenant, even without an administrator's word
  bool encrypt_jobs = false;   // those whose document does not say
  double decide_within_s = 5;  // see live_controller_decide.cpp
  // Jobs run on machines whose agents join, and not on `machine`. Its folder is filled in.
  std::shared_ptr<const ClusterOptions> cluster{};
  // Tests: the policy to use in place of the one that was chosen.
  std::function<std::unique_ptr<Policy>(std::unique_ptr<Policy>)> around_policy{};
  Retention retention{};  // of what has ended; by default everything is kept
  // Those that would go on if this machine were lost (standby/leadership.h); null: nobody. Must
  // outlive the controller.
  Witness* witness = nullptr;
};

// The caller of a command. An administrator can see and change everything. A tenant can see and
// change only its own jobs; for other jobs it gets kNotFound.
struct Caller {
  std::string tenant;  // may be empty for an administrator, whose jobs then belong to "default"
  bool admin = false;
  std::string address{};  // where the command came from, for the log; empty: unknown
  std::string user{};     // unix user of a caller on the local socket
  // The agent of this node (control/cluster/), which may do what its node needs, and nothing else.
  std::string node{};
  bool joins = false;  // has the join token: may become the agent of a node that nobody is yet
  // Controller::token_version() when the caller was recognized: whoever was let in with a token
  // that is replaced at that moment must not count as somebody with the new one.
  std::string token_version{};

  bool is_agent() const { return joins || !node.empty(); }
};

// What to change of a tenant; what is not given stays as it is, or has its default if the tenant is
// new.
struct TenantChange {
  std::optional<double> weight{};
  std::optional<int> quota{};
  std::optional<int> max_queued{};
  std::optional<int> max_streams{};
  // The unix user that runs the tenant's jobs, and that is the tenant on the local socket. Empty:
  // none. Jobs that were submitted before keep theirs.
  std::optional<std::string> user{};
  bool new_token = false;
  // How long the token is valid from now on, in seconds; 0: for ever. Of a new token if `new_token`
  // is set, otherwise of the present one.
  std::optional<double> token_lasts_s{};
};
struct ChangedTenant {
  Tenant tenant;
  std::string token{};  // a new token, which is never shown again; empty: there is none
};

enum class NodeChange { kDrain, kUndrain, kRemove };

struct TenantMetrics {
  std::int64_t running = 0;
  std::int64_t queued = 0;
  int held = 0;   // devices
  int quota = 0;  // 0: no limit
  DeviceTime time{};
};

// Samples and counters for /metrics; see api/metrics.cpp.
struct ControllerMetrics {
  std::map<std::string, std::int64_t> jobs_by_phase;
  std::int64_t jobs_stalled = 0;
  std::map<std::string, std::int64_t> resizes_by_reason;
  std::map<std::string, std::int64_t> ended_by_phase;
  std::int64_t rounds = 0;
  std::int64_t invalid_plans = 0;
  std::int64_t stale_plans = 0;   // dropped, because what they were made for had changed
  std::int64_t stale_grants = 0;  // jobs left out of a plan, because they had changed
  std::int64_t late_decisions = 0;
  std::vector<double> decision_s;         // from the question to its end; at most the last 1,000
  std::vector<double> round_algorithm_s;  // since startup, at most the last 1,000
  std::vector<double> round_solver_s;
  std::vector<double> round_total_s;
  std::vector<double> stall_s;  // of surviving workers, per view change; at most the last 1,000
  std::vector<double> queue_wait_s;  // from submission to first grant; at most the last 1,000
  std::vector<double> reach_s;       // from a decision to the new worker's first step
  std::int64_t turns = 0;            // of the live loop
  std::vector<double> turn_s;  // turns of the live loop, without waiting; at most the last 1,000
  double longest_turn_s = 0;   // since startup
  // Processor time of the loop's thread in one turn: without waiting for a disk or a processor.
  double longest_turn_cpu_s = 0;
  int devices = 0;
  int reserved = 0;
  int allocated = 0;    // granted
  int held = 0;         // occupied by processes
  double utilised = 0;  // held by workers that are training, neither starting nor leaving
  std::int64_t events = 0;
  bool store_writable = true;
  // Tenants that exist or ever held devices; those that held some first come first.
  std::vector<std::pair<std::string, TenantMetrics>> tenants;
  // Submissions since startup, by tenant and reason.
  std::map<std::pair<std::string, std::string>, std::int64_t> refused;
};

class Controller {
 public:
  // Opens the store, adopts running jobs and starts the loop. No job keeps it from starting: one
  // that does not fit this machine waits (machine_fit.h), and a folder that does not belong to a
  // job of the log is set aside (job_owner.h).
  static Result<std::unique_ptr<Controller>> start(const ControllerOptions& options);
  // The same with jobs that run elsewhere: on the nodes of this executor, not on options.machine.
  static Result<std::unique_ptr<Controller>> start(const ControllerOptions& options,
                                                   std::unique_ptr<JobExecutor> executor);
  virtual ~Controller() = default;  // ends the loop; jobs keep running

  // --- Commands: durable when they return ---
  // While the store cannot be written (the disk is full), they fail with kIo and change
  // nothing; nothing is decided either, and jobs continue as they are. It ends by itself.
  // A submission repeated with the same non-empty `key` returns the job of the first one. A
  // document with an array becomes as many jobs, all or none: the first is returned, and the others
  // have the numbers after it.
  virtual Result<JobRecord> submit(const Caller& caller, JobDocument document,
                                   const std::string& key) = 0;
  virtual Status cancel(const Caller& caller, JobNumber job) = 0;
  // Cancels all active jobs of the caller like that at once, and returns them.
  virtual Result<std::vector<JobNumber>> cancel_all(const Caller& caller,
                                                    const JobFilter& filter) = 0;
  // Removes a job that has ended, with its folder, which may take a moment longer. Its number is
  // never used again.
  virtual Status remove(const Caller& caller, JobNumber job) = 0;
  virtual Status pause(const Caller& caller, JobNumber job) = 0;
  virtual Status resume(const Caller& caller, JobNumber job) = 0;
  // From now on the job gets exactly this many devices, if the machine has them. 0: the policy
  // decides again.
  virtual Status scale(const Caller& caller, JobNumber job, int devices) = 0;
  // Changes fields of a job that has not ended; see with_changes() (job_document.h).
  virtual Status change(const Caller& caller, JobNumber job, const nlohmann::json& fields) = 0;
  // What is known of devices that are on their way, in a few words, for the next seconds.
  virtual Status note_supply(const Caller& caller, const std::string& text, double seconds) = 0;
  virtual Status use_policy(const Caller& caller, const std::string& name,
                            const std::map<std::string, std::string, std::less<>>& settings) = 0;
  virtual Result<Reservation> reserve(const Caller& caller, int devices, double seconds) = 0;
  virtual Status release(const Caller& caller, std::int64_t reservation) = 0;
  // Creates or changes a tenant. A new tenant gets a token; an existing one keeps its token unless
  // `new_token` is set.
  virtual Result<ChangedTenant> set_tenant(const Caller& caller, const std::string& name,
                                           const TenantChange& change) = 0;
  // Deletes a tenant and its token. Refused while it has jobs that have not ended, unless
  // `cancel_jobs` is set. Its ended jobs stay in the log.
  virtual Status remove_tenant(const Caller& caller, const std::string& name, bool cancel_jobs) = 0;

  // Files for jobs that are about to be submitted.
  virtual Uploads& uploads() = 0;

  // --- Reads: from any thread ---
  // Why the store cannot be written now; empty if it can.
  virtual std::string store_problem() const = 0;
  // A copy of the store as a file that has no name any more, for a daemon that stands by.
  virtual Result<elastic::Descriptor> store_copy() const = 0;
  // The owner of a token, if the token is valid. Takes the same time for every token.
  virtual std::optional<Caller> authenticate(std::string_view token) const = 0;
  // Changes when the tenant's token does (or the tenant is deleted, or its token expires). Whoever
  // was let in under another value must prove again who it is.
  virtual std::string token_version(const Caller& caller) const = 0;
  // A text that stands for the caller for so many seconds (session.h), and back. A session ends
  // early when its caller's token does.
  virtual std::string make_session(const Caller& caller, double lasts_s) const = 0;
  virtual std::optional<Caller> session_caller(std::string_view session) const = 0;
  // The caller behind a process on this machine: an administrator for root and the daemon's own
  // user, else the tenant with that user.
  virtual std::optional<Caller> local_caller(uid_t uid) const = 0;
  virtual Result<JobRecord> job(const Caller& caller, JobNumber job) const = 0;
  // Finds a job by number ("12", "j12") or by name: the active job of that name, or the newest if
  // none is active. If several active jobs have the name, the error lists their ids. "12" is
  // refused if it is also the name of another active job; "j12" is always the number.
  virtual Result<JobNumber> find_job(const Caller& caller, std::string_view text) const = 0;
  // All jobs that are called so: as find_job, or those of an array (`sweep`, `sweep[]`, `j5[]`).
  virtual Result<std::vector<JobNumber>> find_all(const Caller& caller,
                                                  std::string_view text) const = 0;
  // The jobs that the caller may see. With `active`, only those that have not ended.
  virtual Result<std::vector<JobRecord>> list(const Caller& caller, JobQuery query, bool active,
                                              const JobFilter& filter = {}) const = 0;
  // At most `limit` jobs with numbers above `after`, in order of submission. With `active`, only
  // jobs that have not ended. None if they cannot be read.
  virtual std::vector<JobRecord> jobs(const Caller& caller, bool active, JobNumber after, int limit,
                                      const JobFilter& filter = {}) const = 0;
  // Why the job has the devices it has: code, text, numbers, blockers and remedy.
  virtual Result<nlohmann::json> why(const Caller& caller, JobNumber job) const = 0;
  // Measurements of the job's program, from this job and earlier ones: {"job": id, "points":
  // [{"devices": n, "batch": samples, "step_s": s, "samples_per_s": r}]}, fewest devices first.
  virtual Result<nlohmann::json> profile(const Caller& caller, JobNumber job) const = 0;
  // What would happen to this document if it were submitted now, computed by the real scheduler on
  // a snapshot.
  // {"placed": bool, "devices": n, "start_in_s": s, "eta_s": s, "changes": [{job, from, to,
  // reason}], "others": {"changed": n, "devices": +-n}, "reason": code}. "changes" lists jobs that
  // the caller may see. "others" summarizes the jobs of other tenants: how many would change, and
  // by how many devices in total. If "horizon_s" is not null, the time was up: the answer looks
  // that many seconds ahead, and what comes later is unknown. Ends early once `abandoned` is true.
  virtual Result<nlohmann::json> plan(const Caller& caller, const JobDocument& document,
                                      const std::function<bool()>& abandoned) const = 0;
  // What would happen from now on if this policy decided, as far as a simulation gets in 1.5 s:
  // {"policy": name, "resizes": n, "horizon_s": null or how far it looked, "jobs": [{job, name,
  // phase, start_in_s, finish_in_s, guessed}]}, with the jobs that the caller may see. Nothing
  // changes. Ends early once `abandoned` is true.
  virtual Result<nlohmann::json> forecast(
      const Caller& caller, const std::string& policy,
      const std::map<std::string, std::string, std::less<>>& settings,
      const std::function<bool()>& abandoned) const = 0;
  // When the job is expected to end, within which range, and the next change of its devices
  // (outlook.h): {"job", "at", "end_in_s", "earliest_s", "latest_s", "change", "text"}. Comes from
  // an outlook of some seconds ago that all callers share; waits 2 s at most if there is none.
  virtual Result<nlohmann::json> outlook(const Caller& caller, JobNumber job) const = 0;
  // Devices, the jobs that hold them, reservations, policy, utilisation.
  virtual nlohmann::json cluster(const Caller& caller) const = 0;
  // Everything `rubato sim --from-live` needs (control/snapshot.h reads it).
  virtual Result<nlohmann::json> snapshot(const Caller& caller) const = 0;
  virtual std::vector<Tenant> tenants(const Caller& caller) const = 0;
  virtual std::vector<Reservation> reservations() const = 0;
  virtual std::string policy_name() const = 0;
  virtual ControllerMetrics metrics() const = 0;
  // Device time of a period; a tenant gets its own only.
  virtual Result<UsageReport> usage(const Caller& caller, UsageQuery query) const = 0;
  // Events after number `after` that the caller may see. Waits up to `wait_s` for the first one.
  virtual Result<std::vector<Event>> events(const Caller& caller, std::int64_t after, JobNumber job,
                                            int limit, double wait_s) const = 0;
  // A search in the events that the caller may see; of the query, `tenant` is filled in.
  virtual Result<EventPage> find_events(const Caller& caller, EventQuery query) const = 0;
  virtual Result<std::vector<std::string>> log_files(const Caller& caller, JobNumber job) const = 0;
  // Where the files of the job are that its owner may fetch. It may not exist yet.
  virtual Result<ResultPlace> result_place(const Caller& caller, JobNumber job) const = 0;

  // --- What happened over time (series.h)
  virtual Result<Series> series(const SeriesQuery& query) const = 0;
  // The cluster now; it is looked at once a second.
  virtual ClusterSample newest_sample() const = 0;
  virtual Result<std::vector<JobPoint>> job_points(const Caller& caller, JobNumber job) const = 0;
  // A job that runs, as it is now; nothing if it holds no devices.
  virtual std::optional<JobPoint> newest_point(const Caller& caller, JobNumber job) const = 0;
  // Which devices were held by which job, and how many were reserved; 0: now. A tenant learns of
  // other tenants' jobs only how many devices they had.
  virtual Result<nlohmann::json> devices_at(const Caller& caller, double at) const = 0;

  // --- Nodes (control/cluster/)
  // All nodes with their state: "ready", "draining", "drained" or "lost"; and the caller's jobs.
  virtual nlohmann::json nodes(const Caller& caller) const = 0;
  // A node that is drained gets no jobs, and those that it has continue elsewhere; what has not
  // stopped after `within_s` (0: no limit) is killed. One that is removed is forgotten; it must
  // have no jobs, or be lost.
  virtual Status change_node(const Caller& caller, const std::string& name, NodeChange change,
                             double within_s) = 0;

  // --- For the agents of nodes: from any thread
  // What an agent says, and what it should do (node_sync.h). With the join token, it joins first.
  virtual Result<NodeOrders> sync_node(const Caller& caller, const NodeReport& report) = 0;
  // A call to the registry of a job that is on the caller's node (elastic/job/desk_registry.h).
  virtual nlohmann::json ask_registry(const Caller& caller, JobNumber job,
                                      const nlohmann::json& request) = 0;
  // The folder in which the daemon keeps what a job's nodes send of it. Only for nodes that have
  // the job now; it exists.
  virtual Result<std::string> job_copy(const Caller& caller, JobNumber job) const = 0;
  // A file of such a job's upload, by its SHA-256 (uploads.h).
  virtual Result<elastic::Descriptor> job_upload(const Caller& caller, JobNumber job,
                                                 const std::string& sha256) const = 0;
};

}  // namespace rubato::control
