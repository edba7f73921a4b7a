// Sia (SOSP'23): goodput-optimal configurations on several device types, by integer program.
//
// Assumes that a job can be profiled on one device of each type when it arrives. Everything else is
// learned from the jobs' reports (sia_goodput.h says how goodput is estimated on types where a job
// has not run). Steps, at every decision:
//  1. A configuration of a job is (type, nodes, devices): powers of two within a node, whole nodes
//     beyond, in the job's range, at most twice the devices it has been seen on, and only its
//     smallest size before the first report. Its minimum and its current allocation are always
//     configurations, whatever their size.
//  2. The utility u is the goodput of a configuration / the least goodput over all configurations
//     of the job. For configurations other than the current one, it is multiplied by
//     r = max(age - restarts x S, 0) / (age + S), where S is what a change costs the job. A job
//     that waits, or that is younger than S, pays nothing.
//  3. sum u^p x + penalty (jobs - sum x) is minimised exactly, where x = 1 for at most one
//     configuration of each job and the devices of each type are capacities (sia_program.h).
//     p = -0.5, penalty = 1.1. A job that is pausing after its last change keeps what it has. Of
//     equal plans, the one with fewer changes wins.
//  4. Jobs are consolidated: powers of two within nodes, whole nodes for the others, moving small
//     jobs out of the way. Other sizes may split a job over nodes; the plan stays valid.
//  5. Adaptive jobs get the batch with the best goodput on their devices, by the same estimate.
// With one type: O(jobs x configurations x devices). With several: exponential in the worst case,
// cut off by `node_limit`. Then the best plan found is used, and the plan's note says so. Does not
// depend on the clock.
#include <algorithm>
#include <cmath>

#include "sched/consolidate.h"
#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/policies/sia_goodput.h"
#include "sched/policies/sia_program.h"

namespace rubato {

namespace {

constexpr double kTieBreak = 1e-5;  // value of keeping the current configuration

struct SiaSettings {
  double p = -0.5;
  double penalty = 1.1;
  Seconds interval_s = 60;
  bool profile = true;
  MilpLimits limits;
};

// A configuration and its goodput.
struct Configuration {
  DeviceTypeId type;
  int devices = 0;
  double goodput = 0;
  bool now = false;  // the job's current configuration
};

class Sia final : public Policy {
 public:
  explicit Sia(const SiaSettings& settings) : settings_(settings), goodput_(settings.profile) {}

  Plan decide(const PolicyInput& input) override {
    goodput_.observe(input);
    Plan plan = empty_plan(input);
    if (input.jobs.empty()) return plan;
    plan.wake_at_s = input.now_s + settings_.interval_s;
    SiaProgram program{.capacity = input.usable_by_type, .jobs = {}, .current = {}};
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      if (pausing(job, input.now_s)) {
        hold(job, input, program, plan.grants[i]);
      } else {
        add_job(job, input, program);
      }
    }
    MilpLimits limits = settings_.limits;
    limits.seconds = input.time_for_solver(limits.seconds);
    const SiaSolution solution = solve_sia(program, limits);
    plan.solver_s = solution.solver_s;
    plan.note = solution.note;
    for (std::size_t i = 0; i < plan.grants.size(); ++i) {
      Grant& grant = plan.grants[i];
      if (!program.jobs[i].empty()) grant.waiting = Reason::kNotWorthwhile;
      if (solution.choice[i] < 0) continue;
      const SiaOption& option = program.jobs[i][static_cast<std::size_t>(solution.choice[i])];
      grant.devices[option.type] = option.devices;
      grant.batch = goodput_.batch(*input.jobs[i], option.type,
                                   nodes_of(option.type, option.devices, input), option.devices);
    }
    consolidate(plan, input);
    return plan;
  }

 private:
  static bool pausing(const JobState& job, Seconds now_s) {
    return job.running() && now_s - job.resized_at_s < job.resize_cost_s;
  }

  static int nodes_of(DeviceTypeId type, int devices, const PolicyInput& input) {
    const int node = input.cluster.node_size(type);
    return (devices + node - 1) / node;
  }

  // A job that is pausing after its last change keeps its devices; they are not available to
  // others.
  static void hold(const JobState& job, const PolicyInput& input, SiaProgram& program,
                   Grant& grant) {
    grant.devices = job.allocation.counts(input.cluster);
    grant.batch = job.allocation.batch;
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
      program.capacity.of[type] -= grant.devices.of[type];
    }
    program.jobs.emplace_back();
    program.current.push_back(-1);
  }

