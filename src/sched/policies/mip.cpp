// MIP allocator (Hu et al., "An optimal resource allocator of elastic training for deep learning
// jobs on cloud", 2021). The program itself is our reconstruction: mip_program.h.
//
// Assumes profiled step times. What a job has left is estimated from its declared epochs and
// observed progress (remaining_estimate.h), never taken from an oracle. Steps, at every decision:
//  1. Jobs are assigned to device types: running ones stay, others go where most room is.
//  2. Sizes are powers of two of devices or whole nodes within the job's range, plus 0. A running
//     job may double, halve, keep its size or stop.
//  3. For each type, the progress of all jobs over the next `periods` periods is maximised. A job's
//     progress counts as a share of what it has left, and early periods count more. Not having to
//     wait is worth `run_value` per period (with 0, short jobs push long ones back into the queue).
//     A change costs the share of work that is lost in `resize_cost` seconds. One period is a
//     knapsack, solved exactly. Several periods are a mixed-integer program, which CBC solves
//     starting from the current plan.
//  4. The first period is carried out. The policy decides again after a period, or when something
//     happens.
// If the solver hits its limit, its best plan is used; if it fails, the knapsack's plan is used.
// The plan's note says so. One period: O(jobs x
// capacity x sizes). Several: exponential in the worst case, cut off by `time_limit` and
// `node_limit`. Only the time limit can make results depend on the machine.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sched/gang.h"
#include "sched/policies/doubling.h"
#include "sched/policies/mip_program.h"
#include "sched/policies/policies.h"
#include "sched/policies/remaining_estimate.h"

namespace rubato {

namespace {

struct MipSettings {
  int periods = 1;
  Seconds period_s = 0;
  double decay = 1;  // w_t = decay^t
  Seconds resize_cost_s = 0;
  double run_value = 0;
  double prior = 0;
  bool preempt = true;
  MilpLimits limits;
  Doubling::Unit unit = Doubling::Unit::kDevice;
  PlacementRule placement = PlacementRule::kBestFit;
};

// Larger than what all jobs of a cluster can gain, small enough not to upset a solver.
constexpr double kNever = 1e4;

class Mip final : public Policy {
 public:
  explicit Mip(const MipSettings& settings) : settings_(settings), estimate_(settings.prior) {}

  Plan decide(const PolicyInput& input) override {
    speed_.forget(input.finished);
    for (const FinishedJob& job : input.finished) planned_.erase(job.id);
    estimate_.observe(input);
    Plan plan = empty_plan(input);
    plan.placement = settings_.placement;
    if (input.jobs.empty()) return plan;
    const Doubling doubling(input, settings_.unit);
    const std::vector<DeviceTypeId> types = doubling.assign_types();
    for (std::size_t type = 0; type < input.cluster.type_count(); ++type) {
      decide_type(input, doubling, types, DeviceTypeId(type), plan);
    }
    planned_at_s_ = input.now_s;
    plan.wake_at_s = input.now_s + settings_.period_s;
    return plan;
  }

