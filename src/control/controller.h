// The live loop: one thread owns the Scheduler, the Store's writing side and the LocalExecutor.
// Commands of any thread are queued to it and return when what they did is durable. Readers look at
// the State under a shared lock.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/job_health.h"
#include "control/local_executor.h"
#include "control/state.h"
#include "control/store.h"

namespace rubato::control {

struct ControllerOptions {
  std::string folder;      // the daemon's state folder
  std::string supervisor;  // see LocalExecutorOptions
  Machine machine;
  double round_every_s = 5;  // decide again at least this often while jobs are active
  StallRule stall{};
};

// Who asks. An administrator sees and touches everything, a tenant its own jobs only: other jobs do
// not exist for it (kNotFound).
struct Caller {
  std::string tenant;  // empty with admin: no tenant of its own ("default" for what it submits)
  bool admin = false;
};

// Time series and counters for /metrics; see api/metrics.cpp.
struct ControllerMetrics {
  std::map<std::string, std::int64_t> jobs_by_phase;
  std::int64_t jobs_stalled = 0;
  std::map<std::string, std::int64_t> resizes_by_reason;
  std::map<std::string, std::int64_t> ended_by_phase;
  std::int64_t rounds = 0;
  std::int64_t invalid_plans = 0;
  std::vector<double> round_algorithm_s;  // since the start, at most the last 1,000
  std::vector<double> round_solver_s;
  std::vector<double> round_total_s;
  std::vector<double> stall_s;       // of survivors, by view change; at most the last 1,000
  std::vector<double> queue_wait_s;  // from submit to first grant; at most the last 1,000
  std::vector<double> reach_s;       // from a decision to the new worker's first step
  int devices = 0;
  int reserved = 0;
  int allocated = 0;    // granted
  int held = 0;         // occupied by processes
  double utilised = 0;  // held by workers that train (not by ones that start or leave)
  std::int64_t events = 0;
};

class Controller {
 public:
  // Opens the store, adopts what runs, starts the loop.
  static Result<std::unique_ptr<Controller>> start(const ControllerOptions& options);
  virtual ~Controller() = default;  // ends the loop; jobs go on

  // --- Commands: durable when they return ---
  // `key` (may be empty) makes a repeated submission return the first one's job.
  virtual Result<JobRecord> submit(const Caller& caller, JobDocument document,
                                   const std::string& key) = 0;
  virtual Status cancel(const Caller& caller, JobNumber job) = 0;
  virtual Status pause(const Caller& caller, JobNumber job) = 0;
  virtual Status resume(const Caller& caller, JobNumber job) = 0;
  // Exactly this many devices from now on, if the machine has them; 0: the policy decides again.
  virtual Status scale(const Caller& caller, JobNumber job, int devices) = 0;
  // Changes fields of a job that has not ended; see with_changes() (job_document.h).
  virtual Status change(const Caller& caller, JobNumber job, const nlohmann::json& fields) = 0;
  virtual Status use_policy(const Caller& caller, const std::string& name,
                            const std::map<std::string, std::string, std::less<>>& settings) = 0;
  virtual Result<Reservation> reserve(const Caller& caller, int devices, double seconds) = 0;
  virtual Status release(const Caller& caller, std::int64_t reservation) = 0;
  // A new tenant gets a token, which is returned this once. An existing one keeps its token unless
  // `new_token`.
  virtual Result<std::string> set_tenant(const Caller& caller, const std::string& name,
                                         double weight, int quota, bool new_token) = 0;

  // --- Reads: from any thread ---
  // The tenant of a token, if there is one. Takes the same time for every token.
  virtual std::optional<Caller> authenticate(std::string_view token) const = 0;
  virtual Result<JobRecord> job(const Caller& caller, JobNumber job) const = 0;
  // By number ("12", "j12") or by name: the active job of that name, or the newest when none is
  // active. Refused with the candidates' ids when several active jobs have the name. "12" is
  // refused when it is also the name of another active job; "j12" is always the number.
  virtual Result<JobNumber> find_job(const Caller& caller, std::string_view text) const = 0;
  // Jobs in order of submission; `active`: only those that have not ended. At most `limit`, after
  // number `after`.
  virtual std::vector<JobRecord> jobs(const Caller& caller, bool active, JobNumber after,
                                      int limit) const = 0;
  // Code, sentence, numbers, blockers and remedy: why the job has what it has.
  virtual Result<nlohmann::json> why(const Caller& caller, JobNumber job) const = 0;
  // What was measured of the job's program, this job's and earlier ones': {"job": id, "points":
  // [{"devices": n, "batch": samples, "step_s": s, "samples_per_s": r}]}, fewest devices first.
  virtual Result<nlohmann::json> profile(const Caller& caller, JobNumber job) const = 0;
  // What would happen to this document if it were submitted now: the real scheduler on a snapshot.
  // {"placed": bool, "devices": n, "start_in_s": s, "eta_s": s, "changes": [{job, from, to,
  // reason}], "others": {"changed": n, "devices": +-n}, "reason": code}. "changes" are jobs that
  // the caller may see; of other tenants' only "others" is told: how many would change, and by how
  // many devices together.
  virtual Result<nlohmann::json> plan(const Caller& caller, const JobDocument& document) const = 0;
  // Devices, who holds them, reservations, policy, utilisation.
  virtual nlohmann::json cluster(const Caller& caller) const = 0;
  // Everything `rubato sim --from-live` needs (control/forecast.h reads it).
  virtual Result<nlohmann::json> snapshot(const Caller& caller) const = 0;
  virtual std::vector<Tenant> tenants(const Caller& caller) const = 0;
  virtual std::vector<Reservation> reservations() const = 0;
  virtual std::string policy_name() const = 0;
  virtual ControllerMetrics metrics() const = 0;
  // Events after `seq` that the caller may see; waits up to `wait_s` for one to come.
  virtual Result<std::vector<Event>> events(const Caller& caller, std::int64_t after, JobNumber job,
                                            int limit, double wait_s) const = 0;
  virtual Result<std::vector<std::string>> log_files(const Caller& caller, JobNumber job) const = 0;
};

}  // namespace rubato::control
