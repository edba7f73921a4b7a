#include "control/live_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "control/machine_fit.h"
#include "sched/one_node_policy.h"
#include "sched/pinned_policy.h"
#include "sched/stopgap_policy.h"
#include "sched/tenant_policy.h"

namespace rubato::control {

namespace {

constexpr std::uint64_t kSeed = 1;

JobId id_of(JobNumber job) { return JobId(static_cast<std::int32_t>(job)); }

// On how many nodes so many workers of the job are. While devices change hands, a guess.
int nodes_with(const JobRecord& record, int workers) {
  const bool as_granted = workers == record.granted && workers != record.held;
  return static_cast<int>(as_granted ? record.nodes.size() : record.held_nodes.size());
}

TenantRules rules_of(const LivePolicy& policy) {
  TenantRules rules;
  for (const auto& [name, tenant] : policy.tenants) {
    rules[name] = {.weight = tenant.weight, .quota = tenant.quota};
  }
  return rules;
}

}  // namespace

LiveScheduler::LiveScheduler(const LiveCluster& cluster, std::function<double()> now)
    : cluster_(cluster), now_(std::move(now)) {}

Result<std::unique_ptr<Policy>> make_live_policy(const LivePolicy& policy) {
  const Result<const PolicyInfo*> info = find_policy(policy.name);
  if (!info.ok()) return info.error();
  const Result<std::unique_ptr<Policy>> checked = make_policy(**info, policy.settings, kSeed);
  if (!checked.ok()) return checked.error();
  TenantRules rules = rules_of(policy);
  auto shared = std::make_unique<TenantPolicy>(
      [info = *info, settings = policy.settings](const std::string&) {
        return std::move(*make_policy(*info, settings, kSeed));  // checked above
      },
      rules);
  return std::unique_ptr<Policy>(
      std::make_unique<PinnedPolicy>(std::move(shared), std::move(rules)));
}

Result<std::unique_ptr<LiveScheduler>> LiveScheduler::make(const LiveCluster& cluster,
                                                           const LivePolicy& policy,
                                                           std::function<double()> now) {
  const Result<const PolicyInfo*> info = find_policy(policy.name);
  if (!info.ok()) return info.error();
  Result<std::unique_ptr<Policy>> made = make_live_policy(policy);
  if (!made.ok()) return made.error();
  std::unique_ptr<LiveScheduler> live(new LiveScheduler(cluster, std::move(now)));
  live->policy_name_ = policy.name;
  if (policy.around) *made = policy.around(std::move(*made));
  live->stopgap_ = std::make_unique<PinnedPolicy>(std::make_unique<StopgapPolicy>(rules_of(policy)),
                                                  rules_of(policy));
  if (cluster.keeps_some_together()) {
    *made = std::make_unique<OneNodePolicy>(std::move(*made));
    live->stopgap_ = std::make_unique<OneNodePolicy>(std::move(live->stopgap_));
  }
  live->scheduler_ =
      std::make_unique<Scheduler>(live->cluster_.cluster(), **info, std::move(*made), *live, *live);
  return live;
}

Status LiveScheduler::add(const JobRecord& record, const Profile& profile) {
  if (live_.contains(record.number)) {
    return invalid_input(fmt::format("{} is already active", job_name_of(record.number)));
  }
  if (const std::optional<Misfit> problem = misfit(record, cluster_)) {
    set_aside(record, profile, problem->needs);
    return ok_status();
  }
  if (!record.waits_for.empty() || !turns_.join(record)) {
    waiting_.insert_or_assign(record.number, profile);
    return ok_status();
  }
  waiting_.erase(record.number);
  auto job = std::make_unique<LiveJob>(record, profile, cluster_);
  job->refresh(record, now_());
  JobPast past{.allocation = {},
               .changed_at_s = record.held_at > 0 ? record.held_at : record.submitted_at,
               .service = record.device_s,
               .starts = record.started_at > 0 ? 1 : 0,
               .resizes = record.resizes};
  if (record.granted > 0) {
    past.allocation = keep_what_is_there(record, job->spec());
    past.executed_s = std::max(0.0, past.changed_at_s - record.started_at);
  }
  const Status added = scheduler_->adopt(job->spec(), job->knowledge(), std::move(past));
  if (!added.ok()) {
    fmt::print(stderr, "rubatod: {}\n", added.error().message);
    set_aside(record, profile, job->spec().min_devices);
    return ok_status();
  }
  misfits_.erase(record.number);
  live_[record.number] = std::move(job);
  return ok_status();
}

void LiveScheduler::set_aside(const JobRecord& record, const Profile& profile, int needs) {
  misfits_.insert_or_assign(record.number, profile);
  if (record.granted == 0) return;
  actions_.push_back(
      {.job = id_of(record.number),
       .before = cluster_.allocation_of(record),
       .after = {},
       .reason = Reason::kNodeDown,
       .facts = {
           .before = record.granted, .after = 0, .needs = needs, .usable = cluster_.devices()}});
}

Allocation LiveScheduler::keep_what_is_there(const JobRecord& record, const JobSpec& spec) {
  Allocation left = cluster_.allocation_of(record);
  if (left.devices() == record.granted) return left;
  Action lost{.job = id_of(record.number),
              .before = left,
              .after = {},
              .reason = Reason::kNodeDown,
              .facts = {.before = record.granted,
                        .after = 0,
                        .needs = spec.min_devices,
                        .usable = cluster_.devices()}};
  const bool wrong_size =
      spec.power_of_two_sizes && !std::has_single_bit(static_cast<unsigned>(left.devices()));
  if (spec.mode == ElasticMode::kRigid || left.devices() < spec.min_devices || wrong_size) {
    left = {};
  }
  lost.after = left;
  lost.facts.after = left.devices();
  actions_.push_back(std::move(lost));
  return left;
}

void LiveScheduler::remove(JobNumber job) {
  if (scheduler_->find(id_of(job)) != nullptr) scheduler_->remove(id_of(job));
  live_.erase(job);
  misfits_.erase(job);
  leave(job);
}

void LiveScheduler::leave(JobNumber job) {
  waiting_.erase(job);
  std::erase(next_, job);
  if (const std::optional<JobNumber> next = turns_.leave(job)) next_.push_back(*next);
}

Status LiveScheduler::refresh(const JobRecord& record) {
  if (const auto aside = misfits_.find(record.number); aside != misfits_.end()) {
    if (misfit(record, cluster_)) return ok_status();  // it goes on waiting
    const Profile profile = aside->second;
    return add(record, profile);
  }
  if (const auto waits = waiting_.find(record.number); waits != waiting_.end()) {
    const Profile profile = waits->second;
    return add(record, profile);
  }
  const auto found = live_.find(record.number);
  if (found == live_.end()) return invalid_input("the job is not active");
  found->second->refresh(record, now_());
  return scheduler_->update(found->second->spec(), found->second->knowledge());
}

Profile::News LiveScheduler::report(const JobRecord& record, const LiveProgress& progress) {
  const auto found = live_.find(record.number);
  if (found == live_.end()) return Profile::News::kNone;
  // What is measured on devices of another type does not belong to its profile.
  if (found->second->device_type() != cluster_.type_of(record)) take_over(record);
  const Profile::News news =
      found->second->report(progress, now_(), nodes_with(record, progress.workers));
  if (news != Profile::News::kNone) take_over(record);  // the learned speed changed
  return news;
}

void LiveScheduler::note_change(const JobRecord& record, Seconds seconds) {
  const auto found = live_.find(record.number);
  if (found == live_.end()) return;
  found->second->note_change(seconds);
  take_over(record);
}

void LiveScheduler::take_over(const JobRecord& record) {
  const Status refreshed = refresh(record);
  if (refreshed.ok()) return;
  // The scheduler goes on with what it knew before.
  fmt::print(stderr, "rubatod: {}: {}\n", job_name_of(record.number), refreshed.error().message);
}

bool LiveScheduler::granted_too_much() const {
  std::vector<int> left;
  for (const LiveNode& node : cluster_.nodes()) left.push_back(node.devices);
  for (const JobState* job : scheduler_->jobs()) {
    for (const NodeShare& share : job->allocation.shares) {
      left[share.node.index()] -= share.devices;
    }
  }
  return std::any_of(left.begin(), left.end(), [](int devices) { return devices < 0; });
}

std::vector<Action> LiveScheduler::set_reserved(int devices) {
  const bool too_few = granted_too_much();
  const DeviceCounts& capacity = cluster_.cluster().capacity();
  for (std::size_t type = 0; type < cluster_.cluster().type_count(); ++type) {
    const int reserved = std::min(devices, capacity.of[type]);
    scheduler_->set_reserved(DeviceTypeId(type), reserved);
    devices -= reserved;
  }
  std::vector<Action> actions = std::exchange(actions_, {});
  for (Action& action : actions) {
    if (too_few && action.reason == Reason::kReclaimed) action.reason = Reason::kNodeDown;
  }
  return actions;
}

Result<RoundRecord> LiveScheduler::round(std::vector<Action>& actions) {
  Result<RoundRecord> record = scheduler_->round();
  take_actions(actions);
  return record;
}

void LiveScheduler::take_actions(std::vector<Action>& actions) {
  actions = std::exchange(actions_, {});
  for (const Action& action : actions) {
    if (action.reason != Reason::kRejected) continue;
    live_.erase(number_of(action.job));
    leave(number_of(action.job));
  }
}

std::unique_ptr<DecisionTask> LiveScheduler::ask() {
  auto task = std::make_unique<DecisionTask>();
  task->question = scheduler_->ask();
  task->policy = scheduler_->policy();
  for (JobState& job : task->question.states) {
    const KnownJob& known = task->known.emplace_back(live_.at(number_of(job.spec.id))->known());
    if (job.profiled != nullptr) job.profiled = known.speed.get();
    if (job.learned != nullptr) job.learned = known.learned.get();
    if (job.remaining != nullptr) job.remaining = &known.progress;
    job.progress = &known.progress;
  }
  return task;
}

Result<RoundRecord> LiveScheduler::accept(DecisionAnswer& answer, std::vector<Action>& actions) {
  if (!answer.error.empty()) {
    give_up();
    return Error{ErrorCode::kInvalidPlan,
                 fmt::format("policy {} failed: {}", policy_name_, answer.error)};
  }
  Result<RoundRecord> record = scheduler_->accept(answer.task->question, std::move(answer.plan),
                                                  {.algorithm_s = answer.algorithm_s});
  take_actions(actions);
  return record;
}

Result<RoundRecord> LiveScheduler::stopgap(std::vector<Action>& actions) {
  Result<RoundRecord> record = scheduler_->round_with(*stopgap_);
  take_actions(actions);
  return record;
}

const LiveJob* LiveScheduler::find(JobNumber job) const {
  const auto found = live_.find(job);
  return found == live_.end() ? nullptr : found->second.get();
}

const JobState* LiveScheduler::state(JobNumber job) const { return scheduler_->find(id_of(job)); }

void LiveScheduler::apply(std::span<const Action> actions) {
  for (const Action& action : actions) {
    const auto job = live_.find(number_of(action.job));
    if (job == live_.end()) continue;
    std::vector<int> per_node;
    for (const NodeShare& share : action.after.shares) per_node.push_back(share.devices);
    job->second->place(std::move(per_node));
  }
  actions_.insert(actions_.end(), actions.begin(), actions.end());
}

}  // namespace rubato::control
