#include "sched/question.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "sched/validate.h"

namespace rubato {

namespace {

// Whether a plan for one of them suits the other.
bool same_terms(const JobSpec& a, const JobSpec& b) {
  return a.mode == b.mode && a.min_devices == b.min_devices && a.max_devices == b.max_devices &&
         a.requested_devices == b.requested_devices && a.allowed_types == b.allowed_types &&
         a.power_of_two_sizes == b.power_of_two_sizes && a.mixes_types == b.mixes_types &&
         a.batch == b.batch && a.requested_batch == b.requested_batch &&
         a.logical_workers == b.logical_workers;
}

bool within(const DeviceCounts& part, const DeviceCounts& whole) {
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (part.of[type] > whole.of[type]) return false;
  }
  return true;
}

Grant keeps(const JobState& job, const Cluster& cluster) {
  Grant grant;
  grant.job = job.spec.id;
  grant.devices = job.allocation.counts(cluster);
  grant.batch = job.allocation.batch;
  if (job.running()) grant.nodes = job.allocation.shares;
  return grant;
}

CarriedPlan dropped(std::string why) { return {.plan = {}, .why = std::move(why)}; }

}  // namespace

CarriedPlan carry_over(const Question& question, const Plan& plan, const PolicyInput& today) {
  for (std::size_t node = 0; node < question.usable.size(); ++node) {
    if (today.usable[node] < question.usable[node]) return dropped("devices are gone");
  }
  std::unordered_map<JobId, std::size_t> asked;
  for (std::size_t i = 0; i < question.jobs.size(); ++i) asked[question.jobs[i]->spec.id] = i;

  CarriedPlan carried;
  Plan& now = carried.plan.emplace(plan);
  now.grants.clear();
  now.placement_order.clear();
  std::vector<std::optional<std::size_t>> position(question.jobs.size());
  for (const JobState* job : today.jobs) {
    const auto found = asked.find(job->spec.id);
    if (found == asked.end()) {  // it arrived
      if (job->spec.pinned_devices > 0) return dropped(job->spec.name + " was pinned");
      if (job->running()) return dropped(job->spec.name + " came with devices");
      now.grants.push_back(keeps(*job, today.cluster));
      continue;
    }
    const JobState& then = *question.jobs[found->second];
    const Grant& planned = plan.grants[found->second];
    position[found->second] = now.grants.size();
    if (then.spec.pinned_devices != job->spec.pinned_devices) {
      return dropped(fmt::format("the pin of {} changed", job->spec.name));
    }
    if (then.spec.priority != job->spec.priority) {
      return dropped(fmt::format("the priority of {} changed", job->spec.name));
    }
    if (then.allocation == job->allocation && same_terms(then.spec, job->spec)) {
      now.grants.push_back(planned);
      continue;
    }
    if (job->spec.pinned_devices > 0) {
      return dropped(fmt::format("{}, which is pinned, changed", job->spec.name));
    }
    now.grants.push_back(keeps(*job, today.cluster));
    ++carried.left_out;
    if (!within(now.grants.back().devices, planned.devices)) {
      return dropped(fmt::format("{} changed and would keep devices that the plan gives to others",
                                 job->spec.name));
    }
  }
  for (std::size_t i = 0; i < position.size(); ++i) {
    if (position[i]) continue;
    const JobState& then = *question.jobs[i];
    if (!within(plan.grants[i].devices, then.allocation.counts(question.cluster))) {
      return dropped(fmt::format("{}, which was to get devices, has ended", then.spec.name));
    }
  }
  if (!plan.placement_order.empty()) {
    std::vector<char> ordered(now.grants.size(), 0);
    for (const std::size_t i : plan.placement_order) {
      if (!position[i]) continue;
      now.placement_order.push_back(*position[i]);
      ordered[*position[i]] = 1;
    }
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      if (ordered[i] == 0) now.placement_order.push_back(i);
    }
  }
  if (const auto error = validate(now, today)) return dropped(error->message);
  return carried;
}

}  // namespace rubato
