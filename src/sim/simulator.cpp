#include "sim/simulator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>

#include "base/stats.h"
#include "sched/scheduler.h"
#include "sim/speed_cache.h"

namespace rubato {

namespace {

constexpr Seconds kNever = std::numeric_limits<double>::infinity();

class SimClock final : public Clock {
 public:
  Seconds now_s() const override { return now; }
  Seconds now = 0;
};

struct Event {
  Seconds time_s;
  std::uint32_t job;
  std::uint32_t version;  // events of older versions of their job are stale

  bool operator>(const Event& other) const {
    return time_s != other.time_s ? time_s > other.time_s : job > other.job;
  }
};

class Simulation final : public Executor {
 public:
  Simulation(const Cluster& cluster, const Workload& workload, const PolicyInfo& info,
             std::unique_ptr<Policy> policy, const SimOptions& options)
      : cluster_(cluster),
        workload_(workload),
        options_(options),
        scheduler_(cluster, info, std::move(policy), clock_, *this) {
    const std::size_t count = workload.jobs.size();
    jobs_.resize(count);
    version_.assign(count, 0);
    useful_of_.assign(count, 0.0);
    active_at_arrival_.assign(count, 0.0);
    followers_.resize(count);
    awaited_.assign(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      awaited_[i] = workload.jobs[i].after.size();
      for (const std::size_t other : workload.jobs[i].after) followers_[other].push_back(i);
    }
    skip_followers();
    result_.jobs.resize(count);
    if (options.record_devices) noted_.resize(count);
    result_.summary.policy = info.name;
    result_.summary.workload = workload.name;
    result_.summary.seed = options.seed;
  }

