// AFS-L (Elastic resource sharing for distributed deep learning, NSDI'21).
//
// Assumes profiled step times and remaining work (an oracle in the simulator). Devices are handed
// out one at a time. Each goes to the winner of a comparison of all jobs. Of two jobs, let a be the
// one that ends sooner at its current size, and b the other:
//   b wins if (S_b(n_b+1) - S_b(n_b)) / S_b(n_b+1)  >  (S_a(n_a+1) - S_a(n_a)) / S_a(n_a)
// S(n) is the speed on n devices. If neither job has devices, the shorter one wins. A job without
// devices beats a job with devices only by the same rule (its relative gain is infinite if it is a,
// and 1 if it is b). A job without devices receives its minimum at once. The batch stays as
// requested. O(jobs x devices) per decision.
#include <limits>

#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/speedup.h"

namespace rubato {

namespace {

class Afs final : public Policy {
 public:
  explicit Afs(PlacementRule placement) : placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    speed_.forget(input.finished);
    Plan plan = empty_plan(input);
    plan.placement = placement_;
    DeviceCounts left = input.usable_by_type;
    std::vector<Candidate> candidates;
    candidates.reserve(input.jobs.size());
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      candidates.push_back({.job = &job, .index = i});
      Candidate& c = candidates.back();
      c.smallest =
          job.spec.mode == ElasticMode::kRigid ? job.spec.requested_devices : job.spec.min_devices;
      c.left_s = job.remaining->seconds_at_request(input.now_s);
    }
    while (Candidate* winner = best(candidates, left, input.cluster)) {
      const int more = winner->next - winner->size;
      winner->size = winner->next;
      left[winner->type] -= more;
      plan.grants[winner->index].devices[winner->type] = winner->size;
      plan.grants[winner->index].batch = winner->job->spec.requested_batch;
      refresh(*winner, input.cluster);
    }
    return plan;
  }

 private:
  struct Candidate {
    const JobState* job = nullptr;
    std::size_t index = 0;
    DeviceTypeId type{};
    int smallest = 1;
    int size = 0;
    int next = 0;          // size after the next grant; 0: cannot grow
    Seconds left_s = 0;    // remaining time on the requested devices
    double length = 0;     // remaining time at the current size, or at the smallest if it has no
                           // devices
    double speed_now = 0;  // S(size), S(next)
    double speed_next = 0;

    double gain_as_shorter() const {
      return speed_now > 0 ? (speed_next - speed_now) / speed_now
                           : std::numeric_limits<double>::infinity();
    }
    double gain_as_longer() const { return (speed_next - speed_now) / speed_next; }
  };

  void refresh(Candidate& c, const Cluster& cluster) {
    const int wanted = c.size == 0 ? c.smallest : c.size + 1;
    c.speed_now = speed_.speed(*c.job, c.type, c.size, cluster);
    const int size = c.size == 0 ? c.smallest : c.size;
    c.length = c.left_s * speed_.speed(*c.job, c.type, c.job->spec.requested_devices, cluster) /
               speed_.speed(*c.job, c.type, size, cluster);
    if (c.size > 0 && wanted > most_devices_at_requested_batch(c.job->spec)) {
      c.next = 0;
      return;
    }
    c.next = wanted;
    c.speed_next = speed_.speed(*c.job, c.type, wanted, cluster);
  }

  static bool beats(const Candidate& challenger, const Candidate& champion) {
    const bool challenger_shorter = challenger.length < champion.length;
    const Candidate& shorter = challenger_shorter ? challenger : champion;
    const Candidate& longer = challenger_shorter ? champion : challenger;
    const bool longer_wins = longer.gain_as_longer() > shorter.gain_as_shorter();
    return longer_wins != challenger_shorter;
  }

  Candidate* best(std::vector<Candidate>& candidates, const DeviceCounts& left,
                  const Cluster& cluster) {
    Candidate* champion = nullptr;
    for (Candidate& c : candidates) {
      // A job without devices is assigned to a type that still has room.
      if (c.size == 0 && (!c.type.valid() || left[c.type] < c.smallest)) {
        c.type = type_with_room(*c.job, c.smallest, left, cluster);
        if (c.type.valid()) refresh(c, cluster);
      }
      if (!c.type.valid() || c.next == 0 || left[c.type] < c.next - c.size) continue;
      if (c.size > 0 && c.speed_next <= c.speed_now) continue;  // one more device would not help
      if (champion == nullptr || beats(c, *champion)) champion = &c;
    }
    return champion;
  }

  PlacementRule placement_;
  RequestedBatchSpeed speed_;
};

}  // namespace

PolicyInfo afs_policy() {
  return {.name = "afs",
          .summary = "devices one at a time, balancing short jobs against efficient jobs (AFS-L)",
          .source = "AFS, NSDI'21",
          .needs = {Knowledge::kProfiledSpeed, Knowledge::kRemainingWork},
          .params = {placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<Afs>(placement_rule(params));
          }};
}

}  // namespace rubato
