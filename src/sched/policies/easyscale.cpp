// EasyScale (SC'23): consistent jobs with a fixed number of logical workers on whatever devices
// are available, of several types at once if the job allows it.
//
// Assumes profiled step times. A job without logical workers is planned as if it had one for each
// requested device, on one type. Within a job (model/logical_workers.h), each device of type i
// hosts A_i workers. The speed of a plan is workers / (max A_i / C_i). A plan that leaves more than
// `waste` of its devices' speed unused is not made, unless the job's range allows no other.
// `communication` adds synchronisation to the time of an update (the paper omits it).
// Between jobs, at every event ([ours] marks what the paper does not say):
//  1. If serving or a failure left too few devices, jobs shrink, cheapest shrink first by
//     (speedup_now / speedup_new - 1) / devices freed. If no job can shrink, the newest job stops
//     [ours].
//  2. Waiting jobs get their smallest plan, by priority and arrival. If nothing is free, running
//     jobs make room as in 1 [ours]. A job that cannot mix types goes to the type on which a fair
//     share promises the highest speed [ours].
//  3. Running jobs propose one increment per type, at most doubling their devices, and faster
//     devices in place of slower ones [ours]. Proposals are ranked by
//     (speedup_new / speedup_now - 1) / devices added and taken greedily, one per job and round,
//     for at most `proposals` rounds (the paper makes one round and restarts the job again 60 s
//     later). A job proposes if its devices change anyway or last changed at least `interval`
//     seconds ago; the policy asks to be woken for that.
//  4. Such a job may also grow at the expense of another one if it gains more than `exchange` times
//     what the other loses, per device [ours].
// [ours] Gains and losses are divided by the work that a job has left, estimated from its epochs
// and progress (`urgency`). A job does not grow if that saves it less than `payback` times the cost
// of the change: the published ranking treats an hour and a minute alike and restarts a job to save
// a second. proposals=1, exchange=0, urgency=0, payback=0 is the published scheduler.
// A job with logical workers that cannot mix types stays on the type it first ran on, because its
// bits would differ on another type. type=homogeneous gives every job one type at a time.
// O(jobs x types x devices of a job) per round of proposals and per exchange; there are at most
// 4 x jobs exchanges. Splitting a plan costs O(workers x types) and is memoised per job.
#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "base/check.h"
#include "sched/gang.h"
#include "sched/order.h"
#include "sched/policies/easyscale_plans.h"
#include "sched/policies/policies.h"
#include "sched/policies/remaining_estimate.h"

namespace rubato {

namespace {

using easyscale::Holder;
using easyscale::JobPlans;
using easyscale::Outcome;
using easyscale::workers_of;

// Device-seconds that a job is assumed to have left while nothing is known about it.
constexpr double kPriorWork = 3600;

struct EasyScaleParams {
  bool heterogeneous = true;
  JobPlans::Options plans;
  Seconds interval_s = 60;
  int proposals = 1;
  double exchange = 0;
  double urgency = 0;
  double payback = 0;
  PlacementRule placement = PlacementRule::kBestFit;
};

// A change of a holder's devices. `value` is the gain or loss per device.
struct Change {
  double value = 0;
  std::size_t holder = 0;
  std::size_t type = 0;
  int devices = 0;  // added or freed; 0: no change is possible
  // The type of the devices that are given up in exchange, as many as are added.
  std::size_t instead_of = kMaxDeviceTypes;
};

class EasyScale final : public Policy {
 public:
  explicit EasyScale(const EasyScaleParams& params) : params_(params), plans_(params.plans) {}

  Plan decide(const PolicyInput& input) override {
    plans_.observe(input);
    estimate_.observe(input);
    for (const FinishedJob& job : input.finished) stays_on_.erase(job.id);
    cluster_ = &input.cluster;
    usable_ = input.usable_by_type;
    read_jobs(input);
    give_back();
    start_waiting(input);
    bool more = grow(input.now_s);
    if (params_.exchange > 0) {
      // Bounded, in case exchanges ever go in circles.
      for (std::size_t i = 0; i < 4 * holders_.size() && exchange(input.now_s); ++i) {
        more = grow(input.now_s);
      }
    }

    Plan plan = empty_plan(input);
    plan.placement = params_.placement;
    for (const Holder& holder : holders_) {
      Grant& grant = plan.grants[holder.index];
      grant.devices = holder.devices;
      grant.batch = holder.job->spec.requested_batch;
      const JobSpec& spec = holder.job->spec;
      if (holder.holds() && spec.logical_workers > 0 && !spec.mixes_types) {
        stays_on_.emplace(spec.id, holder.devices.single_type());
      }
    }
    plan.wake_at_s = next_proposal(input.now_s, more);
    return plan;
  }

