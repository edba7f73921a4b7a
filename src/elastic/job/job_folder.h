// The folder of a job: everything that the launcher, its workers and the command line share.
//
//   job.json       the job's settings (JobSettings), with the command that joins run (mode 0600)
//   secret         random bytes; a worker that holds them may join (mode 0600)
//   registry/      views and the target (elastic/job/registry.h), unless the settings name another
//                  place (elastic/job/registry_url.h)
//   events.jsonl   one line per view change and other events
//   hello          exists once the program has called the runtime
//   hopeless       why another try would fail like the last one; its job ends
//   tries.json     how often an ordinary program was started (elastic/job/try_record.h)
//   status.json    the launcher's process and state, worker processes and their devices
//   nodes/         status from the launchers of further nodes (elastic/job/node_status.h)
//   result.json    written when the job finishes
//   registry.sock  where the node's agent answers for the registry (elastic/job/desk_registry.h)
//   spread         exists once workers of other nodes took part, since the job came to this node
//   model.pt       the trained model, written just before (elastic/model/model_file.h)
//   tensors.json   where the model's tensors are in a checkpoint (elastic/model/model_export.h)
//   replay.json    written by 'rubato replay'
//   audit/         what workers found out (elastic/job/audit.h)
//   checkpoints/   elastic/job/checkpoint.h; a link if they are elsewhere
//                  (elastic/job/checkpoint_place.h)
//   logs/          output of the workers
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "elastic/data/batch_rule.h"
#include "elastic/job/program_kind.h"
#include "elastic/job/registry.h"
#include "elastic/job/view.h"

namespace rubato::elastic {

inline constexpr int kMostLogicalWorkers = 4096;

struct JobSettings {
  std::string name;
  std::string token;  // names the shared memory: "rubato.<token>."
  // 0: the program's own number (elastic/job/logical_workers.h). Adaptive job: the most it can
  // have.
  int logical_workers = 1;
  int max_workers = 1;
  int spares = 0;        // newcomers kept ready beyond the target
  std::string home;      // the node on which 'rubato run' started it
  std::string registry;  // its URL (elastic/job/registry_url.h); empty: in the job's folder
  bool encrypt = false;  // what workers send each other between nodes
  double failure_timeout_s = 2.0;
  double checkpoint_every_s = 30.0;         // 0: only at the end
  std::int64_t checkpoint_every_steps = 0;  // 0: by time
  int checkpoint_keep = 2;
  std::string checkpoints;         // the folder that they are in; empty: in the job's
  std::string ledger;              // empty: none
  std::string consistency = "d1";  // d1 | d2
  // Adaptive jobs: the batch and the number of logical workers depend on the view.
  bool adaptive = false;
  BatchRange batch_range;
  LrRule lr_rule = LrRule::kLinear;
  int first_workers = 1;  // initial workers; the learning rate is meant for their batch
  ProgramKind program = ProgramKind::kRuntime;
  int retries = 0;      // of an opaque job: further tries after a failed one
  double grace_s = 30;  // of a program that is not a worker: from SIGTERM to SIGKILL
  std::vector<std::string> command;
};

// What the owner wants. It is a record of the registry, so the newest wins and none is
// half-written.
struct Target {
  int workers = 1;         // on all nodes together
  std::int64_t batch = 0;  // over all `workers`; 0: the same per worker as at the start
  std::map<std::string, int> elsewhere;  // by node: how many of them run on nodes other than home
  std::vector<int> migrate;              // workers to be replaced
  bool stop = false;
  std::int64_t audits = 0;  // how often the owner asked for one (elastic/job/audit.h)
  double at = 0;            // time of the request, in seconds since 1970
  // One for each worker on the home node; a newcomer gets one that no living worker has. Empty:
  // workers are not tied to devices. Otherwise there are never more processes than devices.
  std::vector<std::string> devices{};

  // How many of the workers should be on a node; `home` is the node that started the job. Over all
  // nodes the sum is `workers`, also if `elsewhere` has more.
  int on_node(const std::string& node, const std::string& home) const;
  // A node that should have a worker: home, if possible.
  const std::string& first_node(const std::string& home) const;
};

nlohmann::json to_json(const JobSettings& settings);
// `where` is used in error messages.
Result<JobSettings> parse_settings(const nlohmann::json& settings, const std::string& where);

class JobFolder {
 public:
  explicit JobFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  std::string settings_file() const { return path_ + "/job.json"; }
  std::string secret_file() const { return path_ + "/secret"; }
  std::string registry_folder() const { return path_ + "/registry"; }
  std::string events_file() const { return path_ + "/events.jsonl"; }
  std::string status_file() const { return path_ + "/status.json"; }
  std::string hello_file() const { return path_ + "/hello"; }
  std::string hopeless_file() const { return path_ + "/hopeless"; }
  std::string result_file() const { return path_ + "/result.json"; }
  std::string model_file() const { return path_ + "/model.pt"; }
  std::string tensors_file() const { return path_ + "/tensors.json"; }
  std::string desk_socket() const { return path_ + "/registry.sock"; }
  std::string spread_file() const { return path_ + "/spread"; }
  std::string replay_file() const { return path_ + "/replay.json"; }
  std::string checkpoint_folder() const { return path_ + "/checkpoints"; }
  std::string log_file(int worker) const;
  std::string node_file(const std::string& node) const;  // see node_status.h

  Status write_settings(const JobSettings& settings) const;
  // Whether only this user can have written the settings, so that their command may be run.
  Status check_settings_are_own() const;
  Result<JobSettings> read_settings() const;
  Status make_secret() const;
  Result<std::string> read_secret() const;
  // A program calls this as soon as it uses the runtime. Costs nothing if it was called before.
  void say_hello() const;
  // Appends a line with a single write, so that lines of several writers never mix.
  Status append_event(const nlohmann::json& event) const;

 private:
  std::string path_;
};

inline constexpr const char* kViewRecord = "view";
inline constexpr const char* kTargetRecord = "target";
inline constexpr const char* kWorkerRecord = "worker";
// Of a job without a shared folder (desk_registry.h): what its result.json says.
inline constexpr const char* kResultRecord = "result";

// The newest view; number 0 before the first.
Result<View> newest_view(Registry& registry);
Result<Target> newest_target(Registry& registry, std::int64_t* version = nullptr);
// Applies `change` to the target; retries if another change interferes.
Status change_target(Registry& registry, const std::function<Status(Target&)>& change);

// An id that no worker of the job has had, on any node.
Result<int> next_worker_id(Registry& registry);

double unix_seconds();

}  // namespace rubato::elastic
