#include "sched/tenant_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sched/jobs_in_room.h"
#include "sched/placement.h"
#include "sched/sizes.h"
#include "sched/validate.h"

namespace rubato {

namespace {

constexpr double kEven = 1e-6;  // smaller differences in devices or device-seconds do not matter

// The smallest and the largest number of devices that a job could have on what is usable now; 0 if
// it cannot run.
struct JobRange {
  int smallest = 0;
  int largest = 0;
};

JobRange range_of(const JobSpec& spec, const PolicyInput& input) {
  const bool rigid = spec.mode == ElasticMode::kRigid;
  const int smallest = rigid ? spec.requested_devices : spec.min_devices;
  int room = 0;
  for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
    const DeviceTypeId type(i);
    if (!spec.allows(type)) continue;
    const int usable = input.usable_by_type[type];
    room = spec.mixes_types ? room + usable : std::max(room, usable);
  }
  if (smallest > room) return {};
  return {smallest, rigid ? smallest : std::min(spec.max_devices, room)};
}

}  // namespace

struct TenantPolicy::Part {
  const std::string* name = nullptr;
  Tenant* tenant = nullptr;
  TenantRule rule;
  std::vector<std::size_t> jobs;  // indices into the input's
  int smallest = 0;               // of its jobs that could run; 0: none could
  bool too_small = false;         // its fair share is smaller than that
  int wanted = 0;                 // by all its jobs together, at most its quota
  int pinned = 0;                 // devices of its pinned jobs, which are none of `jobs`
  TenantNeed need;
  Room offered;  // room at the last time its policy was asked
  Room used;     // of that
  Plan plan;
  bool valid = true;

  bool waits() const {
    return std::any_of(plan.grants.begin(), plan.grants.end(),
                       [](const Grant& grant) { return grant.devices.total() == 0; });
  }
};

TenantPolicy::TenantPolicy(Factory make, TenantRules rules, Seconds turn_s)
    : make_(std::move(make)), rules_(std::move(rules)), turn_s_(turn_s) {}

TenantPolicy::Tenant& TenantPolicy::tenant(const std::string& name) {
  Tenant& tenant = tenants_[name];
  if (!tenant.policy) tenant.policy = make_(name);
  return tenant;
}

void TenantPolicy::sort_finished(const PolicyInput& input) {
  for (const JobState* job : input.jobs) owners_.try_emplace(job->spec.id, job->spec.tenant);
  for (const FinishedJob& finished : input.finished) {
    const auto owner = owners_.find(finished.id);
    if (owner == owners_.end()) continue;  // came and went between two decisions: it never ran
    tenant(owner->second).finished.push_back(finished);
    owners_.erase(owner);
  }
}

std::vector<TenantPolicy::Part> TenantPolicy::parts_of(const PolicyInput& input) {
  std::map<std::string_view, Part> by_name;
  for (std::size_t i = 0; i < input.jobs.size(); ++i) {
    const JobState& job = *input.jobs[i];
    Part& part = by_name[job.spec.tenant];
    if (part.tenant == nullptr) {
      part.name = &job.spec.tenant;
      part.tenant = &tenant(job.spec.tenant);
      const auto rule = rules_.find(job.spec.tenant);
      if (rule != rules_.end()) part.rule = rule->second;
      part.need.holding.assign(input.cluster.nodes().size(), 0);
    }
    part.jobs.push_back(i);
    for (const NodeShare& share : job.allocation.shares) {
      part.need.holding[share.node.index()] += share.devices;
    }
    const JobRange range = range_of(job.spec, input);
    if (range.largest == 0) continue;
    part.smallest = part.smallest == 0 ? range.smallest : std::min(part.smallest, range.smallest);
    part.wanted += range.largest;
    for (std::size_t type = 0; type < input.cluster.type_count(); ++type) {
      const int usable = input.usable_by_type.of[type];
      const bool useful = job.spec.mixes_types || usable >= range.smallest;
      if (useful && job.spec.allows(DeviceTypeId(type))) {
        part.need.most.of[type] += std::min(range.largest, usable);
      }
    }
  }
  for (const JobState* job : input.pinned) {
    const auto found = by_name.find(job->spec.tenant);
    if (found != by_name.end()) found->second.pinned += job->spec.pinned_devices;
  }
  std::vector<Part> parts;
  for (auto& [name, part] : by_name) {
    if (part.rule.quota > 0) {
      part.wanted = std::clamp(part.rule.quota - part.pinned, 0, part.wanted);
    }
    if (part.wanted < part.smallest) part.wanted = part.smallest = 0;  // never within its quota
    parts.push_back(std::move(part));
  }
  return parts;
}

