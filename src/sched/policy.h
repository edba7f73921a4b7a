// The policy contract: one decision method. Its input is everything a policy may look at, its
// result everything the policy decides. No clocks, no I/O, no globals. A policy may remember things
// between decisions. It is deterministic for a given seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "sched/decision_limit.h"
#include "sched/job_state.h"

namespace rubato {

// A job that ended since the last decision, for policies that learn from history. It contains only
// what an observer of the job would know.
struct FinishedJob {
  JobId id;
  double attained_service = 0;  // device-seconds
  Seconds executed_s = 0;       // seconds with devices
  std::string application{};    // empty: unknown
  double epochs = 0;            // epochs trained; 0 for jobs that do not count epochs
  double samples = 0;           // training samples processed
};

struct PolicyInput {
  Seconds now_s = 0;
  const Cluster& cluster;
  // Devices that may be used now (not down, not reserved for serving): per node, by NodeId, and
  // their sum per type.
  std::span<const int> usable;
  const DeviceCounts& usable_by_type;
  // Active jobs in order of arrival.
  std::span<const JobState* const> jobs;
  std::span<const FinishedJob> finished;
  // True if this input is only one tenant's part of a decision: its jobs and the devices it may
  // use. The parts are combined afterwards, so jobs may end up with other devices than this
  // decision says.
  bool tenants = false;
  // Other active jobs, which are pinned: their devices are not in `usable`.
  std::span<const JobState* const> pinned{};
  // When the decision has to end; null: it may take as long as it needs.
  const DecisionLimit* limit = nullptr;

  bool out_of_time() const { return limit != nullptr && limit->reached(); }
  // How long a solver may take that is allowed `most_s`.
  Seconds time_for_solver(Seconds most_s) const {
    return limit == nullptr ? most_s : std::min(most_s, limit->left_s());
  }
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Plan decide(const PolicyInput& input) = 0;
};

// --- Registration
// -------------------------------------------------------------------------------------------------

using ParamValue = std::variant<bool, std::int64_t, double, std::string>;

// One parameter. Its type is the type of its default. Numbers have a range, strings a list of
// choices.
struct ParamSpec {
  std::string name;
  ParamValue default_value;
  double low = 0;
  double high = 0;
  std::vector<std::string> choices{};
  std::string help{};
};

class Params {
 public:
  explicit Params(std::map<std::string, ParamValue, std::less<>> values)
      : values_(std::move(values)) {}
  bool flag(std::string_view name) const { return std::get<bool>(get(name)); }
  std::int64_t integer(std::string_view name) const { return std::get<std::int64_t>(get(name)); }
  double number(std::string_view name) const { return std::get<double>(get(name)); }
  const std::string& choice(std::string_view name) const {
    return std::get<std::string>(get(name));
  }

 private:
  const ParamValue& get(std::string_view name) const;
  std::map<std::string, ParamValue, std::less<>> values_;
};

// What a policy needs to know in addition to the job specs.
enum class Knowledge {
  kNothing,        // only what the owner wrote and what was observed
  kProfiledSpeed,  // step times at every size, measured in advance
  kRemainingWork,  // how much work is left: an oracle in the simulator
};

struct PolicyInfo {
  std::string name;
  std::string summary;  // one line
  std::string source;   // where it was published
  std::vector<Knowledge> needs;
  std::vector<ParamSpec> params;
  std::unique_ptr<Policy> (*make)(const Params& params, Random random) = nullptr;
  // The policy decides whenever something happens (a job arrives or ends, a node changes) and when
  // it asked to be woken. Other policies were published with a fixed interval; comparisons use that
  // interval.
  bool at_events = false;

  bool needs_knowledge(Knowledge knowledge) const;
};

// All policies, in the order used by help and docs.
const std::vector<PolicyInfo>& policy_table();

// "name=value" settings by parameter name, checked against the table.
using Settings = std::map<std::string, std::string, std::less<>>;

Result<const PolicyInfo*> find_policy(std::string_view name);
// The policy for jobs of any priorities (sched/tiered_policy.h): what `info` makes sees jobs of one
// priority only.
Result<std::unique_ptr<Policy>> make_policy(const PolicyInfo& info, const Settings& settings,
                                            std::uint64_t seed);
std::string to_string(const ParamValue& value);
// "1 to 100", "true or false", "a, b or c".
std::string allowed_values(const ParamSpec& spec);
std::string_view to_string(Knowledge knowledge);

}  // namespace rubato
