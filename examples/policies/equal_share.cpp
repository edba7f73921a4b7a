// Equal share: every active job gets the same number of devices, within its range.
//
// No assumptions. Steps: jobs get their minimum in order of arrival while devices last. The
// remaining devices go round-robin, one device per job and turn, to the jobs that may still grow.
// O(jobs + devices) per decision.
#include "equal_share.h"

#include "sched/gang.h"

namespace rubato {

namespace {

class EqualShare final : public Policy {
 public:
  explicit EqualShare(int most) : most_(most) {}

  Plan decide(const PolicyInput& input) override {
    Plan plan = empty_plan(input);
    DeviceCounts left = input.usable_by_type;
    std::vector<DeviceTypeId> type(input.jobs.size());
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      const bool rigid = job.spec.mode == ElasticMode::kRigid;
      const int smallest = rigid ? job.spec.requested_devices : job.spec.min_devices;
      type[i] = type_with_room(job, smallest, left, input.cluster);
      if (!type[i].valid()) continue;  // it waits; the reason is already filled in
      plan.grants[i].devices[type[i]] = smallest;
      left[type[i]] -= smallest;
    }
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < input.jobs.size(); ++i) {
        if (!type[i].valid() || left[type[i]] == 0) continue;
        const JobSpec& spec = input.jobs[i]->spec;
        int& devices = plan.grants[i].devices[type[i]];
        if (spec.mode == ElasticMode::kRigid || devices >= spec.max_devices || devices >= most_) {
          continue;
        }
        ++devices;
        --left[type[i]];
        grown = true;
      }
    }
    return plan;
  }

 private:
  int most_;
};

}  // namespace

PolicyInfo equal_share_policy() {
  return {.name = "equal-share",
          .summary = "the same number of devices for every job",
          .source = "docs/writing-a-policy.md",
          .needs = {Knowledge::kNothing},
          .params = {{.name = "most",
                      .default_value = std::int64_t{64},
                      .low = 1,
                      .high = 1e6,
                      .help = "maximum number of devices per job"}},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<EqualShare>(static_cast<int>(params.integer("most")));
          }};
}

}  // namespace rubato