// Keeps the account of a tenant whose share is too small for any of its jobs.
void TenantPolicy::update_turn(Part& part, double fair, Seconds now_s) const {
  Tenant& tenant = *part.tenant;
  const double worth = part.smallest * turn_s_;
  part.too_small = fair < part.smallest - kEven;
  if (!part.too_small) {
    tenant.owed = 0;
    tenant.turn = false;
  } else {
    tenant.owed += (tenant.fair - tenant.granted) * (now_s - tenant.decided_s);
    tenant.owed = std::clamp(tenant.owed, -worth, worth);
    if (tenant.owed >= worth - kEven) tenant.turn = true;
    if (tenant.owed <= kEven) tenant.turn = false;
  }
  tenant.fair = fair;
}

// When its turn begins or ends if nothing else changes.
std::optional<Seconds> TenantPolicy::next_turn(const Part& part) const {
  const Tenant& tenant = *part.tenant;
  const double rate = tenant.fair - tenant.granted;
  if (!part.too_small || (tenant.turn ? rate >= 0 : rate <= 0)) return std::nullopt;
  const double left = tenant.turn ? tenant.owed : part.smallest * turn_s_ - tenant.owed;
  return tenant.decided_s + std::max(left / std::abs(rate), 0.001);
}

// What each tenant is entitled to beside the devices of its pinned jobs, which count for its share.
std::vector<double> TenantPolicy::fair_beside_pins(const std::vector<Part>& parts,
                                                   std::vector<TenantClaim> claims,
                                                   const PolicyInput& input) {
  int capacity = input.usable_by_type.total();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    claims[i].wanted += parts[i].pinned;
    capacity += parts[i].pinned;
  }
  std::vector<double> fair = fair_shares(claims, capacity);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    fair[i] = std::max(0.0, fair[i] - parts[i].pinned);
  }
  return fair;
}

void TenantPolicy::find_shares(std::vector<Part>& parts, const PolicyInput& input) {
  std::vector<TenantClaim> claims;
  for (const Part& part : parts) {
    claims.push_back({part.rule.weight, part.wanted, devices(part.need.holding)});
  }
  int capacity = input.usable_by_type.total();
  const std::vector<double> fair = fair_beside_pins(parts, claims, input);
  std::vector<std::size_t> turns;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    update_turn(parts[i], fair[i], input.now_s);
    claims[i].owed = parts[i].tenant->owed;
    if (!input.pinned.empty()) {
      claims[i].wanted = std::min(claims[i].wanted, static_cast<int>(std::ceil(fair[i] - kEven)));
    }
    if (parts[i].tenant->turn) turns.push_back(i);
  }
  // Whoever has begun its turn keeps it until its account is even. Otherwise two tenants to which
  // much is owed would take the devices from each other at every decision, and no job would end.
  const auto has_begun = [&](std::size_t i) { return claims[i].holding >= parts[i].smallest; };
  std::stable_sort(turns.begin(), turns.end(), [&](std::size_t a, std::size_t b) {
    if (has_begun(a) != has_begun(b)) return has_begun(a);
    return parts[a].tenant->owed > parts[b].tenant->owed;
  });
  std::vector<char> settled(parts.size(), 0);
  for (const std::size_t i : turns) {
    if (parts[i].smallest > capacity) continue;
    parts[i].need.share = parts[i].smallest;
    capacity -= parts[i].smallest;
    claims[i].wanted = 0;
    settled[i] = 1;
  }
  // One after another, tenants that could not use their share leave it to the rest: first those
  // without devices, then those that are owed least.
  while (true) {
    const std::vector<int> shares = whole_shares(claims, capacity);
    std::size_t leaves = parts.size();
    const auto before = [&](std::size_t a, std::size_t b) {
      const bool holds_a = claims[a].holding >= parts[a].smallest;
      const bool holds_b = claims[b].holding >= parts[b].smallest;
      if (holds_a != holds_b) return holds_b;
      return parts[a].tenant->owed < parts[b].tenant->owed;
    };
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (settled[i] != 0) continue;
      parts[i].need.share = shares[i];
      if (shares[i] >= parts[i].smallest) continue;
      if (leaves == parts.size() || !before(leaves, i)) leaves = i;
    }
    if (leaves == parts.size()) return;
    parts[leaves].need.share = 0;
    claims[leaves].wanted = 0;
    settled[leaves] = 1;
  }
}