  void add_job(const JobState& job, const PolicyInput& input, SiaProgram& program) const {
    std::vector<SiaOption>& options = program.jobs.emplace_back();
    program.current.push_back(-1);
    const std::vector<Configuration> configurations = list(job, input);
    double least = 0;
    for (const Configuration& c : configurations) {
      if (c.goodput > 0 && (least == 0 || c.goodput < least)) least = c.goodput;
    }
    const double factor = restart_factor(job, input.now_s);
    for (const Configuration& c : configurations) {
      // If the model considers every size useless, running is still better than never running.
      double u = least > 0 ? c.goodput / least : 1.0;
      if (!c.now) u *= factor;
      double value = u > 0 ? settings_.penalty - std::pow(u, settings_.p) : 0.0;
      if (c.now && value > 0) value += kTieBreak;
      if (!(value > 0)) continue;
      if (c.now) program.current.back() = static_cast<int>(options.size());
      options.push_back({.type = c.type, .devices = c.devices, .value = value});
    }
  }

  static double restart_factor(const JobState& job, Seconds now_s) {
    const Seconds age = now_s - job.spec.submit_s;
    const Seconds cost = job.resize_cost_s;
    if (!job.running() || age < cost || cost <= 0) return 1;
    const int restarts = std::max(0, job.starts + job.resizes - 1);
    return std::max(age - restarts * cost, 0.0) / (age + cost);
  }

  std::vector<Configuration> list(const JobState& job, const PolicyInput& input) const {
    const JobSpec& spec = job.spec;
    const bool rigid = spec.mode == ElasticMode::kRigid;
    const int least = rigid ? spec.requested_devices : spec.min_devices;
    int most = rigid ? spec.requested_devices : spec.max_devices;
    if (job.learned != nullptr) {
      most = std::min(most, std::max(least, 2 * job.learned->max_profiled_devices()));
    }
    DeviceTypeId type_now;
    if (job.running()) type_now = job.allocation.counts(input.cluster).single_type();
    const int devices_now = job.allocation.devices();
    std::vector<Configuration> found;
    for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
      const DeviceTypeId type(i);
      if (!spec.allows(type)) continue;
      const int usable = input.usable_by_type[type];
      const int node = std::max(1, input.cluster.node_size(type));
      const auto add = [&](int devices) {
        found.push_back(
            {.type = type,
             .devices = devices,
             .goodput = goodput_.goodput(job, type, nodes_of(type, devices, input), devices),
             .now = type == type_now && devices == devices_now});
      };
      bool listed_now = type != type_now;
      const auto list_size = [&](int devices) {
        if (devices > usable) return;
        listed_now = listed_now || devices == devices_now;
        add(devices);
      };
      list_size(least);
      for (int k = 1; k <= std::min(most, usable);
           k = k < node ? std::min(2 * k, node) : k + node) {
        if (k > least) list_size(k);
      }
      if (!listed_now && devices_now >= least && devices_now <= spec.max_devices) {
        list_size(devices_now);
      }
    }
    return found;
  }

  SiaSettings settings_;
  SiaGoodput goodput_;
};

}  // namespace

PolicyInfo sia_policy() {
  return {.name = "sia",
          .summary = "goodput-optimal devices on several types, by integer program",
          .source = "Sia, SOSP'23",
          .needs = {Knowledge::kProfiledSpeed},
          .params = {{.name = "p",
                      .default_value = -0.5,
                      .low = -10,
                      .high = -0.01,
                      .help = "exponent of a job's normalised goodput; lower is fairer"},
                     {.name = "penalty",
                      .default_value = 1.1,
                      .low = 1.001,
                      .high = 1'000,
                      .help = "cost of a waiting job; a running job costs at most 1"},
                     {.name = "interval",
                      .default_value = 60.0,
                      .low = 1,
                      .high = 86'400,
                      .help = "seconds until the next decision if nothing happens"},
                     {.name = "profile",
                      .default_value = true,
                      .help = "whether jobs are profiled on one device of each type in advance"},
                     {.name = "node_limit",
                      .default_value = std::int64_t{2'000},
                      .low = 0,
                      .high = 1e9,
                      .help = "limit on nodes of the search tree with several types; then the best "
                              "plan found is used"}},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<Sia>(SiaSettings{
                .p = params.number("p"),
                .penalty = params.number("penalty"),
                .interval_s = params.number("interval"),
                .profile = params.flag("profile"),
                .limits = {.seconds = 3'600, .nodes = params.integer("node_limit"), .gap = 0}});
          }};
}

}  // namespace rubato