  Result<SimResult> run() {
    const auto start = std::chrono::steady_clock::now();
    const Status done = options_.round_s ? run_rounds(*options_.round_s) : run_events();
    if (!done) return done.error();
    result_.end_s = clock_.now;
    finish_summary();
    result_.summary.wall_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

  void apply(std::span<const Action> actions) override {
    for (const Action& action : actions) {
      const std::size_t i = action.job.index();
      if (action.reason == Reason::kRejected) {
        drop(i);
        continue;
      }
      jobs_[i]->set_allocation(action.after, clock_.now, pause_of(action));
      note_devices(i, action.after.shares);
      JobResult& result = result_.jobs[i];
      if (result.start_s < 0 && !action.after.empty()) result.start_s = clock_.now;
      reschedule(i);
    }
  }

 private:
  // When nothing runs and no event is pending, this many rounds without a start mean that the
  // policy will never start anything.
  static constexpr int kPatience = 1000;

  bool stuck() const {
    return scheduler_.running() == 0 && next_arrival() == kNever && next_external() == kNever;
  }

  // True if a limit ends the simulation before it reaches `next`.
  bool ends_before(Seconds next) {
    const SimLimits& limits = options_.limits;
    if (limits.until_job) {
      const JobResult& job = result_.jobs[*limits.until_job];
      if (job.finished() || job.dropped) result_.end = SimEnd::kJobEnded;
    }
    if (result_.end == SimEnd::kDone && next > limits.horizon_s) {
      move_clock(limits.horizon_s);
      result_.end = SimEnd::kHorizon;
    }
    if (result_.end == SimEnd::kDone && limits.should_stop && limits.should_stop()) {
      result_.end = SimEnd::kStopped;
    }
    return result_.end != SimEnd::kDone;
  }

  Status run_events() {
    Seconds wake = options_.start ? options_.start->decides_again_s : kNever;
    int idle_rounds = 0;
    while (idle_rounds <= kPatience) {
      const Seconds next = std::min({next_arrival(), next_job_event(), next_external(), wake});
      if (next == kNever || (all_arrived() && scheduler_.jobs().empty())) break;
      if (ends_before(next)) break;
      const bool woken = wake <= next;
      const bool decided_elsewhere = options_.start && next <= 0;
      if ((process_until(next) && !decided_elsewhere) || woken) {
        auto at = decide();
        if (!at) return at.error();
        wake = *at;
        idle_rounds = stuck() ? idle_rounds + 1 : 0;
      }
    }
    return ok_status();
  }

  Status run_rounds(Seconds round) {
    int idle_rounds = 0;
    for (double index = 1; !(all_arrived() && scheduler_.jobs().empty()); ++index) {
      if (scheduler_.jobs().empty()) {
        if (next_arrival() == kNever) break;
        index = std::max(index, std::ceil(next_arrival() / round));
      }
      if (ends_before(index * round)) break;
      process_until(index * round);
      if (scheduler_.jobs().empty()) continue;
      auto decided = decide();
      if (!decided) return decided.error();
      idle_rounds = stuck() ? idle_rounds + 1 : 0;
      if (idle_rounds > kPatience) break;
    }
    return ok_status();
  }

  // Handles everything up to and including `until` and sets the clock to it. True if a scheduler
  // should react to something that happened.
  bool process_until(Seconds until) {
    bool relevant = false;
    while (true) {
      const Seconds arrival = next_arrival();
      const Seconds event = next_job_event();
      const Seconds external = next_external();
      const Seconds next = std::min({arrival, event, external});
      if (next > until) break;
      move_clock(next);
      if (event == next) {
        relevant = handle_job_event() || relevant;
      } else if (external == next) {
        handle_external();
        relevant = true;
      } else {
        arrive();
        relevant = true;
      }
    }
    move_clock(until);
    return relevant;
  }

  // Runs a scheduling round. Returns when the scheduler wants to be woken.
  Result<Seconds> decide() {
    for (const JobState* state : scheduler_.jobs()) {
      if (!state->running() || state->learned == nullptr) continue;
      const std::size_t i = state->spec.id.index();
      jobs_[i]->reconsider_batch(clock_.now);
      reschedule(i);
    }
    const auto record = scheduler_.round();
    if (!record) return record.error();
    algorithm_ms_.push_back(record->algorithm_s * 1e3);
    total_ms_.push_back(record->total_s * 1e3);
    note_given_back();
    if (!record->note.empty()) ++result_.summary.decisions.noted;
    if (options_.interference > 0) update_interference();
    note_timeline();
    if (options_.on_round) options_.on_round(scheduler_);
    const Seconds wake = record->wake_at_s.value_or(kNever);
    return wake > clock_.now ? wake : kNever;
  }

  void arrive() {
    const std::size_t i = next_to_arrive();
    if (i == in_order_) {
      ++in_order_;
      skip_followers();
    } else {
      due_.pop_front();
    }
    ++arrived_;
    const WorkloadJob& job = workload_.jobs[i];
    const SpeedModel* speed = nullptr;
    if (job.application) {
      const bool portable = job.spec.mixes_types;
      auto& cache = caches_[portable ? 1 : 0][job.application.get()];
      if (!cache) cache = std::make_unique<SpeedCache>(*job.application, portable);
      speed = cache.get();
    }
    jobs_[i] = std::make_unique<SimJob>(job, cluster_, speed, options_.law, options_.quirks);
    JobResult& result = result_.jobs[i];
    result.name = job.spec.name;
    result.application = job.spec.application;
    result.tenant = job.spec.tenant;
    result.requested_devices = job.spec.requested_devices;
    result.submit_s = job.after.empty() ? job.spec.submit_s : clock_.now;
    active_at_arrival_[i] = active_seconds_;
    JobKnowledge knowledge = jobs_[i]->knowledge();
    knowledge.resize_cost_s = options_.resize.stop_free_s.value_or(
        job.spec.resize_cost_s.value_or(options_.resize.stop_s));
    const bool has_past = options_.start && i < options_.start->jobs.size() && job.after.empty();
    const Status accepted =
        has_past ? scheduler_.adopt(job.spec, knowledge, options_.start->jobs[i].past)
                 : scheduler_.submit(job.spec, knowledge);
    RUBATO_CHECK(accepted.ok(), accepted.ok() ? "" : accepted.error().message.c_str());
    if (has_past) resume(i, options_.start->jobs[i]);
    note_timeline();
  }

  // The job keeps the devices it had before the simulation.
  void resume(std::size_t i, const SimStart::Job& before) {
    if (before.past.allocation.empty()) return;
    jobs_[i]->set_allocation(before.past.allocation, clock_.now, before.pause_s);
    note_devices(i, before.past.allocation.shares);
    result_.jobs[i].start_s = clock_.now;
    reschedule(i);
  }

  // True if the job finished.
  bool handle_job_event() {
    const Event event = events_.top();
    events_.pop();
    SimJob& job = *jobs_[event.job];
    job.advance(clock_.now);
    if (!job.finished()) {
      reschedule(event.job);
      note_timeline();  // it computes again after a pause, or with another batch
      return false;
    }
    finish(event.job);
    return true;
  }

  void finish(std::size_t i) {
    SimJob& job = *jobs_[i];
    const JobState& state = *scheduler_.find(JobId(i));
    JobResult& result = result_.jobs[i];
    result.finish_s = job.finish_s();
    result.device_s = state.attained_service(clock_.now);
    result.queue_s = std::max(0.0, result.jct_s() - state.executed_s(clock_.now));
    result.lost_device_s = job.lost_device_s();
    result.resizes = std::max(0, state.starts - 1) + state.resizes;
    result.fairness = fairness(i);
    note_devices(i, {});
    scheduler_.remove(JobId(i));
    useful_now_ -= useful_of_[i];
    ended(i);
    note_timeline();
  }

  // The policy turned away a job that never ran.
  void drop(std::size_t i) {
    JobResult& result = result_.jobs[i];
    result.dropped = true;
    result.queue_s = clock_.now - result.submit_s;
    ended(i);
  }

  void ended(std::size_t i) {
    for (const std::size_t other : followers_[i]) {
      if (--awaited_[other] == 0) due_.push_back(other);
    }
    ++version_[i];
    jobs_[i].reset();
    note_given_back();
    ++ended_;
    if (options_.on_progress && ended_ % 64 == 0) options_.on_progress(ended_);
  }

  // Completion time / time alone on an equal share of the cluster, averaged over the job's life.
  double fairness(std::size_t i) const {
    const JobResult& result = result_.jobs[i];
    const JobSpec& spec = workload_.jobs[i].spec;
    const Seconds alive = std::max(clock_.now - result.submit_s, 1e-9);
    const double others = std::max(1.0, (active_seconds_ - active_at_arrival_[i]) / alive);
    const double share = std::max(1.0, cluster_.devices() / others);
    const bool rigid = spec.mode == ElasticMode::kRigid;
    const int low = rigid ? spec.requested_devices : spec.min_devices;
    const int high = rigid ? spec.requested_devices : spec.max_devices;
    const int devices = std::clamp(static_cast<int>(share), low, high);
    // A job that cannot run on so few devices would get its share as a share of time.
    const double time_share = std::min(1.0, share / devices);
    return result.jct_s() / (jobs_[i]->isolated_s(devices) / time_share);
  }

  Seconds pause_of(const Action& action) const {
    const JobSpec& spec = workload_.jobs[action.job.index()].spec;
    const Seconds stop = spec.resize_cost_s.value_or(options_.resize.stop_s);
    return action.before.empty() ? stop : options_.resize.stop_free_s.value_or(stop);
  }

  void reschedule(std::size_t i) {
    const SimJob& job = *jobs_[i];
    const double useful = job.useful_devices(clock_.now);
    useful_now_ += useful - useful_of_[i];
    useful_of_[i] = useful;
    ++version_[i];
    const Seconds next = job.finished() ? clock_.now : job.next_event_s();
    if (next == kNever) return;
    events_.push({std::max(next, clock_.now), static_cast<std::uint32_t>(i), version_[i]});
  }

  // Jobs that span nodes slow each other down where they share a node.
  void update_interference() {
    std::vector<int> spanning(cluster_.nodes().size(), 0);
    for (const JobState* state : scheduler_.jobs()) {
      if (state->allocation.shares.size() < 2) continue;
      for (const NodeShare& share : state->allocation.shares) ++spanning[share.node.index()];
    }
    for (const JobState* state : scheduler_.jobs()) {
      if (!state->running()) continue;
      const auto& shares = state->allocation.shares;
      const bool disturbed =
          shares.size() > 1 && std::any_of(shares.begin(), shares.end(), [&](const NodeShare& s) {
            return spanning[s.node.index()] > 1;
          });
      const std::size_t i = state->spec.id.index();
      jobs_[i]->set_interference(disturbed ? options_.interference : 0, clock_.now);
      reschedule(i);
    }
  }

  // One whose awaited jobs have ended, or the next in the workload's order that awaits none; the
  // number of jobs if there is nobody.
  std::size_t next_to_arrive() const {
    if (due_.empty()) return in_order_;
    const Seconds due_s = workload_.jobs[due_.front()].spec.submit_s;
    const bool other_first = due_s > clock_.now && in_order_ < workload_.jobs.size() &&
                             workload_.jobs[in_order_].spec.submit_s < due_s;
    return other_first ? in_order_ : due_.front();
  }
  Seconds next_arrival() const {
    const std::size_t i = next_to_arrive();
    if (i == workload_.jobs.size()) return kNever;
    const Seconds submit_s = workload_.jobs[i].spec.submit_s;
    return i == in_order_ ? submit_s : std::max(submit_s, clock_.now);
  }
  void skip_followers() {
    while (in_order_ < workload_.jobs.size() && !workload_.jobs[in_order_].after.empty()) {
      ++in_order_;
    }
  }
  bool all_arrived() const { return arrived_ == workload_.jobs.size(); }

  Seconds next_job_event() {
    while (!events_.empty() && events_.top().version != version_[events_.top().job]) events_.pop();
    return events_.empty() ? kNever : events_.top().time_s;
  }

  Seconds next_external() const {
    Seconds next = kNever;
    if (node_event_ < options_.node_events.size()) next = options_.node_events[node_event_].time_s;
    if (serving_ < options_.serving_load.size()) {
      next = std::min(next, options_.serving_load[serving_].time_s);
    }
    if (!asked_.empty()) next = std::min(next, asked_.front().time_s + options_.give_back_s);
    return next;
  }

  void handle_external() {
    if (node_event_ < options_.node_events.size() &&
        options_.node_events[node_event_].time_s <= clock_.now) {
      const NodeEvent& event = options_.node_events[node_event_++];
      if (options_.record_devices)
        result_.node_events.push_back({clock_.now, event.node, event.down});
      scheduler_.set_node_down(event.node, event.down);
    } else if (serving_ < options_.serving_load.size() &&
               options_.serving_load[serving_].time_s <= clock_.now) {
      const ServingLoad& load = options_.serving_load[serving_++];
      scheduler_.set_reserved(load.type, load.devices, options_.give_back_s > 0);
      if (scheduler_.owed(load.type) > 0) asked_.push_back({clock_.now, load.type});
    } else {
      scheduler_.enforce_reserved();
    }
    note_given_back();
    note_timeline();
  }

  // Records the requests of serving that have been fulfilled.
  void note_given_back() {
    std::erase_if(asked_, [&](const Asked& asked) {
      if (scheduler_.owed(asked.type) > 0) return false;
      Seconds& longest = result_.summary.serving_wait_max_s;
      longest = std::max(longest, clock_.now - asked.time_s);
      return true;
    });
  }

  // Advances the clock and adds the state that held until now to the integrals.
  void move_clock(Seconds to) {
    const Seconds passed = to - clock_.now;
    if (passed <= 0) return;
    if (arrived_ > 0) {
      allocated_s_ += passed * scheduler_.allocated();
      useful_s_ += passed * useful_now_;
      active_seconds_ += passed * static_cast<double>(scheduler_.jobs().size());
      if (!(all_arrived() && scheduler_.jobs().empty())) usable_s_ += passed * scheduler_.usable();
    }
    clock_.now = to;
  }

  // Not every action changes a job's devices; some only change its batch.
  void note_devices(std::size_t job, const std::vector<NodeShare>& shares) {
    if (!options_.record_devices || shares == noted_[job]) return;
    noted_[job] = shares;
    result_.changes.push_back({clock_.now, job, shares});
  }

  void note_timeline() {
    const int running = scheduler_.running();
    const TimelinePoint point{.time_s = clock_.now,
                              .usable = scheduler_.usable(),
                              .allocated = scheduler_.allocated(),
                              .useful = std::max(0.0, useful_now_),
                              .running = running,
                              .waiting = static_cast<int>(scheduler_.jobs().size()) - running};
    std::vector<TimelinePoint>& line = result_.timeline;
    if (!line.empty() && line.back().time_s == point.time_s) {
      line.back() = point;
    } else if (line.empty() || line.back().allocated != point.allocated ||
               line.back().usable != point.usable || line.back().running != point.running ||
               line.back().waiting != point.waiting ||
               std::abs(line.back().useful - point.useful) > 1e-9) {
      line.push_back(point);
    }
  }

  void finish_summary() {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!jobs_[i]) continue;  // finished or turned away
      const JobState& state = *scheduler_.find(JobId(i));
      JobResult& result = result_.jobs[i];
      result.device_s = state.attained_service(clock_.now);
      result.lost_device_s = jobs_[i]->lost_device_s();
      result.queue_s = clock_.now - result.submit_s - state.executed_s(clock_.now);
      result.resizes = std::max(0, state.starts - 1) + state.resizes;
    }
    SimSummary& summary = result_.summary;
    summarize_jobs(result_.jobs, summary);
    summary.allocated_ratio = usable_s_ > 0 ? allocated_s_ / usable_s_ : 0;
    summary.useful_ratio = usable_s_ > 0 ? useful_s_ / usable_s_ : 0;
    summary.decisions.rounds = static_cast<long>(total_ms_.size());
    summary.decisions.algorithm_ms_mean = mean(algorithm_ms_);
    summary.decisions.total_ms_mean = mean(total_ms_);
    summary.decisions.algorithm_ms_p99 = percentile_sorted(sorted_copy(algorithm_ms_), 99);
    const std::vector<double> total_ms = sorted_copy(total_ms_);
    summary.decisions.total_ms_p50 = percentile_sorted(total_ms, 50);
    summary.decisions.total_ms_p99 = percentile_sorted(total_ms, 99);
  }