// Asks a tenant's policy what it would do with this room. What it does not use goes to `free`.
void TenantPolicy::ask(Part& part, Room room, const PolicyInput& input, Room& free) {
  const DeviceCounts counts = by_type(room, input.cluster);
  std::vector<const JobState*> all;
  for (const std::size_t i : part.jobs) all.push_back(input.jobs[i]);
  const JobsInRoom in_room(std::move(all), room, input.now_s);
  const std::span<const JobState* const> jobs = in_room.jobs();
  const PolicyInput own{.now_s = input.now_s,
                        .cluster = input.cluster,
                        .usable = room,
                        .usable_by_type = counts,
                        .jobs = jobs,
                        .finished = part.tenant->finished,
                        .tenants = true,
                        .limit = input.limit};
  part.plan = part.tenant->policy->decide(own);
  part.tenant->finished.clear();
  keep_to_sizes(part.plan, own);  // what it uses is known only then
  part.valid = !validate(part.plan, own);
  part.used.assign(room.size(), 0);
  if (part.valid) {
    std::vector<const Allocation*> after;
    for (const JobState* job : jobs) after.push_back(&job->allocation);
    const std::vector<PlacementChange> changes = place(part.plan, own);
    for (const PlacementChange& change : changes) after[change.job] = &change.after;
    for (const Allocation* allocation : after) {
      for (const NodeShare& share : allocation->shares) {
        part.used[share.node.index()] += share.devices;
      }
    }
  } else {
    part.used = room;
  }
  for (std::size_t node = 0; node < room.size(); ++node) free[node] += room[node] - part.used[node];
  part.offered = std::move(room);
}

// Devices that became free after the policy was asked may be what a waiting job needs. If no job of
// the tenant runs, a room of a single type may also help.
void TenantPolicy::ask_again(Part& part, const PolicyInput& input, Room& free) {
  const auto try_room = [&](Room room, const DeviceCounts& most, int enough) {
    Room left = free;
    take_room(room, part.wanted - devices(room), most, input.cluster, left);
    if (devices(room) < enough) return;
    free = std::move(left);
    ask(part, std::move(room), input, free);
  };
  if (part.valid && part.waits()) {
    try_room(part.used, part.need.most, devices(part.offered) + 1);
  }
  for (std::size_t i = 0; i < input.cluster.type_count() && input.cluster.type_count() > 1; ++i) {
    if (!part.valid || part.wanted == 0 || devices(part.used) > 0) return;
    DeviceCounts most;
    most.of[i] = part.need.most.of[i];
    try_room(Room(free.size(), 0), most, 1);
  }
}

