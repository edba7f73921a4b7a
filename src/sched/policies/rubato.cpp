// Rubato's own policy: short jobs first, elastic, exact at every decision, without an oracle.
//
// Assumes nothing. Speeds are learned from the reports of all jobs of an application
// (rubato_speeds.h), remaining work from declared epochs and observed progress (rubato_outlook.h).
// Steps, at every decision:
//  1. The weight of a job is the value of a second of its work if the future is planned with prices
//     of devices (rubato_prices.h). That favours short jobs, and work that cannot catch up later. A
//     job passes through phases that scale differently, as seen in jobs of its application that
//     were further along (rubato_noise.h). With several device types, jobs are ranked by expected
//     length instead, longest first, and the r-th has the weight r^exponent. (The optimal division
//     of one resource among jobs with speed k^p gives such weights: heSRPT.) A job without devices
//     gains weight while it waits (1 + waited / starvation), which bounds how long it can starve.
//  2. The value of a size is weight x length / (length / speed + cost of the change), over at most
//     `horizon` seconds. Changes are charged at their real cost, so stop-free ones happen and
//     expensive ones must pay off: stopping a job is charged with its next start. Equal jobs are
//     not swapped (rubato_rivals.h). With ranks, the result is raised to `concavity`: the second
//     device of a job counts less than its first, which keeps jobs at efficient sizes and few of
//     them waiting. A job that has just changed keeps what it paid for.
//  3. Sizes are 1, 2, 4, ... within a node and whole nodes beyond, at most twice what the
//     application has been seen on. An application that was never measured starts small, before
//     everything else. On mixed clusters, one job of each application is sent to every type once.
//  4. The exact solver divides the devices. Several types are divided in turn, starting from prices
//     and from what jobs have (rubato_divide.h).
//  5. Jobs are consolidated on as few nodes as possible, moving small ones out of the way. Adaptive
//     jobs get the batch with the best goodput; untried batches get the benefit of the doubt. Every
//     ten seconds the batches alone are reconsidered, because the best one changes with the
//     gradient noise. The devices are reconsidered too if an application was seen on a new size or
//     type.
// It divides the devices at every event and after `interval` seconds. O(jobs x sizes x 32 + the
// solver) per division, x types x a handful of rounds on mixed clusters.
//
// What each idea contributes: how much longer the mean completion time is without it, on the Pollux
// workloads at load 1.0 with 30 s per change / with 1 s / on a Sia workload with three device types
// (`make bench-ablation`; docs/policies.md has the table and the p99):
//   goodput instead of one assumed scaling      +42 % / +60 % / +82 %
//   nearby measurements correct the fit          +3 % /  +4 % /  +3 %
//   jobs of an application learn together        +7 % /  +5 % / +23 %
//   remaining work instead of age               +21 % / +22 % /  +5 %
//   unmeasured batches are tried                 +1 % /  +1 % /  +1 %
//   noise by stage and batch                     +1 % /  +1 % /  -2 %
//   plan of the future instead of ranks          +1 % /  +2 %
//   phases in that plan                           0 % /  +1 %
//   changes are charged                         +15 % /   0 % / +16 %
//   exact solver instead of greedy              +11 % /  +4 % /  +1 %
//   consolidation                                +5 % /  +6 % /  +2 %
//   division of types in turn                                 +68 %
//   prices as a start / exploration of types            +1 % / +1 %
// Deciding at events instead of every 60 s: 2 % / 4 % (`make bench-policies`). The bound on
// starvation gains nothing there: it is a guarantee. With an oracle for remaining work the mean
// would not be shorter; with one for all speeds, less than 1 % (1 s per change; tried once, not
// kept). `make bench-bound` estimates what knowing the future would give. The parameters were tuned
// on the Pollux workloads at loads 1.0 and 2.0 and on Sia workloads 1 to 3. Load 1.5 and Sia
// workload 5 were held out.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sched/consolidate.h"
#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/policies/rubato_divide.h"
#include "sched/policies/rubato_outlook.h"
#include "sched/policies/rubato_prices.h"
#include "sched/policies/rubato_rivals.h"

