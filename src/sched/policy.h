// The policy contract: one decision method. Everything a policy may look at comes in, everything it
// decides goes out; no clocks, no I/O, no globals. It may remember things between decisions, and is
// deterministic for a seed.
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
#include "sched/job_state.h"

namespace rubato {

// A job that ended since the last decision, for policies that learn from history. Everything here
// was known to whoever watched it run.
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
  // Devices of each node that may be used now (not down, not taken for serving), by NodeId, and
  // their sum by type.
  std::span<const int> usable;
  const DeviceCounts& usable_by_type;
  // Active jobs in order of arrival.
  std::span<const JobState* const> jobs;
  std::span<const FinishedJob> finished;
  // One of several questions of which the answers are put together, about a tenant's jobs and the
  // devices that it may have: jobs may end up with other devices than the answer says.
  bool tenants = false;
  // Other active jobs, which are pinned: their devices are not in `usable`.
  std::span<const JobState* const> pinned{};
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Plan decide(const PolicyInput& input) = 0;
};

// --- Registration
// -------------------------------------------------------------------------------------------------

using ParamValue = std::variant<bool, std::int64_t, double, std::string>;

// One parameter: its type is the type of its default. Numbers have a range, strings a list of
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

// What a policy needs to know beyond the job specs.
enum class Knowledge {
  kNothing,        // only what its owner wrote and what was observed
  kProfiledSpeed,  // step times of every size, measured beforehand
  kRemainingWork,  // how much work is left: an oracle in the simulator
};

struct PolicyInfo {
  std::string name;
  std::string summary;  // one line
  std::string source;   // where it was published
  std::vector<Knowledge> needs;
  std::vector<ParamSpec> params;
  std::unique_ptr<Policy> (*make)(const Params& params, Random random) = nullptr;
  // It wants to decide whenever something happens (an arrival, an end, a changed node) and when it
  // asked to be woken. Other policies were published with an interval; comparisons keep to it.
  bool at_events = false;

  bool needs_knowledge(Knowledge knowledge) const;
};

// All policies, in the order in which help and docs list them.
const std::vector<PolicyInfo>& policy_table();

// "name=value" settings by parameter; checked against the table.
using Settings = std::map<std::string, std::string, std::less<>>;

Result<const PolicyInfo*> find_policy(std::string_view name);
Result<std::unique_ptr<Policy>> make_policy(const PolicyInfo& info, const Settings& settings,
                                            std::uint64_t seed);
std::string to_string(const ParamValue& value);
// "1 to 100", "true or false", "a, b or c".
std::string allowed_values(const ParamSpec& spec);
std::string_view to_string(Knowledge knowledge);

}  // namespace rubato
