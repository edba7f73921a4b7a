// The daemon's state, derived from its events. Only apply() changes a State. The daemon applies an
// event after it is durable, a replay of the log applies it again, and both produce the same State
// (equal to_json()).
//
// A job that has ended and holds no device is *at rest*: nothing happens to it any more. The daemon
// keeps only the others in memory; store.h says where jobs at rest are.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control/cluster/node_record.h"
#include "control/job_document.h"
#include "control/job_placement.h"

namespace rubato::control {

using JobNumber = std::int64_t;  // 1, 2, 3, ...; shown to people as "j12"

// "12" or "j12".
std::optional<JobNumber> parse_job_number(std::string_view text);
std::string job_name_of(JobNumber number);  // "j12"

struct Event {
  std::int64_t seq = 0;  // assigned by the store: 1, 2, 3, ... without gaps
  double at = 0;         // seconds since 1970
  std::string type;      // see control/event_types.h and docs/events.md
  JobNumber job = 0;     // 0: not about a job
  std::string tenant;    // of the job; empty: only administrators see it
  nlohmann::json body = nlohmann::json::object();
  // Who gave the command that it records ("admin", "tenant vision") and from where (an address).
  // Empty: nobody, the daemon decided. Only administrators see both.
  std::string by{};
  std::string from{};
  int version = 0;  // of the rules it was written under (control/event_versions.h); 0: today's
};
nlohmann::json to_json(const Event& event);

enum class Phase {
  kQueued,     // waiting for devices
  kRunning,    // was granted devices (its processes may still be starting)
  kPaused,     // by its owner
  kFinished,   // has a result
  kFailed,     // `message` says why
  kCancelled,  // by its owner, or because of a job that it waited for; then `message` says so
};
std::string_view to_string(Phase phase);
std::optional<Phase> parse_phase(std::string_view name);
inline bool ended(Phase phase) {
  return phase == Phase::kFinished || phase == Phase::kFailed || phase == Phase::kCancelled;
}

// Jobs that another one waits for, and how each must end (control/dependencies.h).
using WaitsFor = std::map<JobNumber, When>;

// The place of a job in the array that it was submitted with (control/arrays.h).
struct ArrayPlace {
  JobNumber first = 0;  // number of the array's first job; 0: it belongs to no array
  std::string name{};   // of the array
  int index = 0;
  int size = 0;
  int at_once = 0;  // 0: no limit
};

struct JobRecord {
  JobNumber number = 0;
  JobDocument document;
  std::string tenant;
  std::string key;  // idempotency key of the submission; empty: none
  // Identifies the submission for ever, also where another history used the same number. Empty for
  // jobs that were submitted before it existed.
  std::string uid;
  Phase phase = Phase::kQueued;
  double submitted_at = 0;
  double started_at = 0;  // first grant; 0: not yet
  double ended_at = 0;
  int granted = 0;            // devices that the scheduler grants it now
  JobPlacement nodes{};       // where these are
  std::int64_t batch = 0;     // granted total batch of an adaptive job; 0: its own choice
  int held = 0;               // devices that its processes occupy now
  JobPlacement held_nodes{};  // where these are
  std::string reason;         // code of the latest decision about it (sched/reasons.h)
  nlohmann::json facts = nlohmann::json::object();  // of that decision (sched/job_state.h)
  std::string message;                              // why it failed, for people
  int scale = 0;            // devices its owner asked for with `scale`; 0: the policy decides
  int max_useful = 0;       // more devices than this made it slower; 0: unknown
  int program_workers = 0;  // logical workers that its program asks for; 0: unknown
  int resizes = 0;
  int restarts = 0;          // how often its processes had to be restarted
  double device_s = 0;       // device-seconds held, up to held_at
  double held_at = 0;        // when `held` last changed
  double held_s = 0;         // seconds with at least one device, up to held_at
  double held_clock = 0;     // held_at by a clock that nobody sets (SteadyTime::steady); 0: unknown
  double stalled_since = 0;  // it runs without completing steps (job_health.h); 0: not stalled
  nlohmann::json progress = nlohmann::json::object();  // step, total_steps, epoch, epochs, loss
  nlohmann::json result = nlohmann::json::object();    // result.json of a finished job
  // What was wrong with its files, by kind: {"place", "message", "count"} (event `error`).
  nlohmann::json errors = nlohmann::json::object();
  WaitsFor waits_for{};  // empty: for no job
  ArrayPlace array{};
};
// Whether nothing can happen to the job any more, except that it is removed.
inline bool at_rest(const JobRecord& job) { return ended(job.phase) && job.held == 0; }
// Logical workers of a consistent or rigid job; 0: unknown so far, or the job is adaptive.
int logical_workers_of(const JobRecord& job);
// How many devices the job can use: its owner's range, cut to the number of logical workers once
// that is known.
struct DeviceRange {
  int low = 1;
  int high = 1;
};
DeviceRange device_range(const JobRecord& job);

// Device-seconds held until `now`.
double device_seconds(const JobRecord& job, double now);
// Seconds with at least one device until `now`; `time_limit` is about them. `clock` is the same
// moment by the clock that nobody sets, which counts if it is known for both ends; 0: unknown.
double held_seconds(const JobRecord& job, double now, double clock = 0);
// {"j3": "finished"}, and back; what is malformed is left out.
nlohmann::json waits_json(const WaitsFor& waits_for);
WaitsFor waits_from(const nlohmann::json& object);
// {"first": "j5", "name", "index", "size", "at_once"}, or null; and back.
nlohmann::json array_json(const ArrayPlace& array);
ArrayPlace array_from(const nlohmann::json& object);
// The job as the API shows it: everything, with its `id` ("j12"), name and device range.
nlohmann::json to_json(const JobRecord& job);
// job_from_json(to_json(job)) is the same job.
Result<JobRecord> job_from_json(const nlohmann::json& object);

struct Tenant {
  std::string name;
  double weight = 1;         // share of the devices relative to other tenants that want them
  int quota = 0;             // maximum number of devices; 0: no limit
  std::string token_sha256;  // hex; the token itself is not kept
  double token_expires = 0;  // seconds since 1970; 0: never
  int max_queued = 0;        // jobs that may wait at the same time; 0: no limit
  int max_streams = 0;       // open event and log streams; 0: the server's limit for a tenant
  std::string user{};        // unix user that runs its jobs; empty: none
};
nlohmann::json to_json(const Tenant& tenant);  // with token_sha256: not for the API

struct Reservation {
  std::int64_t number = 0;
  int devices = 0;
  double from = 0;
  double until = 0;
};
nlohmann::json to_json(const Reservation& reservation);

// How long a submission can be repeated with its idempotency key. The key may be used for another
// job afterwards.
inline constexpr double kKeyLasts = 7 * 86'400;
struct KeyUse {
  JobNumber job = 0;
  double at = 0;  // when the job was submitted
  bool operator==(const KeyUse&) const = default;
};

struct State {
  std::int64_t last_seq = 0;
  std::map<JobNumber, JobRecord> jobs;
  std::map<std::string, Tenant> tenants;
  std::map<std::int64_t, Reservation> reservations;
  std::map<std::string, NodeRecord> nodes;  // whose agents have joined, by name
  std::string policy = "rubato";
  std::map<std::string, std::string, std::less<>> policy_settings;
  // What is known of devices that are on their way, such as pilots that wait in Slurm; empty:
  // nothing.
  std::string supply;
  double supply_until = 0;  // seconds since 1970: then it does not hold any more
  // Learned step times by program (see profile_key) and number of devices.
  std::map<std::string, nlohmann::json> profiles;

  JobNumber next_job = 1;  // the number that the next submitted job must have
  std::int64_t next_reservation = 1;
  // The job of every idempotency key, by tenant and key.
  std::map<std::pair<std::string, std::string>, KeyUse> keys;
  // How many jobs have ended in each way, without those that were removed.
  std::map<Phase, std::int64_t> ended_jobs;
  // If the log no longer has its beginning: jobs with lower numbers that are not in `jobs` came to
  // rest before the first event of the log. What is told about them is accepted and forgotten.
  JobNumber folded_below = 1;

  // Refuses an event, without changing anything, if its number is not the next one, its type is
  // unknown (control/event_types.h) or its body is malformed. Also refuses events about an unknown
  // job, a job of another tenant, or a job that has ended (which can only give its devices back).
  Status apply(const Event& event);
};
nlohmann::json to_json(const State& state);

}  // namespace rubato::control