 private:
  void decide_type(const PolicyInput& input, const Doubling& doubling,
                   const std::vector<DeviceTypeId>& types, DeviceTypeId type, Plan& plan) {
    MipProgram program;
    program.capacity = doubling.capacity(type);
    for (int t = 0; t < settings_.periods; ++t) {
      program.weights.push_back(std::pow(settings_.decay, t));
    }
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] != type) continue;
      members.push_back(i);
      program.jobs.push_back(make_job(*input.jobs[i], doubling, type, input));
    }
    if (members.empty()) return;
    MilpLimits limits = settings_.limits;
    limits.seconds = input.time_for_solver(limits.seconds);
    MipSolution solution = solve_mip(program, limits);
    plan.solver_s += solution.solver_s;
    if (!solution.note.empty()) plan.note = solution.note;
    for (std::size_t j = 0; j < members.size(); ++j) {
      const JobSpec& spec = input.jobs[members[j]]->spec;
      Grant& grant = plan.grants[members[j]];
      const int size = solution.sizes[j].front();
      planned_[spec.id] = std::move(solution.sizes[j]);
      if (size > 0) {
        grant.devices[type] = doubling.devices(spec, type, size);
        grant.batch = spec.requested_batch;
      } else if (program.jobs[j].options.front().size <= program.capacity) {
        grant.waiting = Reason::kNotWorthwhile;
      }
    }
  }

  MipJob make_job(const JobState& state, const Doubling& doubling, DeviceTypeId type,
                  const PolicyInput& input) {
    MipJob job;
    job.current = doubling.current(state);
    job.run_value = settings_.run_value;
    const Seconds left_s = estimate_.one_device_s(state, type, input, speed_);
    const auto progress = [&](int devices) {
      return settings_.period_s * speed_.speed(state, type, devices, input.cluster) / left_s;
    };
    for (const int size : doubling.sizes(state.spec, type)) {
      job.options.push_back({size, progress(doubling.devices(state.spec, type, size))});
    }
    const Seconds pause_s = state.spec.resize_cost_s.value_or(settings_.resize_cost_s);
    const double now =
        state.running() ? progress(state.allocation.devices()) : job.options.front().progress;
    job.switch_cost = std::min(1.0, now * pause_s / settings_.period_s);
    job.stop_cost = settings_.preempt ? job.switch_cost : kNever;
    job.planned = planned(state.spec.id, input.now_s);
    return job;
  }

  // The last plan, from now on. Its last period is continued.
  std::vector<int> planned(JobId id, Seconds now_s) const {
    const auto known = planned_.find(id);
    if (known == planned_.end()) return {};
    const std::vector<int>& sizes = known->second;
    const double passed = (now_s - planned_at_s_) / settings_.period_s;
    std::vector<int> from_now;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const auto then = static_cast<double>(t) + std::floor(passed + 1e-9);
      from_now.push_back(
          sizes[static_cast<std::size_t>(std::min(then, static_cast<double>(sizes.size() - 1)))]);
    }
    return from_now;
  }

  MipSettings settings_;
  RemainingEstimate estimate_;
  RequestedBatchSpeed speed_;
  std::unordered_map<JobId, std::vector<int>> planned_;
  Seconds planned_at_s_ = 0;
};

}  // namespace

PolicyInfo mip_policy() {
  return {
      .name = "mip",
      .summary =
          "maximises the progress of all jobs over the next periods by mixed-integer program",
      .source = "Hu et al. (ModelArts), 2021",
      .needs = {Knowledge::kProfiledSpeed},
      .params = {{.name = "periods",
                  .default_value = std::int64_t{4},
                  .low = 1,
                  .high = 48,
                  .help =
                      "number of periods to plan ahead; 1: an exact knapsack instead of a program"},
                 {.name = "period",
                  .default_value = 300.0,
                  .low = 1,
                  .high = 86'400,
                  .help = "length of a period in seconds; the policy decides again after each"},
                 {.name = "decay",
                  .default_value = 0.9,
                  .low = 0.01,
                  .high = 1,
                  .help = "weight of a period relative to the one before it"},
                 {.name = "resize_cost",
                  .default_value = 30.0,
                  .low = 0,
                  .high = 86'400,
                  .help = "expected cost of a change in seconds, for jobs that do not state it"},
                 {.name = "preempt",
                  .default_value = true,
                  .help = "whether running jobs may be stopped for others"},
                 {.name = "run_value",
                  .default_value = 0.2,
                  .low = 0,
                  .high = 1'000,
                  .help = "what not waiting for one period is worth to a job, as a share of "
                          "the job"},
                 {.name = "prior",
                  .default_value = 3'600.0,
                  .low = 1,
                  .high = 1e9,
                  .help = "device-seconds that a job is expected to need while nothing is "
                          "known about such jobs"},
                 {.name = "time_limit",
                  .default_value = 2.0,
                  .low = 0,
                  .high = 3'600,
                  .help = "time limit of the solver in seconds; then its best plan is used"},
                 {.name = "node_limit",
                  .default_value = std::int64_t{2'000},
                  .low = 0,
                  .high = 1e9,
                  .help =
                      "limit on nodes of the search tree; unlike time, the same on any machine"},
                 {.name = "gap",
                  .default_value = 1e-3,
                  .low = 0,
                  .high = 1,
                  .help = "relative gap at which the solver stops"},
                 unit_param(),
                 placement_param(PlacementRule::kBestFit)},
      .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
        return std::make_unique<Mip>(
            MipSettings{.periods = static_cast<int>(params.integer("periods")),
                        .period_s = params.number("period"),
                        .decay = params.number("decay"),
                        .resize_cost_s = params.number("resize_cost"),
                        .run_value = params.number("run_value"),
                        .prior = params.number("prior"),
                        .preempt = params.flag("preempt"),
                        .limits = {.seconds = params.number("time_limit"),
                                   .nodes = params.integer("node_limit"),
                                   .gap = params.number("gap")},
                        .unit = unit_of(params),
                        .placement = placement_rule(params)});
      }};
}

}  // namespace rubato
