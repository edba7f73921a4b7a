#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "sched/decision.h"
#include "sched/placement.h"
#include "sched/sizes.h"

namespace rubato {

namespace {

class Stopwatch {
 public:
  Seconds elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Scheduler::Scheduler(const Cluster& cluster, const PolicyInfo& info, std::unique_ptr<Policy> policy,
                     const Clock& clock, Executor& executor)
    : cluster_(cluster),
      info_(info),
      policy_(std::move(policy)),
      clock_(clock),
      executor_(executor),
      down_(cluster.nodes().size(), 0),
      usable_(cluster.nodes().size(), 0) {
  refresh_usable();
}

Status Scheduler::check(const JobSpec& spec) const {
  int largest = 0;
  for (std::size_t type = 0; type < cluster_.type_count(); ++type) {
    if (spec.allows(DeviceTypeId(type))) largest = std::max(largest, cluster_.capacity().of[type]);
  }
  const int smallest = spec.smallest();
  if (spec.requested_devices < spec.min_devices || spec.requested_devices > spec.max_devices) {
    return invalid_input(fmt::format("job '{}' requests {} devices, outside of its range {} to {}",
                                     spec.name, spec.requested_devices, spec.min_devices,
                                     spec.max_devices));
  }
  if (spec.pinned_devices != 0 &&
      (spec.pinned_devices < smallest || spec.pinned_devices > spec.max_devices)) {
    return invalid_input(
        fmt::format("job '{}' is pinned to {} devices, outside of its range {} to {}", spec.name,
                    spec.pinned_devices, smallest, spec.max_devices));
  }
  if (spec.power_of_two_sizes && smallest >= 1 &&
      !std::has_single_bit(static_cast<unsigned>(smallest))) {
    return invalid_input(fmt::format(
        "job '{}' runs on 1, 2, 4, ... devices only; no such number is in its range {} "
        "to {}",
        spec.name, smallest, spec.mode == ElasticMode::kRigid ? smallest : spec.max_devices));
  }
  if (smallest > largest || smallest < 1 || spec.max_devices < spec.min_devices) {
    return invalid_input(fmt::format(
        "job '{}' needs {} to {} devices; the cluster has at most {} of a type it allows",
        spec.name, smallest, spec.max_devices, largest));
  }
  return ok_status();
}

void Scheduler::know(JobState& state, const JobKnowledge& knowledge) const {
  state.profiled = knowledge.profiled;
  state.learned = knowledge.learned;
  state.progress = knowledge.progress;
  state.resize_cost_s = knowledge.resize_cost_s;
  if (info_.needs_knowledge(Knowledge::kRemainingWork)) state.remaining = knowledge.remaining;
}

Status Scheduler::submit(JobSpec spec, const JobKnowledge& knowledge) {
  return adopt(std::move(spec), knowledge, {.allocation = {}, .changed_at_s = clock_.now_s()});
}

Status Scheduler::adopt(JobSpec spec, const JobKnowledge& knowledge, JobPast past) {
  if (by_id_.contains(spec.id)) {
    return invalid_input(fmt::format("job '{}' is already active", spec.name));
  }
  spec.round_to_sizes();
  Status possible = check(spec);
  if (!possible.ok()) return possible;
  auto state = std::make_unique<JobState>();
  know(*state, knowledge);
  state->spec = std::move(spec);
  state->changed_at_s = past.changed_at_s;
  state->resized_at_s = past.changed_at_s;
  state->executed_until_change_s = past.executed_s;
  state->service_until_change = past.service;
  state->starts = past.starts;
  state->resizes = past.resizes;
  state->allocation = std::move(past.allocation);
  if (state->running()) {
    state->reason = Reason::kKept;
    allocated_ += state->allocation.devices();
    ++running_;
  }
  active_.push_back(state.get());
  by_id_.emplace(state->spec.id, std::move(state));
  return ok_status();
}

Status Scheduler::update(JobSpec spec, const JobKnowledge& knowledge) {
  const auto found = by_id_.find(spec.id);
  if (found == by_id_.end()) {
    return invalid_input(fmt::format("job '{}' is not active", spec.name));
  }
  know(*found->second, knowledge);  // what it replaces may be gone
  spec.round_to_sizes();
  Status possible = check(spec);
  if (!possible.ok()) return possible;
  found->second->spec = std::move(spec);
  return ok_status();
}

void Scheduler::remove(JobId job) {
  const auto found = by_id_.find(job);
  RUBATO_CHECK(found != by_id_.end(), "a job that is not active ended");
  const JobState& state = *found->second;
  const Seconds now_s = clock_.now_s();
  FinishedJob& finished = finished_.emplace_back();
  finished.id = job;
  finished.attained_service = state.attained_service(now_s);
  finished.executed_s = state.executed_s(now_s);
  finished.application = state.spec.application;
  if (state.progress != nullptr) {
    finished.epochs = state.progress->epochs_done(now_s);
    finished.samples = state.progress->samples_done(now_s);
  }
  if (state.running()) {
    --running_;
    allocated_ -= state.allocation.devices();
  }
  active_.erase(std::find(active_.begin(), active_.end(), &state));
  by_id_.erase(found);
  if (owed_.total() > 0) refresh_owed();
}

const JobState* Scheduler::find(JobId job) const {
  const auto found = by_id_.find(job);
  return found == by_id_.end() ? nullptr : found->second.get();
}

void Scheduler::set_node_down(NodeId node, bool down) {
  down_[node.index()] = down ? 1 : 0;
  refresh_usable();
  evict(Reason::kNodeDown);
}

void Scheduler::set_reserved(DeviceTypeId type, int devices, bool gracefully) {
  reserved_[type] = devices;
  refresh_usable();
  if (gracefully) {
    refresh_owed();
  } else {
    evict(Reason::kReclaimed);
  }
}

void Scheduler::refresh_owed() {
  std::vector<int> used(usable_.size(), 0);
  for (const JobState* job : jobs()) {
    for (const NodeShare& share : job->allocation.shares) used[share.node.index()] += share.devices;
  }
  owed_ = {};
  for (std::size_t i = 0; i < used.size(); ++i) {
    owed_[cluster_.nodes()[i].type] += std::max(0, used[i] - usable_[i]);
  }
}

void Scheduler::refresh_usable() {
  DeviceCounts to_reserve = reserved_;
  usable_by_type_ = {};
  for (std::size_t i = cluster_.nodes().size(); i-- > 0;) {
    const Node& node = cluster_.nodes()[i];
    const int up = down_[i] != 0 ? 0 : node.devices;
    const int reserved = std::min(up, to_reserve[node.type]);
    to_reserve[node.type] -= reserved;
    usable_[i] = up - reserved;
    usable_by_type_[node.type] += usable_[i];
  }
}

void Scheduler::evict(Reason reason) {
  std::vector<Action> actions;
  for (PlacementChange& lost : fit_to_usable(jobs(), usable_)) {
    JobState& job = *active_[lost.job];
    const DecisionFacts facts = facts_of_loss(job, lost.after);
    change(job, std::move(lost.after), reason, facts, actions);
  }
  owed_ = {};
  if (!actions.empty()) executor_.apply(actions);
}

void Scheduler::change(JobState& job, Allocation after, Reason reason, const DecisionFacts& facts,
                       std::vector<Action>& actions) {
  const Seconds now_s = clock_.now_s();
  const bool was_running = job.running();
  job.executed_until_change_s = job.executed_s(now_s);
  job.service_until_change = job.attained_service(now_s);
  job.changed_at_s = now_s;
  if (after.shares != job.allocation.shares) job.resized_at_s = now_s;
  allocated_ += after.devices() - job.allocation.devices();
  running_ += static_cast<int>(!after.empty()) - static_cast<int>(was_running);
  if (!was_running) {
    ++job.starts;
  } else if (!after.empty() && after.shares != job.allocation.shares) {
    ++job.resizes;
  }
  job.reason = reason;
  job.facts = facts;
  actions.push_back({job.spec.id, std::move(job.allocation), after, reason, facts});
  job.allocation = std::move(after);
}

// Rejected jobs never appear in the history (PolicyInput::finished).
void Scheduler::turn_away(const Plan& plan, std::vector<Action>& actions) {
  for (const Grant& grant : plan.grants) {
    if (!grant.rejected) continue;
    actions.push_back({.job = grant.job, .before = {}, .after = {}, .reason = Reason::kRejected});
    const auto found = by_id_.find(grant.job);
    std::erase(active_, found->second.get());
    by_id_.erase(found);
  }
}

PolicyInput Scheduler::input_now(std::span<const FinishedJob> finished) const {
  return {.now_s = clock_.now_s(),
          .cluster = cluster_,
          .usable = usable_,
          .usable_by_type = usable_by_type_,
          .jobs = jobs(),
          .finished = finished};
}

Result<RoundRecord> Scheduler::round() {
  RUBATO_CHECK(!asked_, "a round while the policy decides in another thread");
  // The policy is told once, whatever comes of its plan.
  const std::vector<FinishedJob> finished = std::exchange(finished_, {});
  return decide_with(*policy_, finished);
}

Result<RoundRecord> Scheduler::round_with(Policy& policy) { return decide_with(policy, {}); }

Error Scheduler::invalid(const PlanError& error, Seconds now_s) const {
  return {ErrorCode::kInvalidPlan, fmt::format("policy {} returned an invalid plan at {} s: {}",
                                               info_.name, now_s, error.message)};
}

Result<RoundRecord> Scheduler::decide_with(Policy& policy, std::span<const FinishedJob> finished) {
  const Stopwatch whole;
  // Policies only see jobs on usable devices, so devices that serving asked for gracefully are
  // taken back now.
  if (owed_.total() > 0) enforce_reserved();
  const PolicyInput input = input_now(finished);
  const Stopwatch deciding;
  Plan plan = policy.decide(input);
  RoundRecord record{.algorithm_s = deciding.elapsed_s(),
                     .solver_s = plan.solver_s,
                     .wake_at_s = plan.wake_at_s,
                     .note = plan.note};
  keep_to_sizes(plan, input);
  if (const auto error = validate(plan, input)) return invalid(*error, input.now_s);
  const std::vector<Action> actions = carry_out(plan, input);
  record.actions = static_cast<int>(actions.size());
  record.total_s = whole.elapsed_s();
  if (!actions.empty()) executor_.apply(actions);
  return record;
}

Question Scheduler::ask() {
  RUBATO_CHECK(!asked_, "two questions at once");
  if (owed_.total() > 0) enforce_reserved();
  asked_ = true;
  Question question;
  question.now_s = clock_.now_s();
  question.cluster = cluster_;
  question.usable = usable_;
  question.usable_by_type = usable_by_type_;
  question.finished = std::exchange(finished_, {});
  question.states.reserve(active_.size());
  for (const JobState* job : active_) question.states.push_back(*job);
  for (const JobState& job : question.states) question.jobs.push_back(&job);
  return question;
}

Result<RoundRecord> Scheduler::accept(const Question& question, Plan plan,
                                      const RoundRecord& times) {
  const Stopwatch whole;
  asked_ = false;
  if (owed_.total() > 0) enforce_reserved();
  RoundRecord record{.algorithm_s = times.algorithm_s,
                     .solver_s = plan.solver_s,
                     .wake_at_s = plan.wake_at_s,
                     .note = plan.note};
  const PolicyInput asked = question.input();
  keep_to_sizes(plan, asked);
  if (const auto error = validate(plan, asked)) return invalid(*error, question.now_s);
  const PolicyInput input = input_now({});
  const CarriedPlan carried = carry_over(question, plan, input);
  record.left_out = carried.left_out;
  record.dropped = carried.why;
  std::vector<Action> actions;
  if (carried.plan) actions = carry_out(*carried.plan, input);
  record.actions = static_cast<int>(actions.size());
  record.total_s = times.algorithm_s + whole.elapsed_s();
  if (!actions.empty()) executor_.apply(actions);
  return record;
}

std::vector<Action> Scheduler::carry_out(const Plan& plan, const PolicyInput& input) {
  std::vector<Action> actions;
  std::vector<PlacementChange> changes = place(plan, input);
  const Decision decision(plan, input, changes);
  std::vector<std::pair<Reason, DecisionFacts>> explained;
  explained.reserve(changes.size());
  for (const PlacementChange& placed : changes) {
    explained.emplace_back(decision.reason(placed.job), decision.facts(placed.job));
  }
  for (std::size_t i = 0; i < plan.grants.size(); ++i) {
    if (active_[i]->running()) continue;
    active_[i]->reason = decision.reason(i);
    active_[i]->facts = decision.facts(i);
  }
  for (std::size_t k = 0; k < changes.size(); ++k) {
    change(*active_[changes[k].job], std::move(changes[k].after), explained[k].first,
           explained[k].second, actions);
  }
  turn_away(plan, actions);
  owed_ = {};  // a placed plan is within what is usable
  return actions;
}

}  // namespace rubato
