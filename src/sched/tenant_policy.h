// Any policy, for several tenants: each tenant's jobs are scheduled by their own policy on the
// tenant's share of the devices.
//
// At every decision, the usable devices are divided among the tenants that have jobs, by weight and
// within quotas (tenant_shares.h). Each share is placed on nodes where the tenant's jobs already
// run (tenant_rooms.h). Jobs on devices that now belong to another tenant look to their policy as
// if they had lost them, so a borrowed device goes back at the first decision at which its owner
// wants it. What a tenant's policy leaves idle is offered to the others in the same decision.
//
// A share may be smaller than the smallest job of its tenant. Then the tenant leaves the share to
// the others and waits, and the devices it is owed are counted. When they are worth `turn_s`
// seconds of that job, the tenant has a turn: it gets what the job needs until the account is even
// again, and nobody interrupts a turn. So no tenant starves, however small its weight, unless its
// quota is too small. (A turn must be much longer than it takes a job to stop and to start again.)
//
// Pinned jobs (pinned_policy.h) count for their tenant's share and quota; they are not divided
// here.
//
// A single tenant without quota passes through: its policy gets the input as it is.
//
// Deterministic if the policies are. Cost in addition to the policies: O(tenants^2 + devices x
// nodes).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sched/policy.h"
#include "sched/tenant_rooms.h"
#include "sched/tenant_shares.h"

namespace rubato {

class TenantPolicy final : public Policy {
 public:
  using Factory = std::function<std::unique_ptr<Policy>(const std::string& tenant)>;

  // `make` is called once for every tenant, when its first job appears. A tenant without a rule has
  // weight 1 and no quota.
  TenantPolicy(Factory make, TenantRules rules, Seconds turn_s = 300);

  // Takes effect at the next decision.
  void set_rules(TenantRules rules) { rules_ = std::move(rules); }

  Plan decide(const PolicyInput& input) override;

 private:
  // What is remembered about a tenant between decisions.
  struct Tenant {
    std::unique_ptr<Policy> policy;
    std::vector<FinishedJob> finished{};  // since its policy was last asked
    double owed = 0;    // device-seconds owed to a tenant whose fair share is below its smallest
                        // job
    bool turn = false;  // it gets the devices of its smallest job
    double fair = 0;    // devices it was entitled to at the last decision
    int granted = 0;    // devices it was granted then
    int idle = 0;       // devices of its room that were idle then
    Seconds decided_s = 0;  // when that decision was made

    // A tenant has no account with others while it has no jobs or is alone.
    void forget() {
      owed = fair = 0;
      granted = idle = 0;
      turn = false;
    }
  };
  struct Part;  // a tenant within one decision

  Tenant& tenant(const std::string& name);
  void sort_finished(const PolicyInput& input);
  std::vector<Part> parts_of(const PolicyInput& input);
  static std::vector<double> fair_beside_pins(const std::vector<Part>& parts,
                                              std::vector<TenantClaim> claims,
                                              const PolicyInput& input);
  void find_shares(std::vector<Part>& parts, const PolicyInput& input);
  void update_turn(Part& part, double fair, Seconds now_s) const;
  std::optional<Seconds> next_turn(const Part& part) const;
  void ask(Part& part, Room room, const PolicyInput& input, Room& free);
  void ask_again(Part& part, const PolicyInput& input, Room& free);
  Plan merge(std::vector<Part>& parts, const PolicyInput& input) const;

  Factory make_;
  TenantRules rules_;
  Seconds turn_s_;
  std::map<std::string, Tenant> tenants_;
  std::unordered_map<JobId, std::string> owners_;  // of active jobs
};

}  // namespace rubato
