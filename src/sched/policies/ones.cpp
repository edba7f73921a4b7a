// ONES (SC'21): elasticity through the batch size, by an evolutionary search that keeps its
// population between decisions.
//
// Assumes nothing in advance. Step times and gradient noise come from the jobs' reports, progress
// from their epochs. How long a job will run is learned from finished jobs. A job that never ran is
// expected to be like finished jobs of its application. (A job without batches is a recorded
// duration; its speed follows the law stated for it, as in pollux.) Steps, at every decision:
//  1. Progress: rho ~ Beta(alpha, beta) is drawn for each job (ones_progress.h). What remains is
//     done x (1/rho - 1) epochs. An epoch is worth as many samples as the job's epochs were so far.
//  2. Batch limit R of adaptive jobs: it starts as the largest batch of one device and doubles
//     after an epoch trained at the limit. It is halved when a job loses all its devices, and every
//     `long_run` executed seconds of a job that holds devices while others arrive and wait. It
//     never falls below its start. The owner's range applies as well. The learning rate follows the
//     batch linearly, which the job itself takes care of.
//  3. Costs: a job on c devices with `remaining` work and a throughput X needs T = remaining / X
//     more seconds, plus `pause` if its devices change or `restart` if it has none now. X counts
//     useful samples per second, with the best batch within R and the memory of its devices. (ONES
//     counts all samples and relies on R to keep them useful; here the gradient noise tells.) The
//     score to minimise depends on `score`:
//       utilization:  the sum of c x T. A waiting job is charged `waiting` times what it would cost
//                     at its smallest size, so that (at 1) running fewer jobs is never rewarded.
//                     This reconstructs ONES's "smallest remaining utilisation first". With X ~ c^p
//                     it grows as c^(1-p), which is concave: the optimum gives one short job after
//                     another all the devices it can take, however badly it uses them.
//       rate:         minus the sum of (1/T)^`exponent`, 0 for a waiting job (the default, ours).
//                     It also prefers short jobs, but is convex, so devices are spread: without
//                     limits, a job gets devices in proportion to remaining^(-e/(1-pe)).
//                     bench/paper_ones prints what each score gives.
//  4. The search (ones_search.h) minimises the sum. Its population is kept from decision to
//     decision. It can stop at any time, and it is limited by generations, not by time, so that a
//     seed gives one result. Devices stay idle only if using them would make the score worse
//     (score=rate) or no job faster (score=utilization).
// O(islands x population x generations x (devices + jobs)) per decision.
#include "sched/policies/ones.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "sched/gang.h"
#include "sched/policies/ones_progress.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

// The throughput of a configuration and the batch that achieves it.
struct Rate {
  double per_s = 0;  // useful samples per second; for jobs without batches, relative to one device
  std::int64_t batch = 0;
};

// More devices must make a job faster by at least this factor.
constexpr double kFasterBy = 1.005;
constexpr int kBatchesTried = 8;
constexpr Seconds kShortest = 1;         // no job is assumed to end sooner
constexpr double kUnknownService = 600;  // assumed device-seconds of a job while no job has
                                         // finished

class Ones final : public Policy {
 public:
  Ones(const OnesParams& params, Random random)
      : params_(params), random_(random.fork()), search_(params.search, random.fork()) {}

