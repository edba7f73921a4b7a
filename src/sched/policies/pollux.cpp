// Pollux (OSDI'21): co-adaptive goodput optimisation by genetic search.
//
// Assumes nothing in advance. Step times and gradient noise are learned from the jobs' reports. An
// unknown job is assumed to scale perfectly, and no job may use more than twice the devices it has
// been seen on. Steps, at every decision:
//  1. The speedup of each job on (nodes, devices) is goodput(there) / goodput(fair share), where
//     the fair share is ceil(devices / jobs) devices.
//  2. A genetic search (population 100, 100 generations, warm-started from the last decision)
//     maximises the power mean (p = -1) of speedup x r, where
//     r = max(age - restarts x delay, 0) / (age + delay) for jobs whose devices change. A node
//     hosts at most one job that spans nodes. Jobs with less attained service win collisions.
//  3. Adaptive jobs choose their own batch on the devices they get.
// O(population x generations x devices) per decision.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/policies/pollux_search.h"

namespace rubato {

namespace {

class Pollux final : public Policy {
 public:
  Pollux(SearchOptions options, Seconds delay_s, Seconds interval_s, Random random)
      : options_(options), delay_s_(delay_s), interval_s_(interval_s), random_(random) {}

  Plan decide(const PolicyInput& input) override {
    Plan plan = empty_plan(input);
    if (input.jobs.empty()) return plan;
    const JobOrder order =
        by_key(input, [&](const JobState& job) { return job.attained_service(input.now_s); });
    const SearchProblem problem = make_problem(input, order);
    const std::vector<Genome> front =
        search(problem, options_, warm_start(input, order, problem), random_, input.limit);
    remember(input, order, front);
    for (std::size_t i = 0; i < order.size(); ++i) {
      Grant& grant = plan.grants[order[i]];
      const JobState& job = *input.jobs[order[i]];
      grant.nodes.emplace();
      grant.waiting = Reason::kNotWorthwhile;
      for (const GeneShare& share : front.front().row(i)) {
        const NodeId node(static_cast<std::size_t>(share.node));
        grant.nodes->push_back({node, static_cast<int>(share.devices)});
        grant.devices[input.cluster.node(node).type] += static_cast<int>(share.devices);
      }
      if (to_row(job.allocation) == to_vector(front.front().row(i))) {
        grant.nodes =
            job.allocation.shares;  // the same devices, in the order in which they were granted
      }
    }
    plan.wake_at_s = input.now_s + interval_s_;
    return plan;
  }

 private:
  static GeneRow to_vector(std::span<const GeneShare> row) { return {row.begin(), row.end()}; }

  static GeneRow to_row(const Allocation& allocation) {
    GeneRow row;
    for (const NodeShare& share : allocation.shares) {
      row.push_back({static_cast<std::uint32_t>(share.node.value),
                     static_cast<std::uint32_t>(share.devices)});
    }
    std::sort(row.begin(), row.end(),
              [](const GeneShare& a, const GeneShare& b) { return a.node < b.node; });
    return row;
  }

  SearchProblem make_problem(const PolicyInput& input, const JobOrder& order) const {
    SearchProblem problem;
    problem.node_devices.assign(input.usable.begin(), input.usable.end());
    for (const Node& node : input.cluster.nodes()) {
      problem.node_type.push_back(static_cast<std::uint32_t>(node.type.value));
    }
    const int devices = std::max(1, input.usable_by_type.total());
    const int fair =
        (devices + static_cast<int>(order.size()) - 1) / static_cast<int>(order.size());
    problem.speedup_scale =
        static_cast<double>(problem.node_devices.size()) / static_cast<double>(devices);
    for (const std::size_t i : order) problem.jobs.push_back(make_job(*input.jobs[i], fair, input));
    return problem;
  }

  SearchProblem::Job make_job(const JobState& job, int fair, const PolicyInput& input) const {
    const JobSpec& spec = job.spec;
    SearchProblem::Job gene;
    gene.allowed_types = spec.allowed_types;
    gene.current = to_row(job.allocation);
    const bool rigid = spec.mode == ElasticMode::kRigid;
    gene.min_devices = rigid ? spec.requested_devices : spec.min_devices;
    gene.max_devices = rigid ? spec.requested_devices : spec.max_devices;
    if (job.learned != nullptr && !rigid) {
      const int explored = std::max(1, 2 * job.learned->max_profiled_devices());
      gene.max_devices = std::clamp(explored, gene.min_devices, gene.max_devices);
    }
    const int restarts = std::max(0, job.starts + job.resizes - 1);
    const Seconds age = input.now_s - spec.submit_s;
    gene.restart_factor = std::max(age - restarts * delay_s_, 0.0) / (age + delay_s_);
    gene.speedup = speedup_of(job, fair, input.cluster);
    return gene;
  }

