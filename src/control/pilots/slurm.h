// Slurm as a place for pilots, by its commands: sbatch, squeue, scancel. Only options that every
// version from 20.02 on has are used.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "control/doctor/machine_view.h"

namespace rubato::control {

// What the script of a pilot needs to know.
struct PilotScript {
  std::string rubatod;  // path of the program on the nodes
  std::string url;      // of the daemon, as the nodes reach it
  std::string token_file;
  std::string ca_file{};
  std::string name;      // of the pilots; a node is NAME-JOBID
  std::string folder{};  // on the node, for the agent's state; empty: $TMPDIR or /tmp
  int cpu_slots = 0;     // 0: the GPUs that Slurm gives it
};
// Its argument: the seconds after which the node leaves.
std::string pilot_script(const PilotScript& pilot);
std::string pilot_node(const std::string& name, const std::string& job);

// The words of sbatch before the script. `more`: options of the site, passed on as they are.
struct PilotRequest {
  std::string name;
  Seconds time = 0;      // its limit; Slurm counts whole minutes
  Seconds stays = 0;     // after this time its node leaves
  std::string output{};  // file for the pilot's output
  std::vector<std::string> more{};
};
std::vector<std::string> sbatch_words(const PilotRequest& request, const std::string& script);

// A job as squeue shows it.
struct SlurmJob {
  std::string id;
  std::string state;               // PENDING, RUNNING, COMPLETING, ...
  std::string reason;              // why it waits, in Slurm's words
  std::optional<Seconds> left{};   // to its time limit
  std::optional<Seconds> stays{};  // from now until its node leaves
  std::string starts{};            // when it is expected to start; empty: Slurm does not say
  bool waits() const { return state == "PENDING"; }
  bool runs() const { return state == "RUNNING"; }
};
Result<std::vector<SlurmJob>> parse_squeue(std::string_view text);
// "1-02:03:04", "03:04", "UNLIMITED", ...
std::optional<Seconds> parse_time_left(std::string_view text);
// As sbatch takes it, in whole minutes, rounded up: "90" for an hour and a half.
std::string slurm_minutes(Seconds time);

class Slurm {
 public:
  explicit Slurm(const doctor::MachineView& machine) : machine_(machine) {}

  // This user's jobs with the name that have not ended.
  Result<std::vector<SlurmJob>> jobs(const std::string& name) const;
  // Returns the id of the new job.
  Result<std::string> submit(const PilotRequest& request, const std::string& script) const;
  Status cancel(const std::string& job) const;
  // The pilot's node leaves, and then the job ends.
  Status tell_to_leave(const std::string& job) const;

 private:
  Result<std::string> call(const std::vector<std::string>& words) const;
  const doctor::MachineView& machine_;
};

}  // namespace rubato::control