namespace rubato {

namespace {

constexpr double kExplore = 1e6;  // value of starting something unknown: more than everything else
constexpr double kLastResort = 1e-6;
constexpr double kTie = 1e-6;     // of equal jobs, the one that runs
constexpr double kPaidFor = 1e3;  // value of not stopping or shrinking a job that has just changed
constexpr Seconds kTuneBatches = 10;  // between two looks at the batches of running jobs

struct Tuning {
  double exponent;
  double concavity;
  Seconds horizon_s;
  Seconds starvation_s;
  Seconds interval_s;
  bool plans = true;         // plans the future instead of ranking jobs; only with one device type
  bool charges = true;       // charges for changes
  bool explores = true;      // explores device types
  bool consolidates = true;  // consolidates instead of leaving nodes to the placer
  DivisionMethod method = DivisionMethod::kPrices;
};

DeviceTypeId current_type(const JobState& job, const PolicyInput& input) {
  return input.cluster.node(job.allocation.shares.front().node).type;
}

class RubatoPolicy final : public Policy {
 public:
  RubatoPolicy(const Tuning& tuning, const OutlookOptions& options)
      : tuning_(tuning), book_(options) {}

  Plan decide(const PolicyInput& input) override {
    book_.observe(input);
    Plan plan = nothing_happened(input) ? tune_batches(input) : divide(input);
    plan.wake_at_s = divided_at_s_ + tuning_.interval_s;
    if (!input.tenants) {
      plan.wake_at_s = std::min(*plan.wake_at_s, input.now_s + kTuneBatches);
    }
    remember(input, plan);
    return plan;
  }

 private:
  struct Candidate {
    Outlook outlook;
    double weight = 1;
    double rival = 0;         // value of the best waiting job like it (rubato_rivals.h)
    DeviceTypeId explores{};  // the type on which it should run to measure its application
  };

  // What a division of devices depends on, except the speeds of jobs at sizes they know.
  struct Seen {
    JobId id{};
    int least = 0;
    int most = 0;
    int explored = 0;  // when this grows, larger sizes and other types become available
    int devices = 0;
    bool operator==(const Seen&) const = default;
  };

  Seen seen(const JobState& job, int devices, const Cluster& cluster) const {
    const JobSpec& spec = job.spec;
    return {.id = spec.id,
            .least = spec.min_devices,
            .most = spec.max_devices,
            .explored = book_.explored(job, cluster),
            .devices = devices};
  }

  // True if the devices were divided recently, the policy asked to be woken now, and nothing has
  // changed since.
  bool nothing_happened(const PolicyInput& input) const {
    if (input.now_s < wake_at_s_ - 1e-6) return false;
    if (input.tenants || input.now_s >= divided_at_s_ + tuning_.interval_s - 1e-6) return false;
    if (input.usable_by_type != usable_) return false;
    return std::equal(input.jobs.begin(), input.jobs.end(), seen_.begin(), seen_.end(),
                      [&](const JobState* job, const Seen& before) {
                        return seen(*job, job->allocation.devices(), input.cluster) == before;
                      });
  }

  void remember(const PolicyInput& input, const Plan& plan) {
    wake_at_s_ = *plan.wake_at_s;
    usable_ = input.usable_by_type;
    seen_.clear();
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      seen_.push_back(seen(*input.jobs[i], plan.grants[i].devices.total(), input.cluster));
    }
    book_.remember(input);
  }

  // All jobs keep their devices. The best batch changes with the noise, and changing it costs
  // nothing.
  Plan tune_batches(const PolicyInput& input) {
    Plan plan = empty_plan(input);
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      Grant& grant = plan.grants[i];
      grant.waiting = Reason::kNotWorthwhile;
      if (!job.running()) continue;
      grant.devices = job.allocation.counts(input.cluster);
      grant.batch = book_.batch(book_.outlook(job, input), current_type(job, input),
                                job.allocation.devices(), input.cluster);
    }
    return plan;
  }