  Plan decide(const PolicyInput& input) override {
    Plan plan = empty_plan(input);
    learn(input.finished);
    bool arrivals = false;
    bool waiting = false;
    for (const JobState* job : input.jobs) {
      arrivals = arrivals || !memory_.contains(job->spec.id);
      waiting = waiting || !job->running();
    }
    OnesProblem problem = make_problem(input);
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      Memory& memory = memory_[input.jobs[i]->spec.id];
      observe(*input.jobs[i], memory, input, arrivals && waiting);
      problem.jobs.push_back(make_job(*input.jobs[i], memory, input));
    }
    if (input.jobs.empty()) return plan;
    if (params_.on_problem) params_.on_problem(problem);
    const OnesGenome& best = search_.run(problem, renumbering(input));
    write(best, problem, input, plan);
    return plan;
  }

 private:
  struct Memory {
    std::int64_t start_limit = 0;
    std::int64_t limit = 0;      // R; 0 if the policy does not choose the job's batch
    double at_limit_since = -1;  // epochs done when it began to train at the limit; -1: below the
                                 // limit
    Seconds shrunk_at_s = 0;     // executed seconds when the limit was last halved by `long_run`
    bool had_devices = false;
    double samples = 0;  // at the last decision
    double useful = 0;   // samples so far, weighted by the efficiency of their batch
    std::vector<ProgressFeatures> seen;  // states from which the regression learns when the job
                                         // finishes

    // Rates by type; index 2 x devices + (several nodes). Valid for the values below.
    std::array<std::vector<Rate>, kMaxDeviceTypes> rates;
    std::array<PerfParams, kMaxDeviceTypes> rates_params;
    GradientNoise rates_noise;
    std::int64_t rates_limit = -1;
    int rates_most = 0;
  };

  struct PastWork {
    double service = 0;  // device-seconds
    double epochs = 0;
  };

  // --- Learning

  void learn(std::span<const FinishedJob> finished) {
    for (const FinishedJob& job : finished) {
      const auto known = memory_.find(job.id);
      if (known == memory_.end()) continue;
      const double epochs = job.epochs > 0 ? job.epochs : job.attained_service / kServiceEpoch;
      for (const ProgressFeatures& then : known->second.seen) {
        model_.learn(then, epochs - then.epochs_done);
      }
      for (PastWork* past : {&past_[job.application], &all_past_}) {
        past->service += job.attained_service;
        past->epochs += epochs;
      }
      memory_.erase(known);
    }
  }

  static ProgressFeatures features(const JobState& job, Seconds now_s) {
    ProgressFeatures f;
    const double epochs = job.progress->epochs_done(now_s);
    f.epochs_done = job.learned != nullptr ? epochs : job.attained_service(now_s) / kServiceEpoch;
    f.epochs_declared = job.spec.epochs;
    f.samples_done = job.progress->samples_done(now_s);
    f.initial_batch = static_cast<double>(job.spec.batch.initial);
    if (job.learned != nullptr && job.learned->noise().squared_norm > 0) {
      f.noise_ratio = job.learned->noise().variance / job.learned->noise().squared_norm;
    }
    return f;
  }

  // Updates what is remembered about a job: useful samples, states to learn from, batch limit.
  void observe(const JobState& job, Memory& memory, const PolicyInput& input,
               bool others_arrive_and_wait) const {
    const ProgressFeatures now = features(job, input.now_s);
    if (memory.seen.empty() || now.epochs_done >= 1.5 * memory.seen.back().epochs_done + 0.1) {
      memory.seen.push_back(now);
    }
    if (job.learned == nullptr) return;
    const BatchLimits& limits = job.spec.batch;
    const std::int64_t batch =
        job.allocation.batch > 0 ? job.allocation.batch : job.spec.requested_batch;
    memory.useful += (now.samples_done - memory.samples) *
                     statistical_efficiency(job.learned->noise(), static_cast<double>(batch),
                                            static_cast<double>(limits.initial));
    memory.samples = now.samples_done;

    if (job.spec.mode != ElasticMode::kAdaptive) return;
    if (memory.limit == 0) {
      memory.start_limit =
          std::clamp(std::max(limits.max_local, limits.min_local * job.spec.min_devices),
                     limits.initial, limits.max);
      memory.limit = memory.start_limit;
    }
    const auto halve = [&] {
      memory.limit = std::max(memory.start_limit, memory.limit / 2);
      memory.at_limit_since = -1;
    };
    if (!job.running()) {
      if (memory.had_devices) halve();
      memory.had_devices = false;
      return;
    }
    memory.had_devices = true;
    if (memory.at_limit_since >= 0 && now.epochs_done - memory.at_limit_since >= 1) {
      memory.limit = std::min(2 * memory.limit, limits.max);
      memory.at_limit_since = -1;
    }
    const Seconds executed_s = job.executed_s(input.now_s);
    if (others_arrive_and_wait && executed_s - memory.shrunk_at_s >= params_.long_run_s) {
      memory.shrunk_at_s = executed_s;
      halve();
    }
  }

  // The job trains with this batch from now on.
  static void note_limit(Memory& memory, std::int64_t batch, double epochs_done) {
    if (memory.limit == 0 || batch < memory.limit) {
      memory.at_limit_since = -1;
    } else if (memory.at_limit_since < 0) {
      memory.at_limit_since = epochs_done;
    }
  }

  // --- The problem

  OnesProblem make_problem(const PolicyInput& input) const {
    OnesProblem problem;
    problem.may_idle = params_.by_rate;
    for (const Node& node : input.cluster.nodes()) {
      problem.node_devices.push_back(node.devices);
      problem.node_type.push_back(static_cast<std::uint32_t>(node.type.value));
    }
    problem.node_usable.assign(input.usable.begin(), input.usable.end());
    problem.types = static_cast<std::uint32_t>(input.cluster.type_count());
    return problem;
  }

  OnesProblem::Job make_job(const JobState& job, Memory& memory, const PolicyInput& input) {
    const JobSpec& spec = job.spec;
    OnesProblem::Job gene;
    const bool rigid = spec.mode == ElasticMode::kRigid;
    gene.min_devices = rigid ? spec.requested_devices : spec.min_devices;
    gene.max_devices = rigid ? spec.requested_devices : spec.max_devices;
    if (job.learned != nullptr && !rigid) {
      // At most twice the devices it has been seen on.
      const int explored = std::max(1, 2 * job.learned->max_profiled_devices());
      gene.max_devices = std::clamp(explored, gene.min_devices, gene.max_devices);
    }
    gene.current = shares_of(job.allocation);

    update_rates(job, gene, memory, input);
    const double work = draw_remaining(job, memory, input.now_s);
    gene.costs.resize(input.cluster.type_count());
    double smallest = kNeverCost;
    for (std::size_t t = 0; t < input.cluster.type_count(); ++t) {
      if (!spec.allows(DeviceTypeId(t)) || input.usable_by_type.of[t] < gene.min_devices) continue;
      fill_costs(memory.rates[t], work, job.running() ? params_.pause_s : params_.restart_s, gene,
                 input.cluster.node_size(DeviceTypeId(t)), gene.costs[t]);
      const auto least = static_cast<std::size_t>(gene.min_devices);
      smallest = std::min({smallest, gene.costs[t].one_node[least], gene.costs[t].several[least]});
    }
    if (job.running()) {
      const auto type = input.cluster.node(job.allocation.shares.front().node).type.index();
      const int devices = job.allocation.devices();
      const auto slot = 2 * static_cast<std::size_t>(std::min(devices, gene.max_devices)) +
                        (gene.current.size() > 1 ? 1 : 0);
      gene.unchanged = cost(devices, work, memory.rates[type][slot].per_s, 0);
    }
    if (params_.by_rate) {
      gene.waiting = 0;
    } else {
      gene.waiting = smallest < kNeverCost ? params_.waiting * smallest : 0;
      if (job.running()) gene.waiting += params_.restart_s * gene.min_devices;
    }
    return gene;
  }

  // The cost of a job with this much work left at this rate, starting after `delay_s`.
  double cost(int devices, double work, double per_s, Seconds delay_s) const {
    const Seconds left_s = work / per_s + delay_s;
    if (!params_.by_rate) return devices * left_s;
    return -std::pow(std::max(left_s, kShortest), -params_.exponent);
  }

  static std::vector<OnesProblem::Share> shares_of(const Allocation& allocation) {
    std::vector<OnesProblem::Share> shares;
    for (const NodeShare& share : allocation.shares) {
      shares.push_back({static_cast<std::uint32_t>(share.node.value), share.devices});
    }
    std::sort(shares.begin(), shares.end(),
              [](const auto& a, const auto& b) { return a.node < b.node; });
    return shares;
  }

  // Costs of the sizes that pay off: those that are faster than every smaller size.
  void fill_costs(const std::vector<Rate>& rates, double work, Seconds delay_s,
                  const OnesProblem::Job& gene, int node_size, OnesProblem::Costs& costs) const {
    const auto sizes = static_cast<std::size_t>(gene.max_devices) + 1;
    costs.one_node.assign(sizes, kNeverCost);
    costs.several.assign(sizes, kNeverCost);
    double fastest = 0;
    for (int devices = gene.min_devices; devices <= gene.max_devices; ++devices) {
      const auto c = static_cast<std::size_t>(devices);
      const bool fits = devices <= node_size;
      const double packed = rates[2 * c + (fits ? 0 : 1)].per_s;
      if (packed <= kFasterBy * fastest) continue;
      fastest = packed;
      if (fits) costs.one_node[c] = cost(devices, work, packed, delay_s);
      const double spread = rates[2 * c + 1].per_s;
      costs.several[c] = cost(devices, work, spread > 0 ? spread : packed, delay_s);
    }
  }

  // Remaining work, in the unit of the job's rates.
  double draw_remaining(const JobState& job, const Memory& memory, Seconds now_s) {
    const ProgressFeatures now = features(job, now_s);
    const ProgressBelief belief = believe(now, model_);
    const double epochs = belief.remaining(draw_beta(belief.alpha, belief.beta, random_));
    if (job.learned == nullptr) return epochs * kServiceEpoch;
    if (known(job) && memory.useful > 0 && now.epochs_done > 0) {
      return epochs * memory.useful / now.epochs_done;
    }
    // Estimated from device-seconds of finished jobs. Nothing is known before the first job has
    // finished.
    const auto past = past_.find(job.spec.application);
    const PastWork& like = past != past_.end() ? past->second : all_past_;
    return like.epochs > 0 ? epochs * like.service / like.epochs : kUnknownService;
  }

  static bool known(const JobState& job) { return job.learned != nullptr && !job.learned->empty(); }

  void update_rates(const JobState& job, const OnesProblem::Job& gene, Memory& memory,
                    const PolicyInput& input) const {
    const bool batches = known(job);
    const GradientNoise noise = batches ? job.learned->noise() : GradientNoise{};
    bool fresh = memory.rates_limit == memory.limit && memory.rates_most == gene.max_devices &&
                 memory.rates_noise.squared_norm == noise.squared_norm &&
                 memory.rates_noise.variance == noise.variance;
    for (std::size_t t = 0; t < input.cluster.type_count() && batches; ++t) {
      const PerfParams& params = job.learned->params(DeviceTypeId(t));
      fresh = fresh && same(params, memory.rates_params[t]);
      memory.rates_params[t] = params;
    }
    if (fresh && memory.rates_most > 0) return;
    memory.rates_limit = memory.limit;
    memory.rates_most = gene.max_devices;
    memory.rates_noise = noise;
    for (std::size_t t = 0; t < input.cluster.type_count(); ++t) {
      std::vector<Rate>& rates = memory.rates[t];
      rates.assign(2 * static_cast<std::size_t>(gene.max_devices) + 2, {});
      if (!job.spec.allows(DeviceTypeId(t))) continue;
      for (int c = gene.min_devices; c <= gene.max_devices; ++c) {
        const auto slot = 2 * static_cast<std::size_t>(c);
        if (!batches) {
          rates[slot] = rates[slot + 1] = rate_unknown(job, DeviceTypeId(t), c);
          continue;
        }
        const bool forced = c == gene.min_devices;
        rates[slot] = best_rate(job, memory, memory.rates_params[t], 1, c, forced);
        rates[slot + 1] =
            c > 1 ? best_rate(job, memory, memory.rates_params[t], 2, c, forced) : rates[slot];
      }
    }
  }

  static bool same(const PerfParams& a, const PerfParams& b) {
    return a.alpha_c == b.alpha_c && a.beta_c == b.beta_c && a.alpha_n == b.alpha_n &&
           a.beta_n == b.beta_n && a.alpha_r == b.alpha_r && a.beta_r == b.beta_r &&
           a.gamma == b.gamma;
  }

  // The rate of a job that was not measured: perfect scaling, or the law stated for a recorded
  // duration.
  static Rate rate_unknown(const JobState& job, DeviceTypeId type, int devices) {
    if (job.learned != nullptr) {
      const BatchLimits& limits = job.spec.batch;
      const std::int64_t fed = std::max(limits.initial, limits.min_local * devices);
      return {static_cast<double>(devices), std::min(fed, limits.max)};
    }
    if (job.profiled == nullptr) return {static_cast<double>(devices), 0};
    const auto seconds = [&](int count) {
      return job.profiled->step_time(Placement::packed(type, count, count), 0).step_s;
    };
    return {seconds(1) / seconds(devices), 0};
  }

  // The batch within the limits that trains fastest, counting useful samples. With `forced` (the
  // smallest size), a batch must be found even above the limit.
  static Rate best_rate(const JobState& job, const Memory& memory, const PerfParams& params,
                        int nodes, int devices, bool forced) {
    const BatchLimits& limits = job.spec.batch;
    const auto rate_of = [&](const BatchShape& shape, double total) {
      const auto local = static_cast<double>(shape.local);
      const Seconds update_s =
          params.step_s(nodes, devices, local) + shape.accumulation * params.compute_s(local);
      return total / update_s *
             statistical_efficiency(job.learned->noise(), total,
                                    static_cast<double>(limits.initial));
    };
    if (job.spec.mode != ElasticMode::kAdaptive) {
      const auto [shape, total] = job.spec.fixed_update(devices);
      return {rate_of(shape, total), job.spec.requested_batch};
    }
    const auto rate = [&](std::int64_t batch) {
      const BatchShape shape = split_batch(batch, devices, limits);
      return rate_of(shape, static_cast<double>(shape.total(devices)));
    };
    const std::int64_t low = std::max(limits.initial, limits.min_local * devices);
    const std::int64_t memory_holds = std::max(limits.initial, limits.max_local * devices);
    std::int64_t high = std::min({memory.limit, memory_holds, limits.max});
    if (low > high) {
      if (!forced) return {};
      high = std::min(low, limits.max);
    }
    Rate best;
    const double ratio = static_cast<double>(high) / static_cast<double>(std::min(low, high));
    const int steps = ratio > 1 ? kBatchesTried - 1 : 0;
    for (int k = 0; k <= steps; ++k) {
      const double share = steps > 0 ? static_cast<double>(k) / steps : 1.0;
      const auto batch = static_cast<std::int64_t>(
          std::llround(static_cast<double>(high) * std::pow(ratio, share - 1)));
      const double reached = rate(std::clamp(batch, std::min(low, high), high));
      if (reached > best.per_s) best = {reached, std::clamp(batch, std::min(low, high), high)};
    }
    return best;
  }

  // --- The plan

  std::vector<std::int16_t> renumbering(const PolicyInput& input) {
    std::unordered_map<JobId, std::int16_t> index;
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      index.emplace(input.jobs[i]->spec.id, static_cast<std::int16_t>(i));
    }
    std::vector<std::int16_t> renumbered;
    for (const JobId id : order_) {
      const auto found = index.find(id);
      renumbered.push_back(found == index.end() ? kIdle : found->second);
    }
    order_.clear();
    for (const JobState* job : input.jobs) order_.push_back(job->spec.id);
    return renumbered;
  }

  void write(const OnesGenome& best, const OnesProblem& problem, const PolicyInput& input,
             Plan& plan) {
    for (Grant& grant : plan.grants) {
      grant.nodes.emplace();
      grant.waiting = Reason::kNotWorthwhile;
    }
    std::size_t gene = 0;
    for (std::size_t n = 0; n < problem.node_devices.size(); ++n) {
      const NodeId node(n);
      for (int k = 0; k < problem.node_devices[n]; ++k, ++gene) {
        if (best.genes[gene] == kIdle) continue;
        Grant& grant = plan.grants[static_cast<std::size_t>(best.genes[gene])];
        if (grant.nodes->empty() || grant.nodes->back().node != node) {
          grant.nodes->push_back({node, 0});
        }
        ++grant.nodes->back().devices;
        ++grant.devices[input.cluster.node(node).type];
      }
    }
    bool runs = false;
    for (std::size_t i = 0; i < plan.grants.size(); ++i) {
      Grant& grant = plan.grants[i];
      const JobState& job = *input.jobs[i];
      const int devices = grant.devices.total();
      if (devices == 0) continue;
      runs = true;
      if (job.learned != nullptr) {
        const auto& rates = memory_[job.spec.id].rates[grant.devices.single_type().index()];
        grant.batch =
            rates[2 * static_cast<std::size_t>(devices) + (grant.nodes->size() > 1 ? 1 : 0)].batch;
        if (job.spec.mode != ElasticMode::kAdaptive) grant.batch = job.spec.requested_batch;
        note_limit(memory_[job.spec.id], grant.batch, job.progress->epochs_done(input.now_s));
      }
      Allocation planned{.shares = *grant.nodes};
      if (shares_of(planned) == problem.jobs[i].current) {
        grant.nodes = job.allocation.shares;  // the same devices, in the order in which they were
                                              // granted
      }
    }
    if (runs) plan.wake_at_s = input.now_s + params_.interval_s;
  }

  OnesParams params_;
  Random random_;
  OnesSearch search_;
  RemainingEpochs model_;
  std::unordered_map<JobId, Memory> memory_;
  std::map<std::string, PastWork, std::less<>> past_;  // by application
  PastWork all_past_;
  std::vector<JobId> order_;  // jobs of the last decision, in the order of its genes
};

}  // namespace