Plan TenantPolicy::merge(std::vector<Part>& parts, const PolicyInput& input) const {
  Plan plan;
  plan.grants.resize(input.jobs.size());
  bool ordered = false;
  for (Part& part : parts) {
    Plan& own = part.plan;
    // The scheduler reports what is wrong with this plan.
    if (own.grants.size() != part.jobs.size()) return std::move(own);
    plan.placement = own.placement;
    plan.solver_s += own.solver_s;
    if (!own.note.empty()) {
      if (!plan.note.empty()) plan.note += "; ";
      plan.note += *part.name + ": " + own.note;
    }
    if (own.wake_at_s) {
      plan.wake_at_s = std::min(plan.wake_at_s.value_or(*own.wake_at_s), *own.wake_at_s);
    }
    ordered = ordered || !own.placement_order.empty();
    const int used = devices(part.used) + part.pinned;
    for (std::size_t k = 0; k < part.jobs.size(); ++k) {
      Grant& grant = plan.grants[part.jobs[k]];
      grant = std::move(own.grants[k]);
      if (grant.devices.total() > 0 || grant.rejected) continue;
      const JobRange range = range_of(input.jobs[part.jobs[k]]->spec, input);
      if (range.smallest == 0) continue;
      if (part.rule.quota > 0 && used + range.smallest > part.rule.quota) {
        grant.waiting = Reason::kTenantQuota;
      } else if (grant.waiting != Reason::kWaitsBehind &&
                 devices(part.offered) < input.usable_by_type.total() &&
                 devices(part.offered) - devices(part.used) < range.smallest) {
        grant.waiting = Reason::kTenantShare;
      }
    }
  }
  if (!ordered) return plan;
  for (const Part& part : parts) {
    if (part.plan.placement_order.empty()) {
      plan.placement_order.insert(plan.placement_order.end(), part.jobs.begin(), part.jobs.end());
    }
    for (const std::size_t k : part.plan.placement_order) {
      plan.placement_order.push_back(k < part.jobs.size() ? part.jobs[k] : input.jobs.size());
    }
  }
  return plan;
}

Plan TenantPolicy::decide(const PolicyInput& input) {
  sort_finished(input);
  std::vector<Part> parts = parts_of(input);
  for (auto& entry : tenants_) {
    const bool present = std::any_of(
        parts.begin(), parts.end(), [&](const Part& part) { return part.tenant == &entry.second; });
    if (!present) entry.second.forget();
  }
  if (parts.empty() && tenants_.size() != 1) return {};
  if (parts.empty() || (parts.size() == 1 && parts.front().rule.quota == 0)) {
    Tenant& only = parts.empty() ? tenants_.begin()->second : *parts.front().tenant;
    only.forget();
    const PolicyInput own{.now_s = input.now_s,
                          .cluster = input.cluster,
                          .usable = input.usable,
                          .usable_by_type = input.usable_by_type,
                          .jobs = input.jobs,
                          .finished = tenants_.size() == 1 ? input.finished : only.finished,
                          .limit = input.limit};
    Plan plan = only.policy->decide(own);
    only.finished.clear();
    return plan;
  }

  find_shares(parts, input);
  std::vector<TenantNeed> needs;
  for (const Part& part : parts) needs.push_back(part.need);
  Room free(input.usable.begin(), input.usable.end());
  std::vector<Room> rooms = divide_nodes(needs, input.cluster, free);

  // Tenants that left devices idle last time are asked first, so that the others can be offered
  // those devices.
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return parts[a].tenant->idle > parts[b].tenant->idle;
  });
  for (const std::size_t i : order) {
    Part& part = parts[i];
    Room room = std::move(rooms[i]);
    const int own = devices(room);
    take_room(room, part.wanted - own, part.need.most, input.cluster, free);
    ask(part, std::move(room), input, free);
    part.tenant->idle = std::max(0, own - devices(part.used));
  }
  for (const std::size_t i : order) ask_again(parts[i], input, free);
  Plan plan = merge(parts, input);
  for (Part& part : parts) {
    part.tenant->granted = devices(part.used);
    part.tenant->decided_s = input.now_s;
    if (const auto turn = next_turn(part)) {
      plan.wake_at_s = std::min(plan.wake_at_s.value_or(*turn), *turn);
    }
  }
  return plan;
}

}  // namespace rubato