 private:
  // --- The state of this decision

  void read_jobs(const PolicyInput& input) {
    holders_.clear();
    free_ = usable_;
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      const JobSpec& spec = job.spec;
      Holder holder{.job = &job, .index = i};
      const bool rigid = spec.mode == ElasticMode::kRigid;
      holder.smallest = rigid ? spec.requested_devices : spec.min_devices;
      holder.most = std::clamp(std::min(workers_of(spec), most_devices_at_requested_batch(spec)),
                               holder.smallest, spec.max_devices);
      holder.mixes = params_.heterogeneous && spec.mixes_types && spec.logical_workers > 0;
      holder.types = spec.allowed_types & ((1U << cluster_->type_count()) - 1U);
      if (const auto held = stays_on_.find(spec.id); held != stays_on_.end()) {
        holder.types = 1U << held->second.index();
      }
      holder.waste = plans_.allowed_waste(holder);
      estimate_work(holder, input);
      holder.current = holder.devices = job.allocation.counts(*cluster_);
      for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
        free_.of[type] -= holder.devices.of[type];
      }
      holders_.push_back(holder);
    }
  }

  void estimate_work(Holder& holder, const PolicyInput& input) {
    const auto first = std::countr_zero(holder.job->spec.allowed_types);
    const DeviceTypeId type(static_cast<std::size_t>(first));
    const Seconds left_s = estimate_.one_device_s(*holder.job, type, input, plans_.one_type());
    holder.updates_left = left_s / plans_.one_type().update_s(*holder.job, type, 1, *cluster_);
    holder.urgency = std::pow(left_s, -params_.urgency);
  }

  void change(Holder& holder, std::size_t type, int by) {
    holder.devices.of[type] += by;
    free_.of[type] -= by;
  }