std::unique_ptr<Policy> make_ones(const OnesParams& params, Random random) {
  return std::make_unique<Ones>(params, random);
}

PolicyInfo ones_policy() {
  return {
      .name = "ones",
      .summary = "devices and batches by evolutionary search on predicted remaining work",
      .source = "ONES, SC'21",
      .needs = {Knowledge::kNothing},
      .params =
          {{.name = "islands",
            .default_value = std::int64_t{4},
            .low = 1,
            .high = 256,
            .help =
                "number of populations that evolve separately and exchange their best candidates"},
           {.name = "population",
            .default_value = std::int64_t{16},
            .low = 2,
            .high = 10'000,
            .help = "candidates kept per island"},
           {.name = "generations",
            .default_value = std::int64_t{60},
            .low = 1,
            .high = 1'000'000,
            .help = "maximum number of generations per decision"},
           {.name = "patience",
            .default_value = std::int64_t{10},
            .low = 1,
            .high = 1'000'000,
            .help = "generations between exchanges; a stretch without improvement ends the search"},
           {.name = "theta",
            .default_value = 0.1,
            .low = 0.0001,
            .high = 1,
            .help = "probability that a mutation preempts a running job"},
           {.name = "score",
            .default_value = std::string("rate"),
            .choices = {"rate", "utilization"},
            .help = "what is optimised: completion rates or remaining device-seconds"},
           {.name = "exponent",
            .default_value = 0.35,
            .low = 0.01,
            .high = 1,
            .help = "for score=rate: how strongly short jobs are preferred"},
           {.name = "waiting",
            .default_value = 1.0,
            .low = 0,
            .high = 1,
            .help = "for score=utilization: cost of waiting relative to running at the minimum"},
           {.name = "pause",
            .default_value = 1.0,
            .low = 0,
            .high = 86'400,
            .help = "expected cost of a change for a running job, in seconds"},
           {.name = "restart",
            .default_value = 30.0,
            .low = 0,
            .high = 86'400,
            .help = "expected cost of losing all devices, in seconds"},
           {.name = "long_run",
            .default_value = 7200.0,
            .low = 1,
            .high = 1e9,
            .help = "executed seconds after which a batch limit is halved while jobs wait"},
           {.name = "interval",
            .default_value = 30.0,
            .low = 1,
            .high = 86'400,
            .help = "seconds until the next decision if nothing happens"},
           {.name = "threads",
            .default_value = std::int64_t{1},
            .low = 1,
            .high = 256,
            .help = "maximum number of search threads; does not change the result"}},
      .make = [](const Params& params, Random random) -> std::unique_ptr<Policy> {
        OnesParams ones;
        ones.search = {.islands = static_cast<int>(params.integer("islands")),
                       .population = static_cast<int>(params.integer("population")),
                       .generations = static_cast<int>(params.integer("generations")),
                       .patience = static_cast<int>(params.integer("patience")),
                       .theta = params.number("theta"),
                       .threads = static_cast<int>(params.integer("threads"))};
        ones.by_rate = params.choice("score") == "rate";
        ones.exponent = params.number("exponent");
        ones.waiting = params.number("waiting");
        ones.pause_s = params.number("pause");
        ones.restart_s = params.number("restart");
        ones.long_run_s = params.number("long_run");
        ones.interval_s = params.number("interval");
        return make_ones(ones, random);
      }};
}

}  // namespace rubato
