#include "sched/decision.h"

#include <algorithm>

namespace rubato {

Decision::Decision(const Plan& plan, const PolicyInput& input,
                   std::span<const PlacementChange> changes)
    : plan_(plan), input_(input), free_before_(input.usable_by_type), free_(input.usable_by_type) {
  after_.reserve(input.jobs.size());
  for (const JobState* job : input.jobs) after_.push_back(&job->allocation);
  for (const PlacementChange& change : changes) after_[change.job] = &change.after;
  bool about_tenants = false;
  for (std::size_t i = 0; i < after_.size(); ++i) {
    const DeviceCounts before = input.jobs[i]->allocation.counts(input.cluster);
    const DeviceCounts after = after_[i]->counts(input.cluster);
    for (std::size_t type = 0; type < input.cluster.type_count(); ++type) {
      free_before_.of[type] -= before.of[type];
      free_.of[type] -= after.of[type];
      gained_.of[type] += std::max(0, after.of[type] - before.of[type]);
    }
    held_ += after.total();
    waiting_ += after_[i]->empty() ? 1 : 0;
    about_tenants = about_tenants || plan.grants[i].waiting == Reason::kTenantShare;
  }
  if (!about_tenants) return;
  for (std::size_t i = 0; i < after_.size(); ++i) {
    held_by_tenant_[input.jobs[i]->spec.tenant] += after_[i]->devices();
  }
}

int Decision::usable_for(const JobSpec& spec, const DeviceCounts& counts) const {
  int usable = 0;
  for (std::size_t type = 0; type < input_.cluster.type_count(); ++type) {
    if (!spec.allows(DeviceTypeId(type))) continue;
    usable = spec.mixes_types ? usable + counts.of[type] : std::max(usable, counts.of[type]);
  }
  return usable;
}

// Of the devices that it lost, those of types of which others gained more than were free.
int Decision::given_to_others(std::size_t job) const {
  const DeviceCounts before = input_.jobs[job]->allocation.counts(input_.cluster);
  const DeviceCounts after = after_[job]->counts(input_.cluster);
  int given = 0;
  for (std::size_t type = 0; type < input_.cluster.type_count(); ++type) {
    const int lost = std::max(0, before.of[type] - after.of[type]);
    given += std::clamp(gained_.of[type] - free_before_.of[type], 0, lost);
  }
  return given;
}

DecisionFacts Decision::facts(std::size_t job) const {
  const JobSpec& spec = input_.jobs[job]->spec;
  return {.before = input_.jobs[job]->allocation.devices(),
          .after = after_[job]->devices(),
          .needs = spec.smallest(),
          .free = usable_for(spec, free_),
          .usable = usable_for(spec, input_.usable_by_type),
          .to_others = given_to_others(job)};
}

Reason Decision::reason(std::size_t job) const {
  const DecisionFacts f = facts(job);
  if (f.after == 0) return f.to_others > 0 ? Reason::kPreempted : reason_to_wait(job, f);
  if (plan_.grants[job].pinned) return Reason::kPinned;
  if (f.before == 0) return Reason::kStarted;
  if (f.after > f.before) return Reason::kGrown;
  if (f.after < f.before) return reason_of_less(job, f);
  const bool same = after_[job]->shares == input_.jobs[job]->allocation.shares;
  return same ? Reason::kKept : Reason::kMoved;
}

Reason Decision::reason_of_less(std::size_t job, const DecisionFacts& f) const {
  const JobSpec& spec = input_.jobs[job]->spec;
  if (f.before > spec.max_devices) {
    switch (spec.limit) {
      case DeviceLimit::kMeasured:
        return Reason::kSlowerOnMore;
      case DeviceLimit::kLogicalWorkers:
        return Reason::kLogicalWorkers;
      case DeviceLimit::kOwner:
        return Reason::kRangeChanged;
    }
  }
  if (f.to_others > 0) return Reason::kShrunk;
  return plan_.grants[job].cut_to_size ? Reason::kCutToSize : Reason::kFewer;
}

Reason Decision::reason_to_wait(std::size_t job, const DecisionFacts& f) const {
  const Reason hint = plan_.grants[job].waiting;
  if (hint == Reason::kTenantQuota) return hint;
  if (f.usable < f.needs) return Reason::kTooFewUsable;
  if (f.free >= f.needs) {
    return hint == Reason::kWaitsBehind && waiting_ > 1 ? hint : Reason::kHeldBack;
  }
  if (hint == Reason::kTenantShare) {
    const auto own = held_by_tenant_.find(input_.jobs[job]->spec.tenant);
    if (held_ > own->second) return hint;
  }
  if (hint == Reason::kNotWorthwhile && held_ > 0) return hint;
  return Reason::kWaitsForDevices;
}

DecisionFacts facts_of_loss(const JobState& job, const Allocation& after) {
  return {
      .before = job.allocation.devices(), .after = after.devices(), .needs = job.spec.smallest()};
}

}  // namespace rubato