  void stop(Holder& holder) {
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
      change(holder, type, -holder.devices.of[type]);
    }
  }

  // --- Shrinking

  Change cheapest_shrink(std::size_t h, std::size_t type) {
    const Holder& holder = holders_[h];
    Change best{.holder = h, .type = type};
    const int most = std::min(holder.devices.of[type], holder.devices.total() - holder.smallest);
    if (most <= 0) return best;
    const double now = plans_.speed(holder);
    DeviceCounts smaller = holder.devices;
    for (int freed = 1; freed <= most; ++freed) {
      --smaller.of[type];
      const Outcome after = plans_.outcome(*holder.job, smaller);
      if (holder.too_wasteful(after)) continue;
      const double loss = (now / after.speed - 1) / freed * holder.urgency;
      // Of equal losses, the one that frees more: its plan has no idle devices.
      if (best.devices == 0 || loss <= best.value) {
        best.value = loss;
        best.devices = freed;
      }
    }
    return best;
  }

  // Frees at least one device of the type. False if every job there has its smallest plan.
  bool shrink_somebody(std::size_t type) {
    Change best;
    for (std::size_t h = 0; h < holders_.size(); ++h) {
      if (holders_[h].devices.of[type] == 0) continue;
      const Change option = cheapest_shrink(h, type);
      if (option.devices == 0) continue;
      if (best.devices == 0 || option.value < best.value) best = option;
    }
    if (best.devices == 0) return false;
    change(holders_[best.holder], type, -best.devices);
    return true;
  }

  void give_back() {
    for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
      while (free_.of[type] < 0) {
        if (shrink_somebody(type)) continue;
        Holder* last = nullptr;  // the least urgent, newest job there
        for (Holder& holder : holders_) {
          if (holder.devices.of[type] == 0) continue;
          if (last == nullptr || holder.job->spec.priority <= last->job->spec.priority) {
            last = &holder;
          }
        }
        RUBATO_CHECK(last != nullptr, "devices are missing, but no job holds any");
        stop(*last);
      }
    }
  }

  // --- Starting

  // Starts the job on one type: on free devices, or on devices that running jobs give up. A job
  // that cannot mix types has to stay on the type it gets, so types are compared by the speed that
  // a fair share of each promises.
  bool start(Holder& holder, bool may_make_room) {
    std::vector<std::pair<double, std::size_t>> types;  // best promise first
    for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
      if (!holder.may_use(type)) continue;
      const auto sharing =
          std::count_if(holders_.begin(), holders_.end(),
                        [&](const Holder& other) { return other.devices.of[type] > 0; });
      const int share = usable_.of[type] / static_cast<int>(sharing + 1);
      const int expected = std::max({share, free_.of[type], holder.smallest});
      types.emplace_back(-plans_.promise(holder, type, holder.mixes ? holder.smallest : expected),
                         type);
    }
    std::sort(types.begin(), types.end());
    if (holder.mixes) {
      for (const auto& [value, type] : types) {
        if (start_on(holder, type, false)) return true;
      }
      if (start_mixed(holder)) return true;
    }
    for (const auto& [value, type] : types) {
      if (start_on(holder, type, may_make_room)) return true;
    }
    return false;
  }

  bool start_on(Holder& holder, std::size_t type, bool may_make_room) {
    const int count = plans_.smallest_plan(holder, type);
    if (count == 0 || count > usable_.of[type]) return false;
    if (free_.of[type] < count) {
      if (!may_make_room) return false;
      const std::vector<Holder> before = holders_;
      const DeviceCounts free = free_;
      while (free_.of[type] < count && shrink_somebody(type)) {
      }
      if (free_.of[type] < count) {
        holders_ = before;
        free_ = free;
        return false;
      }
    }
    change(holder, type, count);
    return true;
  }

  // No single type has room: takes the fastest free devices of all types.
  bool start_mixed(Holder& holder) {
    const DeviceCounts free = free_;
    while (holder.devices.total() < holder.most) {
      Change best;
      for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
        if (!holder.may_use(type) || free_.of[type] <= 0) continue;
        DeviceCounts more = holder.devices;
        ++more.of[type];
        const double speed = plans_.outcome(*holder.job, more).speed;
        if (best.devices == 0 || speed > best.value) best = {speed, 0, type, 1};
      }
      if (best.devices == 0) break;
      change(holder, best.type, 1);
      if (holder.devices.total() >= holder.smallest &&
          !holder.too_wasteful(plans_.outcome(*holder.job, holder.devices))) {
        return true;
      }
    }
    holder.devices = {};
    free_ = free;
    return false;
  }

  void start_waiting(const PolicyInput& input) {
    struct NoRoom {
      std::uint32_t types;
      bool mixes;
      int smallest;
    };
    std::vector<NoRoom> no_room;  // attempts that failed
    for (const std::size_t i : by_priority_then_arrival(input)) {
      Holder& holder = holders_[i];
      if (holder.holds() || holder.current.total() > 0) continue;
      // If shrinking did not help one job, it does not help another that needs as much.
      const bool hopeless = std::any_of(no_room.begin(), no_room.end(), [&](const NoRoom& tried) {
        return tried.types == holder.types && tried.mixes == holder.mixes &&
               tried.smallest <= holder.smallest;
      });
      if (start(holder, !hopeless) || hopeless) continue;
      no_room.push_back({holder.types, holder.mixes, holder.smallest});
    }
  }

  // --- Growing

  // Whether a job that does `now` updates per second should change to this plan: it is faster, not
  // wasteful and, if the job's devices would not change otherwise, saves enough of the remaining
  // time.
  bool worth_it(const Holder& holder, double now, const Outcome& after) const {
    if (holder.too_wasteful(after) || after.speed / now - 1 <= 1e-9) return false;
    if (holder.devices != holder.current) return true;
    const Seconds saved = holder.updates_left / now - holder.updates_left / after.speed;
    return saved >= params_.payback * holder.job->resize_cost_s;
  }

  Change best_increment(std::size_t h, std::size_t type) {
    const Holder& holder = holders_[h];
    Change best{.holder = h, .type = type};
    if (!holder.may_use(type)) return best;
    const int total = holder.devices.total();
    if (!holder.mixes && holder.devices.of[type] != total) return best;
    const int most = std::min({total, free_.of[type], holder.most - total});
    if (most <= 0) return best;
    const double now = plans_.speed(holder);
    DeviceCounts larger = holder.devices;
    for (int added = 1; added <= most; ++added) {
      ++larger.of[type];
      const Outcome after = plans_.outcome(*holder.job, larger);
      if (!worth_it(holder, now, after)) continue;
      const double gain = (after.speed / now - 1) / added * holder.urgency;
      if (best.devices == 0 || gain > best.value) {
        best.value = gain;
        best.devices = added;
      }
    }
    return best;
  }

  // The best replacement of slower devices by devices of this type.
  Change best_replacement(std::size_t h, std::size_t type) {
    const Holder& holder = holders_[h];
    Change best{.holder = h, .type = type};
    if (!holder.mixes || !holder.may_use(type)) return best;
    const double now = plans_.speed(holder);
    for (std::size_t other = 0; other < cluster_->type_count(); ++other) {
      if (other == type) continue;
      DeviceCounts replaced = holder.devices;
      const int most = std::min(replaced.of[other], free_.of[type]);
      for (int count = 1; count <= most; ++count) {
        ++replaced.of[type];
        --replaced.of[other];
        const Outcome after = plans_.outcome(*holder.job, replaced);
        if (!worth_it(holder, now, after)) continue;
        const double gain = (after.speed / now - 1) / count * holder.urgency;
        if (best.devices == 0 || gain > best.value) {
          best.value = gain;
          best.devices = count;
          best.instead_of = other;
        }
      }
    }
    return best;
  }

  void apply(const Change& proposal) {
    Holder& holder = holders_[proposal.holder];
    change(holder, proposal.type, proposal.devices);
    if (proposal.instead_of < kMaxDeviceTypes) {
      change(holder, proposal.instead_of, -proposal.devices);
    }
  }

  bool may_propose(const Holder& holder, Seconds now_s) const {
    return holder.devices != holder.current ||
           now_s - holder.job->resized_at_s >= params_.interval_s - 1e-6;
  }

  // True if jobs might propose more after the last round of proposals.
  bool grow(Seconds now_s) {
    std::vector<char> proposes(holders_.size());
    for (std::size_t h = 0; h < holders_.size(); ++h) {
      const Holder& holder = holders_[h];
      proposes[h] = holder.holds() && holder.job->spec.mode != ElasticMode::kRigid &&
                            may_propose(holder, now_s)
                        ? 1
                        : 0;
    }
    for (int round = 0; round < params_.proposals; ++round) {
      std::vector<Change> proposals;
      for (std::size_t h = 0; h < holders_.size(); ++h) {
        if (proposes[h] == 0) continue;
        for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
          const Change proposal = best_increment(h, type);
          if (proposal.devices > 0) proposals.push_back(proposal);
          const Change replacement = best_replacement(h, type);
          if (replacement.devices > 0) proposals.push_back(replacement);
        }
      }
      if (proposals.empty()) return false;
      std::stable_sort(proposals.begin(), proposals.end(),
                       [](const Change& a, const Change& b) { return a.value > b.value; });
      std::vector<char> taken(holders_.size(), 0);
      for (const Change& proposal : proposals) {
        if (taken[proposal.holder] != 0 || free_.of[proposal.type] < proposal.devices) continue;
        apply(proposal);
        taken[proposal.holder] = 1;
      }
    }
    return true;
  }

  // One job shrinks for another job that gains more per device than the first one loses. False if
  // there is no such pair.
  bool exchange(Seconds now_s) {
    for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
      Change loss;
      for (std::size_t h = 0; h < holders_.size(); ++h) {
        const Holder& holder = holders_[h];
        if (holder.devices.of[type] == 0 || !may_propose(holder, now_s)) continue;
        const Change option = cheapest_shrink(h, type);
        if (option.devices == 0) continue;
        if (loss.devices == 0 || option.value < loss.value) loss = option;
      }
      if (loss.devices == 0) continue;
      change(holders_[loss.holder], type, -loss.devices);
      Change gain;
      for (std::size_t h = 0; h < holders_.size(); ++h) {
        const Holder& holder = holders_[h];
        if (h == loss.holder || !holder.holds() || !may_propose(holder, now_s)) continue;
        if (holder.job->spec.mode == ElasticMode::kRigid) continue;
        const Change option = best_increment(h, type);
        if (option.devices == 0) continue;
        if (gain.devices == 0 || option.value > gain.value) gain = option;
      }
      if (gain.devices > 0 && gain.value > params_.exchange * loss.value) {
        change(holders_[gain.holder], type, gain.devices);
        return true;
      }
      change(holders_[loss.holder], type, loss.devices);
    }
    return false;
  }

  // When the next job that could grow may propose again.
  std::optional<Seconds> next_proposal(Seconds now_s, bool more) {
    std::optional<Seconds> next;
    for (std::size_t h = 0; h < holders_.size(); ++h) {
      const Holder& holder = holders_[h];
      if (!holder.holds() || holder.job->spec.mode == ElasticMode::kRigid) continue;
      const bool proposed = may_propose(holder, now_s);
      if (proposed && !more) continue;
      bool could = false;
      for (std::size_t type = 0; type < cluster_->type_count() && !could; ++type) {
        could = best_increment(h, type).devices > 0 || best_replacement(h, type).devices > 0;
      }
      if (!could) continue;
      const Seconds at = (proposed ? now_s : holder.job->resized_at_s) + params_.interval_s;
      if (!next || at < *next) next = at;
    }
    return next;
  }

  EasyScaleParams params_;
  JobPlans plans_;
  RemainingEstimate estimate_{kPriorWork};
  std::unordered_map<JobId, DeviceTypeId> stays_on_;  // jobs that must not change their type

  const Cluster* cluster_ = nullptr;
  DeviceCounts usable_;
  DeviceCounts free_;            // negative: more devices are planned than usable
  std::vector<Holder> holders_;  // parallel to the input's jobs
};

}  // namespace