  Plan divide(const PolicyInput& input) {
    divided_at_s_ = input.now_s;
    std::vector<Candidate> jobs;
    jobs.reserve(input.jobs.size());
    for (const JobState* job : input.jobs) jobs.push_back({.outlook = book_.outlook(*job, input)});
    planned_ = tuning_.plans && input.cluster.type_count() == 1 && input.usable_by_type.total() > 0;
    if (planned_) {
      value(jobs, input);
    } else {
      rank(jobs);
    }
    prefer(jobs, input);
    find_rivals(jobs, input);
    if (tuning_.explores && input.cluster.type_count() > 1) send_explorers(jobs, input);
    std::vector<TypedChoices> choices;
    choices.reserve(jobs.size());
    for (const Candidate& job : jobs) choices.push_back(list_choices(job, input));
    const std::vector<TypedShare> shares = divide_types(
        choices, input.usable_by_type, input.cluster.type_count(), tuning_.method, price_);

    Plan plan = empty_plan(input);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      Grant& grant = plan.grants[i];
      grant.waiting = Reason::kNotWorthwhile;
      const DeviceTypeId type = shares[i].type;
      if (!type.valid()) continue;
      const int devices =
          choices[i].of[type.index()][static_cast<std::size_t>(shares[i].choice)].size;
      grant.devices[type] = devices;
      grant.batch = book_.batch(jobs[i].outlook, type, devices, input.cluster);
    }
    if (tuning_.consolidates) consolidate(plan, input);
    return plan;
  }

  // The weight of a job is the value of a second of its work if the future goes as planned.
  void value(std::vector<Candidate>& jobs, const PolicyInput& input) {
    const DeviceTypeId type(0);
    std::vector<PlannedJob> planned(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const Outlook& outlook = jobs[i].outlook;
      const std::vector<int> possible = sizes(outlook, type, input);
      for (const OutlookPart& part : book_.parts(outlook, input)) {
        PlannedJob::Phase phase{.sizes = {}, .length_s = part.length_s};
        for (const int size : possible) {
          phase.sizes.push_back({size, book_.speed(outlook, part, type, size, input.cluster)});
        }
        keep_majorant(phase.sizes);
        if (phase.sizes.empty()) phase.sizes.push_back({outlook.job->spec.min_devices, 1});
        planned[i].phases.push_back(std::move(phase));
      }
    }
    const std::vector<double> values = prices_.values(planned, input.usable_by_type[type]);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].weight = jobs[i].outlook.unexplored ? 1 : values[i];
    }
  }

  void rank(std::vector<Candidate>& jobs) const {
    std::vector<Candidate*> longest_first;
    longest_first.reserve(jobs.size());
    for (Candidate& job : jobs) longest_first.push_back(&job);
    std::stable_sort(longest_first.begin(), longest_first.end(),
                     [](const Candidate* a, const Candidate* b) {
                       return a->outlook.length_s > b->outlook.length_s;
                     });
    for (std::size_t r = 0; r < longest_first.size(); ++r) {
      longest_first[r]->weight = std::pow(static_cast<double>(r + 1), tuning_.exponent);
    }
  }

  // Prefers jobs that wait.
  void prefer(std::vector<Candidate>& jobs, const PolicyInput& input) const {
    for (Candidate& job : jobs) {
      const JobState& state = *job.outlook.job;
      const Seconds waited = state.running() ? 0 : input.now_s - state.changed_at_s;
      job.weight *= 1 + waited / tuning_.starvation_s;
    }
  }

  void find_rivals(std::vector<Candidate>& jobs, const PolicyInput& input) const {
    std::vector<Contender> contenders;
    contenders.reserve(jobs.size());
    for (const Candidate& job : jobs) {
      const bool waits = !job.outlook.job->running() && !job.outlook.unexplored;
      contenders.push_back({&job.outlook, waits ? most_value(job, input) : 0});
    }
    const std::vector<double> rivals = rival_values(contenders);
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].rival = rivals[i];
  }

  // The value of a job at its best size, without any cost.
  double most_value(const Candidate& job, const PolicyInput& input) const {
    double speed = 0;
    for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
      const DeviceTypeId type(i);
      if (!job.outlook.job->spec.allows(type)) continue;
      for (const int size : sizes(job.outlook, type, input)) {
        speed = std::max(speed, book_.speed(job.outlook, type, size, input.cluster));
      }
    }
    return job.weight * of_speed(speed);
  }

  // Every application should be measured once on every type that it may use: by a job that is
  // already there, otherwise by a waiting job, otherwise by a job that runs elsewhere.
  static void send_explorers(std::vector<Candidate>& jobs, const PolicyInput& input) {
    for (std::size_t t = 0; t < input.cluster.type_count(); ++t) {
      const DeviceTypeId type(t);
      const auto rank = [&](const JobState& job) {
        if (!job.running()) return 1;
        return current_type(job, input) == type ? 2 : 0;
      };
      std::unordered_map<const SharedSpeeds*, Candidate*> explorer;
      for (Candidate& job : jobs) {
        const JobState& state = *job.outlook.job;
        const SharedSpeeds* speeds = job.outlook.speeds;
        if (speeds == nullptr || speeds->measured_on(type) || !state.spec.allows(type)) continue;
        if (job.explores.valid()) continue;
        Candidate*& best = explorer[speeds];
        if (best == nullptr || rank(state) > rank(*best->outlook.job)) best = &job;
      }
      for (const auto& entry : explorer) entry.second->explores = type;
    }
  }

  // A step is as long as the device with most logical workers takes: with 6 of them, 4 devices are
  // not faster than 3. The fewest devices that are as fast as `devices`.
  static int without_idle(const JobSpec& spec, int devices) {
    if (spec.logical_workers == 0 || spec.power_of_two_sizes) return devices;
    const int most = (spec.logical_workers + devices - 1) / devices;
    return (spec.logical_workers + most - 1) / most;
  }

  // Sizes that a job may have on a type, ascending.
  static std::vector<int> sizes(const Outlook& outlook, DeviceTypeId type,
                                const PolicyInput& input) {
    const JobSpec& spec = outlook.job->spec;
    const bool rigid = spec.mode == ElasticMode::kRigid;
    const int least = rigid ? spec.requested_devices : spec.min_devices;
    int most = std::min(rigid ? least : spec.max_devices, input.usable_by_type[type]);
    std::vector<int> result;
    if (least > most) return result;
    if (outlook.speeds != nullptr) {
      most = std::min(most, std::max(least, 2 * outlook.speeds->max_profiled_devices()));
    }
    const int node = input.cluster.node_size(type);
    result.push_back(least);
    for (int k = 1; k <= most; k = k < node ? std::min(2 * k, node) : k + node) {
      const int size = without_idle(spec, k);
      if (size > result.back()) result.push_back(size);
    }
    return result;
  }

  // Devices that a running job should keep. Planned values fluctuate a little even if nothing
  // happens. So a job keeps its devices while it still pauses for them, and is not stopped soon
  // after, because the cost of a start is unknown. Otherwise a job could spend all its time in
  // pauses.
  int paid_for(const JobState& job, const PolicyInput& input) const {
    const Seconds since = input.now_s - job.resized_at_s;
    if (!planned_) return 0;
    if (since <= job.resize_cost_s) return job.allocation.devices();
    return since < 2 * job.resize_cost_s ? 1 : 0;
  }

  // What stopping a running job loses, beside its work: it must start again later, perhaps from the
  // beginning, and a waiting job that is like it must not take its place.
  double staying(const Candidate& job, const PolicyInput& input) const {
    const JobState& state = *job.outlook.job;
    if (!state.running()) return 0;
    const double speed = book_.speed(job.outlook, current_type(state, input),
                                     state.allocation.devices(), input.cluster);
    if (speed <= 0) return 0;
    const Seconds left = std::min(job.outlook.length_s / speed, tuning_.horizon_s);
    Seconds cost = tuning_.charges ? state.resize_cost_s : 0;
    if (state.spec.starts_over) cost += input.now_s - state.resized_at_s;  // since its start
    const double value = job.weight * of_speed(speed);
    return value * cost / std::max(1.0, left) + std::max(0.0, job.rival - value) + kTie * job.rival;
  }

  TypedChoices list_choices(const Candidate& job, const PolicyInput& input) const {
    TypedChoices result;
    const JobState& state = *job.outlook.job;
    const JobSpec& spec = state.spec;
    const int now = state.allocation.devices();
    const double stays = staying(job, input);
    for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
      const DeviceTypeId type(i);
      if (!spec.allows(type)) continue;
      const bool here = state.running() && current_type(state, input) == type;
      std::vector<Choice>& choices = result.of[i];
      const auto add = [&](int size, double value) {
        if (here && size == now) {
          result.now_type = type;
          result.now = static_cast<int>(choices.size());
        }
        choices.push_back({size, value});
      };
      const std::vector<int> possible = sizes(job.outlook, type, input);
      if (possible.empty()) continue;
      if (job.outlook.unexplored || job.explores == type) {
        // A job that already explores is not stopped for another.
        add(possible.front(), kExplore * job.weight * (here ? 2 : 1));
        continue;
      }
      const int keeps = here ? paid_for(state, input) : 0;
      for (const int size : possible) {
        add(size,
            worth(job, type, size, input) + stays + (keeps > 0 && size >= keeps ? kPaidFor : 0));
      }
    }
    return result;
  }

  double worth(const Candidate& job, DeviceTypeId type, int devices,
               const PolicyInput& input) const {
    const JobState& state = *job.outlook.job;
    const double speed = book_.speed(job.outlook, type, devices, input.cluster);
    // Even a size that the model considers useless is better than never running.
    if (speed <= 0) return kLastResort * job.weight;
    const bool same = state.running() && state.allocation.devices() == devices &&
                      current_type(state, input) == type;
    const double length = std::min(job.outlook.length_s, speed * tuning_.horizon_s);
    const Seconds cost = same || !tuning_.charges ? 0 : state.resize_cost_s;
    const double gained = length / (length / speed + cost);
    return job.weight * of_speed(gained);
  }

  double of_speed(double speed) const {
    return planned_ ? speed : std::pow(std::max(0.0, speed), tuning_.concavity);
  }

  Tuning tuning_;
  OutlookBook book_;
  PricePath prices_;
  Seconds divided_at_s_ = -1e18;
  Seconds wake_at_s_ = 0;
  std::vector<Seen> seen_;  // jobs of the last decision, with the devices they were granted
  DeviceCounts usable_;     // devices that were usable then
  bool planned_ = false;    // whether this decision planned the future
  std::array<double, kMaxDeviceTypes> price_{};  // of a device, by type
};