  const Cluster& cluster_;
  const Workload& workload_;
  const SimOptions& options_;
  SimClock clock_;
  Scheduler scheduler_;

  std::vector<std::unique_ptr<SimJob>> jobs_;  // null before arrival and after the end
  // Without and with kernels that give the same bits on every device type.
  std::array<std::unordered_map<const Application*, std::unique_ptr<SpeedCache>>, 2> caches_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::uint32_t> version_;
  std::size_t arrived_ = 0;
  std::size_t in_order_ = 0;  // earlier ones without awaited jobs have arrived
  std::vector<std::vector<std::size_t>> followers_;  // who awaits each job
  std::vector<std::size_t> awaited_;                 // jobs that each still awaits
  std::deque<std::size_t> due_;                      // what they await has ended
  int ended_ = 0;
  std::size_t node_event_ = 0;
  std::size_t serving_ = 0;
  struct Asked {
    Seconds time_s;
    DeviceTypeId type;
  };
  std::vector<Asked> asked_;  // requests of serving not fulfilled yet, oldest first

  std::vector<double> useful_of_;
  double useful_now_ = 0;
  double allocated_s_ = 0;
  double useful_s_ = 0;
  double usable_s_ = 0;
  double active_seconds_ = 0;              // integral of the number of active jobs
  std::vector<double> active_at_arrival_;  // its value when each job arrived
  std::vector<double> algorithm_ms_;
  std::vector<double> total_ms_;
  std::vector<std::vector<NodeShare>> noted_;  // what each job holds, for SimResult::changes
  SimResult result_;
};

}  // namespace

Result<SimResult> simulate(const Cluster& cluster, const Workload& workload,
                           const PolicyInfo& policy, const SimOptions& options) {
  auto made = make_policy(policy, options.settings, options.seed);
  if (!made) return made.error();
  return simulate(cluster, workload, policy, std::move(*made), options);
}

Result<SimResult> simulate(const Cluster& cluster, const Workload& workload, const PolicyInfo& info,
                           std::unique_ptr<Policy> policy, const SimOptions& options) {
  return Simulation(cluster, workload, info, std::move(policy), options).run();
}

}  // namespace rubato