PolicyInfo easyscale_policy() {
  return {.name = "easyscale",
          .summary =
              "logical workers on devices of any type; waiting jobs first, then the best "
              "increments",
          .source = "EasyScale, SC'23",
          .needs = {Knowledge::kProfiledSpeed},
          .params = {{.name = "type",
                      .default_value = std::string("heterogeneous"),
                      .choices = {"homogeneous", "heterogeneous"},
                      .help = "one device type per job, or several if the job allows it"},
                     {.name = "waste",
                      .default_value = 0.30,
                      .low = 0,
                      .high = 1,
                      .help = "largest share of its devices' speed that a plan may leave unused"},
                     {.name = "interval",
                      .default_value = 60.0,
                      .low = 0,
                      .high = 1e6,
                      .help = "seconds between proposals of a running job"},
                     {.name = "proposals",
                      .default_value = std::int64_t{16},
                      .low = 1,
                      .high = 1000,
                      .help = "rounds of proposals per decision; 1: as published"},
                     {.name = "communication",
                      .default_value = true,
                      .help = "include synchronisation in the speed of a plan"},
                     {.name = "exchange",
                      .default_value = 2.0,
                      .low = 0,
                      .high = 1e6,
                      .help = "devices move between running jobs if one gains more than this many "
                              "times what the other loses; 0: never"},
                     {.name = "urgency",
                      .default_value = 1.0,
                      .low = 0,
                      .high = 10,
                      .help = "gains and losses are weighted by the job's remaining work to the "
                              "power of minus this value; 0: all equal, as published"},
                     {.name = "payback",
                      .default_value = 4.0,
                      .low = 0,
                      .high = 1e6,
                      .help = "a running job grows only if that saves at least this many times the "
                              "cost of the change; 0: always, as published"},
                     placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<EasyScale>(
                EasyScaleParams{.heterogeneous = params.choice("type") == "heterogeneous",
                                .plans = {.waste = params.number("waste"),
                                          .communication = params.flag("communication")},
                                .interval_s = params.number("interval"),
                                .proposals = static_cast<int>(params.integer("proposals")),
                                .exchange = params.number("exchange"),
                                .urgency = params.number("urgency"),
                                .payback = params.number("payback"),
                                .placement = placement_rule(params)});
          }};
}

}  // namespace rubato
