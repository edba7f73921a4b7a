// Gang FIFO on the preferred type: the baseline of EasyScale (SC'23), a capacity scheduler without
// elasticity.
//
// Assumes nothing. Every job has one preferred type: the first allowed type that could ever hold
// its requested devices. The queue is served by priority, then arrival, at the requested size and
// without preemption. With when-full=stop, the first job that does not fit blocks the jobs behind
// it. With skip, they may start. queues=per-type gives every type its own queue, so that a job
// blocks only jobs that want the same type. O(jobs) per decision (O(jobs log jobs) with several
// priorities).
#include <array>

#include "sched/gang.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

class YarnCs final : public Policy {
 public:
  YarnCs(WhenFull when_full, bool queue_per_type, PlacementRule placement)
      : when_full_(when_full), queue_per_type_(queue_per_type), placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    Plan plan = empty_plan(input);
    plan.placement = placement_;
    DeviceCounts left = input.usable_by_type;
    std::array<bool, kMaxDeviceTypes> blocked{};
    JobOrder order = running_first(input, by_priority_then_arrival(input));
    for (const std::size_t i : order) {
      const JobSpec& spec = input.jobs[i]->spec;
      Grant& grant = plan.grants[i];
      const DeviceTypeId type = preferred_type(spec, input.cluster);
      const int wanted = spec.requested_devices;
      const std::size_t queue = queue_per_type_ ? type.index() : 0;
      if (left[type] < wanted) {
        blocked[queue] = blocked[queue] || when_full_ == WhenFull::kStop;
      } else if (blocked[queue]) {
        grant.waiting = Reason::kWaitsBehind;
      } else {
        grant.devices[type] = wanted;
        grant.batch = spec.requested_batch;
        left[type] -= wanted;
      }
    }
    plan.placement_order = std::move(order);
    return plan;
  }

 private:
  // The scheduler only accepts jobs that some type can hold.
  static DeviceTypeId preferred_type(const JobSpec& spec, const Cluster& cluster) {
    DeviceTypeId found;
    for (std::size_t type = cluster.type_count(); type-- > 0;) {
      if (!spec.allows(DeviceTypeId(type))) continue;
      const bool holds = cluster.capacity().of[type] >= spec.requested_devices;
      if (holds || !found.valid()) found = DeviceTypeId(type);
    }
    return found;
  }

  WhenFull when_full_;
  bool queue_per_type_;
  PlacementRule placement_;
};

}  // namespace

PolicyInfo yarn_cs_policy() {
  return {.name = "yarn-cs",
          .summary = "gang FIFO on the preferred device type",
          .source = "baseline of EasyScale, SC'23",
          .needs = {Knowledge::kNothing},
          .params = {{.name = "when-full",
                      .default_value = std::string("stop"),
                      .choices = {"stop", "skip"},
                      .help = "a job that does not fit blocks its queue, or is skipped"},
                     {.name = "queues",
                      .default_value = std::string("one"),
                      .choices = {"one", "per-type"},
                      .help = "a single queue, or one for each preferred type"},
                     placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            const bool stop = params.choice("when-full") == "stop";
            return std::make_unique<YarnCs>(stop ? WhenFull::kStop : WhenFull::kSkip,
                                            params.choice("queues") == "per-type",
                                            placement_rule(params));
          }};
}

}  // namespace rubato