  static std::function<double(std::size_t, bool, int)> speedup_of(const JobState& job, int fair,
                                                                  const Cluster& cluster) {
    if (job.learned != nullptr && !job.learned->empty()) {
      const LearnedModel* learned = job.learned;
      const BatchLimits& limits = learned->limits();
      const auto fed = static_cast<int>(std::max<std::int64_t>(1, limits.max / limits.min_local));
      DeviceTypeId reference;
      for (std::size_t type = cluster.type_count(); type-- > 0;) {
        if (job.spec.allows(DeviceTypeId(type))) reference = DeviceTypeId(type);
      }
      const double base = learned->best(reference, 1, std::min(fair, fed)).goodput;
      return [learned, base](std::size_t type, bool several, int devices) {
        const double goodput = learned->best(DeviceTypeId(type), several ? 2 : 1, devices).goodput;
        return base > 0 ? goodput / base : 0.0;
      };
    }
    if (job.learned == nullptr && job.profiled != nullptr) {
      // A job without batches: a recorded duration with its scaling law.
      const auto speed = [profiled = job.profiled](std::size_t type, int devices) {
        const auto packed = Placement::packed(DeviceTypeId(type), devices, devices);
        return 1.0 / profiled->step_time(packed, 0).step_s;
      };
      return [speed, base = speed(0, fair)](std::size_t type, bool, int devices) {
        return speed(type, devices) / base;
      };
    }
    return [fair](std::size_t, bool, int devices) { return static_cast<double>(devices) / fair; };
  }

  // The candidates of the last decision, reduced to the jobs that still exist. Otherwise the
  // current state.
  std::vector<std::vector<GeneRow>> warm_start(const PolicyInput& input, const JobOrder& order,
                                               const SearchProblem& problem) const {
    std::vector<std::vector<GeneRow>> start;
    for (const auto& candidate : remembered_) {
      std::vector<GeneRow> rows(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto known = candidate.find(input.jobs[order[i]]->spec.id);
        if (known != candidate.end()) rows[i] = known->second;
      }
      start.push_back(std::move(rows));
    }
    if (start.empty()) {
      start.emplace_back();
      for (const SearchProblem::Job& job : problem.jobs) start.back().push_back(job.current);
    }
    return start;
  }

  void remember(const PolicyInput& input, const JobOrder& order, const std::vector<Genome>& front) {
    remembered_.clear();
    for (const Genome& genome : front) {
      auto& candidate = remembered_.emplace_back();
      for (std::size_t i = 0; i < order.size(); ++i) {
        candidate.emplace(input.jobs[order[i]]->spec.id, to_vector(genome.row(i)));
      }
    }
  }

  SearchOptions options_;
  Seconds delay_s_;
  Seconds interval_s_;
  Random random_;
  std::vector<std::unordered_map<JobId, GeneRow>> remembered_;
};

}  // namespace

PolicyInfo pollux_policy() {
  return {.name = "pollux",
          .summary = "goodput-optimal devices and batches by genetic search",
          .source = "Pollux, OSDI'21",
          .needs = {Knowledge::kNothing},
          .params = {{.name = "population",
                      .default_value = std::int64_t{100},
                      .low = 2,
                      .high = 10'000,
                      .help = "number of candidates kept per generation"},
                     {.name = "generations",
                      .default_value = std::int64_t{100},
                      .low = 1,
                      .high = 100'000,
                      .help = "maximum number of generations per decision"},
                     {.name = "patience",
                      .default_value = std::int64_t{30},
                      .low = 1,
                      .high = 100'000,
                      .help = "stop after this many generations without improvement"},
                     {.name = "restart_delay",
                      .default_value = 30.0,
                      .low = 0,
                      .high = 86'400,
                      .help = "expected cost of a change in seconds"},
                     {.name = "interval",
                      .default_value = 60.0,
                      .low = 1,
                      .high = 86'400,
                      .help = "seconds until the next decision if nothing happens"}},
          .make = [](const Params& params, Random random) -> std::unique_ptr<Policy> {
            const SearchOptions options{
                .population = static_cast<int>(params.integer("population")),
                .generations = static_cast<int>(params.integer("generations")),
                .patience = static_cast<int>(params.integer("patience"))};
            return std::make_unique<Pollux>(options, params.number("restart_delay"),
                                            params.number("interval"), random);
          }};
}

}  // namespace rubato