std::unique_ptr<Policy> make_rubato(const Params& params, Random) {
  const std::string& without = params.choice("without");
  const auto has = [&](std::string_view idea) { return without != idea; };
  Tuning tuning{.exponent = params.number("exponent"),
                .concavity = params.number("concavity"),
                .horizon_s = params.number("horizon"),
                .starvation_s = params.number("starvation"),
                .interval_s = params.number("interval"),
                .plans = has("plan"),
                .charges = has("charge"),
                .explores = has("exploration"),
                .consolidates = has("consolidation")};
  if (!has("exact")) tuning.method = DivisionMethod::kGreedy;
  if (!has("types")) tuning.method = DivisionMethod::kFastest;
  if (!has("prices")) tuning.method = DivisionMethod::kImproveOnly;
  return std::make_unique<RubatoPolicy>(tuning, OutlookOptions{.prior_s = params.number("prior"),
                                                               .goodput = has("goodput"),
                                                               .remaining = has("remaining"),
                                                               .shared = has("sharing"),
                                                               .corrected = has("correction"),
                                                               .hopeful = has("trials"),
                                                               .noise = has("noise"),
                                                               .parts = has("parts")});
}

}  // namespace

PolicyInfo rubato_policy() {
  return {.name = "rubato",
          .summary = "short jobs first, elastic and exact; learns speed and remaining work",
          .source = "this project",
          .needs = {Knowledge::kNothing},
          .params = {{.name = "exponent",
                      .default_value = 1.0,
                      .low = 0,
                      .high = 10,
                      .help = "how strongly short jobs are preferred; 0: not at all"},
                     {.name = "concavity",
                      .default_value = 0.6,
                      .low = 0.01,
                      .high = 1,
                      .help = "how much devices beyond a job's first count; 1: fully"},
                     {.name = "horizon",
                      .default_value = 200.0,
                      .low = 1,
                      .high = 1e9,
                      .help = "seconds over which a change must pay off"},
                     {.name = "starvation",
                      .default_value = 14'400.0,
                      .low = 1,
                      .high = 1e9,
                      .help = "seconds of waiting after which a job's weight doubles"},
                     {.name = "prior",
                      .default_value = 600.0,
                      .low = 1,
                      .high = 1e9,
                      .help = "seconds that an unknown job is assumed to need on one device"},
                     {.name = "interval",
                      .default_value = 60.0,
                      .low = 1,
                      .high = 86'400,
                      .help = "seconds until the next decision if nothing happens"},
                     {.name = "without",
                      .default_value = std::string("none"),
                      .choices = {"none", "goodput", "remaining", "sharing", "correction", "trials",
                                  "noise", "parts", "plan", "charge", "exact", "types", "prices",
                                  "exploration", "consolidation"},
                      .help = "idea to switch off, to see what it contributes"}},
          .make = make_rubato,
          .at_events = true};
}

}  // namespace rubato
