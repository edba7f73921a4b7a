// Any policy, for jobs of several priorities. This is what a priority means, whatever the policy.
//
// At every decision, the jobs of the highest priority are scheduled first, by a policy of their own
// that sees no others. Those of the next priority get what is left, and so on; jobs on devices that
// now belong to a higher priority look to their policy as if they had lost them. A policy may leave
// devices idle although a waiting job could use them (the head of a `fifo` queue blocks those
// behind it). As many as that job needs then stay idle: lower priorities do not get them. So a job
// never waits for devices that jobs of lower priority hold. Only the order of priorities matters,
// not their distance.
//
// With several tenants this holds within each (sched/tenant_policy.h), and pinned jobs come before
// all others (sched/pinned_policy.h).
//
// Jobs of a single priority pass through: their policy gets the input as it is. Costs beside the
// policies, with several: O(jobs + nodes x priorities).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sched/policy.h"
#include "sched/tenant_rooms.h"

namespace rubato {

class TieredPolicy final : public Policy {
 public:
  using Factory = std::function<std::unique_ptr<Policy>()>;

  // `make` is called now for the first priority and, for every other one, when its first job
  // appears.
  explicit TieredPolicy(Factory make) : make_(std::move(make)), first_(make_()) {}

  Plan decide(const PolicyInput& input) override;

 private:
  struct Tier {
    std::unique_ptr<Policy> policy;
    std::vector<FinishedJob> finished{};  // its own, since its policy was last asked
  };
  using Members = std::map<int, std::vector<std::size_t>, std::greater<>>;

  Tier& tier(int priority);
  void sort_finished(const PolicyInput& input, const Members& members);
  Plan pass_through(const PolicyInput& input, int priority);
  bool ask(int priority, const std::vector<std::size_t>& jobs, const PolicyInput& input,
           const Room& lower, Room& room, Plan& plan);

  Factory make_;
  std::unique_ptr<Policy> first_;                  // until a job appears
  std::map<int, Tier> tiers_;                      // by priority
  std::unordered_map<JobId, int> known_priority_;  // of active jobs, once there were several
  int last_ = 0;                                   // priority of the latest job
};

}  // namespace rubato
