// Elastic Tiresias (EDL, "Elastic Deep Learning in Multi-Tenant GPU Clusters"): Tiresias, plus
// resizes that use what it leaves idle or blocked.
//
// Assumes profiled step times at the requested batch, which does not change. Assumes nothing about
// durations. Steps:
//  1. Tiresias: queues by attained service (sched/service_queues.h), served in order, jobs at their
//     requested size.
//  2. Compaction: if more than `compact_above` jobs would wait, running jobs outside the first
//     queue are served at their minimum instead, and the jobs that then fit are admitted.
//  3. Expansion: what is left goes device by device to the job with the largest marginal gain
//     S(n+1) - S(n), where S is the speed relative to one device, until no gain is positive. A
//     waiting job has the largest possible gain, S(1) - S(0) = 1. So waiting jobs come first, in
//     order, at their minimum.
// The paper leaves two points open. They are solved as follows:
//  - Nodes. Gains are computed on the available nodes, not on ideal ones. Jobs of step 1 are placed
//    as if no job had been expanded, so expansions never scatter them. With `migrate` (EDL has the
//    operation, but the policy of the paper does not use it), a job that spans many nodes moves
//    when fewer have become free.
//  - Cost. The paper's resizes are stop-free, so it expands jobs and takes devices back freely. If
//    a resize stops a job for c seconds (`resize_cost`, or the job's own value), going from speed S
//    to S' must earn that back: h (S' - S) > c S'. Here h is the time that the job has run so far,
//    as an estimate of how long it will still run (nothing better is known about heavy-tailed
//    durations). For the same reason, jobs first keep the extra devices they hold, as long as no
//    other job needs them. `resize_cost` = 0 expands as the paper does.
// O(jobs log jobs + devices x (log jobs + nodes)) per decision, times the few passes in which
// expansions are taken back.
#include <algorithm>
#include <queue>

#include "sched/gang.h"
#include "sched/placement.h"
#include "sched/policies/policies.h"
#include "sched/service_queues.h"
#include "sched/speedup.h"

namespace rubato {

namespace {

struct ElasticOptions {
  int compact_above = 10;
  Seconds resize_cost_s = 30;
  bool migrate = true;
  PlacementRule placement = PlacementRule::kBestFit;
};

// --- Shares of nodes

int& devices_on(Allocation& allocation, NodeId node) {
  for (NodeShare& share : allocation.shares) {
    if (share.node == node) return share.devices;
  }
  allocation.shares.push_back({node, 0});
  return allocation.shares.back().devices;
}

void drop_empty(std::vector<NodeShare>& shares) {
  std::erase_if(shares, [](const NodeShare& share) { return share.devices == 0; });
}

// The given number of devices on as few of these nodes as possible.
std::vector<NodeShare> largest_shares(std::vector<NodeShare> shares, int devices) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const NodeShare& a, const NodeShare& b) { return a.devices > b.devices; });
  for (NodeShare& share : shares) {
    share.devices = std::min(share.devices, devices);
    devices -= share.devices;
  }
  drop_empty(shares);
  return shares;
}

bool same_devices(const Allocation& a, const Allocation& b) {
  return a.shares.size() == b.shares.size() &&
         std::is_permutation(a.shares.begin(), a.shares.end(), b.shares.begin());
}

// --- Expansion

// Turns what Tiresias granted into what jobs finally get.
class Expansion {
 public:
  Expansion(const PolicyInput& input, const ElasticOptions& options, RequestedBatchSpeed& speed)
      : input_(input),
        options_(options),
        speed_(speed),
        free_(input.usable.begin(), input.usable.end()) {}

  void run(Plan& plan) {
    place_base(plan);
    start_small(plan);
    for (Member& m : members_) {
      keep_extra(m);
      m.undisturbed = same_devices(m.placed, state(m).allocation);
    }
    if (options_.migrate) {
      for (Member& m : members_) migrate(m);
    }
    give();
    while (take_back()) give();
    for (const Member& m : members_) {
      Grant& grant = plan.grants[m.job];
      grant.devices = m.placed.counts(input_.cluster);
      grant.batch = state(m).spec.requested_batch;
      const Allocation& current = state(m).allocation;
      grant.nodes = same_devices(m.placed, current) ? current.shares : m.placed.shares;
    }
  }

 private:
  // A job that gets devices.
  struct Member {
    std::size_t job;
    DeviceTypeId type;
    int base;                  // devices that it is entitled to; the rest is extra
    Allocation placed;         // the base and what was added
    double speed = 0;          // on `placed`
    bool undisturbed = false;  // keeps its devices if nothing is added
    bool frozen = false;       // gets no more devices
  };
  struct Gain {
    double value;
    std::size_t member;
    NodeId node;
  };

  const JobState& state(const Member& m) const { return *input_.jobs[m.job]; }

  double speed(const Member& m, const Allocation& on) {
    return speed_.update_s(state(m), m.type, 1, input_.cluster) /
           speed_.update_s(state(m), on.placement(input_.cluster));
  }

  bool worthwhile(const Member& m, double before, double after) const {
    const JobState& job = state(m);
    const Seconds cost = job.spec.resize_cost_s.value_or(options_.resize_cost_s);
    return job.executed_s(input_.now_s) * (after - before) > cost * after;
  }

  void take(const Allocation& allocation) {
    for (const NodeShare& share : allocation.shares) free_[share.node.index()] -= share.devices;
  }
  void give_back(const Allocation& allocation) {
    for (const NodeShare& share : allocation.shares) free_[share.node.index()] += share.devices;
  }

  // Chooses nodes for what Tiresias granted. Running jobs stay on their largest shares.
  void place_base(Plan& plan) {
    std::vector<int> left(input_.usable.begin(), input_.usable.end());
    for (const std::size_t i : plan.placement_order) {
      Grant& grant = plan.grants[i];
      const DeviceTypeId type = grant.devices.single_type();
      if (!type.valid()) continue;
      const Allocation& current = input_.jobs[i]->allocation;
      Member m{.job = i, .type = type, .base = grant.devices[type], .placed = current};
      // Jobs may hold more devices of a node than are usable until they give some back.
      std::vector<NodeShare> still = current.shares;
      for (NodeShare& share : still) {
        const bool same_type = input_.cluster.node(share.node).type == type;
        share.devices = same_type ? std::min(share.devices, left[share.node.index()]) : 0;
      }
      if (Allocation{still}.devices() >= m.base) {
        m.placed.shares = largest_shares(std::move(still), m.base);
        for (const NodeShare& share : m.placed.shares) left[share.node.index()] -= share.devices;
        grant.nodes = m.placed.shares;
      }
      members_.push_back(std::move(m));
    }
    std::vector<const Allocation*> moved(plan.grants.size(), nullptr);
    const std::vector<PlacementChange> changes = place(plan, input_);
    for (const PlacementChange& change : changes) moved[change.job] = &change.after;
    for (Member& m : members_) {
      if (moved[m.job] != nullptr) m.placed = *moved[m.job];
      take(m.placed);
      m.speed = speed(m, m.placed);
    }
  }

  // Jobs for which Tiresias has no room get their minimum from what is left. Jobs that are already
  // running come first and stay where they are.
  void start_small(const Plan& plan) {
    for (const bool running : {true, false}) {
      for (const std::size_t i : plan.placement_order) {
        const JobState& job = *input_.jobs[i];
        if (plan.grants[i].devices.total() > 0 || job.running() != running ||
            job.spec.mode == ElasticMode::kRigid) {
          continue;
        }
        Member m{.job = i, .type = {}, .base = job.spec.min_devices, .placed = {}};
        if (running) {
          m.type = input_.cluster.node(job.allocation.shares.front().node).type;
          Allocation still = job.allocation;
          for (NodeShare& share : still.shares) {
            share.devices = std::min(share.devices, free_[share.node.index()]);
          }
          if (still.devices() >= m.base) {
            m.placed.shares = largest_shares(std::move(still.shares), m.base);
          }
        }
        for (std::size_t t = 0; t < input_.cluster.type_count() && m.placed.empty(); ++t) {
          m.type = DeviceTypeId(t);
          if (job.spec.allows(m.type)) m.placed = packed(m.type, m.base);
        }
        if (m.placed.empty()) continue;
        take(m.placed);
        m.speed = speed(m, m.placed);
        members_.push_back(std::move(m));
      }
    }
  }

  // The tightest free node that holds the devices, otherwise the emptiest nodes. Empty if there are
  // too few.
  Allocation packed(DeviceTypeId type, int devices) const {
    Allocation result;
    std::vector<NodeShare> nodes;
    for (const Node& node : input_.cluster.nodes()) {
      const int here = free_[node.id.index()];
      if (node.type == type && here > 0) nodes.push_back({node.id, here});
    }
    std::stable_sort(nodes.begin(), nodes.end(),
                     [](const NodeShare& a, const NodeShare& b) { return a.devices > b.devices; });
    for (auto at = nodes.begin(); devices > 0 && at != nodes.end(); ++at) {
      while (at->devices >= devices && at + 1 != nodes.end() && (at + 1)->devices >= devices) ++at;
      result.shares.push_back({at->node, std::min(devices, at->devices)});
      devices -= result.shares.back().devices;
    }
    return devices > 0 ? Allocation{} : result;
  }

  // A running job keeps the devices that it holds beyond its base, if no other job needs them.
  void keep_extra(Member& m) {
    const Allocation& current = state(m).allocation;
    if (current.devices() <= m.base) return;
    for (const NodeShare& share : current.shares) {
      if (input_.cluster.node(share.node).type != m.type) continue;
      int& own = devices_on(m.placed, share.node);
      int& free = free_[share.node.index()];
      const int kept = std::clamp(share.devices - own, 0, free);
      own += kept;
      free -= kept;
    }
    drop_empty(m.placed.shares);
    m.speed = speed(m, m.placed);
  }

  // Moves a running job to fewer nodes if that earns its pause back.
  void migrate(Member& m) {
    if (!m.undisturbed || m.placed.shares.size() < 2) return;
    give_back(m.placed);
    const Allocation there = packed(m.type, m.placed.devices());
    const double speed_there = speed(m, there);
    if (there.shares.size() < m.placed.shares.size() && worthwhile(m, m.speed, speed_there)) {
      m.placed = there;
      m.speed = speed_there;
      m.undisturbed = false;
    }
    take(m.placed);
  }

  // Hands out free devices by marginal gain.
  void give() {
    const auto lower = [](const Gain& a, const Gain& b) {
      return a.value != b.value ? a.value < b.value : a.member > b.member;
    };
    std::priority_queue<Gain, std::vector<Gain>, decltype(lower)> gains(lower);
    const auto push = [&](std::size_t index) {
      const Member& m = members_[index];
      if (m.frozen || m.placed.devices() >= most_devices_at_requested_batch(state(m).spec)) return;
      const NodeId node = next_node(m);
      if (!node.valid()) return;
      Allocation more = m.placed;
      ++devices_on(more, node);
      const double gain = speed(m, more) - m.speed;
      if (gain > 0) gains.push({gain, index, node});
    };
    for (std::size_t i = 0; i < members_.size(); ++i) push(i);
    while (!gains.empty()) {
      const Gain best = gains.top();
      gains.pop();
      int& free = free_[best.node.index()];
      if (free > 0) {
        Member& m = members_[best.member];
        ++devices_on(m.placed, best.node);
        --free;
        m.speed += best.value;
      }
      push(best.member);
    }
  }

  // The node of the next device: one that the job is already on, otherwise the emptiest.
  NodeId next_node(const Member& m) const {
    for (const NodeShare& share : m.placed.shares) {
      if (free_[share.node.index()] > 0) return share.node;
    }
    NodeId most;
    for (const Node& node : input_.cluster.nodes()) {
      const int here = free_[node.id.index()];
      if (node.type == m.type && here > 0 && (!most.valid() || here > free_[most.index()])) {
        most = node.id;
      }
    }
    return most;
  }

  // Takes back expansions that do not earn their resize back. True if there was one; its devices
  // can then be offered again.
  bool take_back() {
    bool any = false;
    for (Member& m : members_) {
      const Allocation& current = state(m).allocation;
      if (m.frozen || !m.undisturbed || m.placed.devices() == current.devices()) continue;
      const double before = speed(m, current);
      if (worthwhile(m, before, m.speed)) continue;
      give_back(m.placed);
      m.placed = current;
      m.speed = before;
      m.frozen = true;
      take(m.placed);
      any = true;
    }
    return any;
  }

  const PolicyInput& input_;
  const ElasticOptions& options_;
  RequestedBatchSpeed& speed_;
  std::vector<int> free_;  // by node
  std::vector<Member> members_;
};

// --- The policy

class ElasticTiresias final : public Policy {
 public:
  ElasticTiresias(QueueOptions queues, ElasticOptions options)
      : queues_(std::move(queues)), options_(options) {}

  Plan decide(const PolicyInput& input) override {
    speed_.forget(input.finished);
    queues_.update(input);
    const JobOrder order = queues_.order(input);
    Plan plan = grant_requested(input, order, WhenFull::kSkip, options_.placement);
    if (waiting(plan) > options_.compact_above) {
      plan = grant_sizes(input, order, compact_sizes(input), WhenFull::kSkip, options_.placement);
    }
    Expansion(input, options_, speed_).run(plan);
    plan.wake_at_s = queues_.next_change(input, plan);
    return plan;
  }

 private:
  static long waiting(const Plan& plan) {
    return std::count_if(plan.grants.begin(), plan.grants.end(),
                         [](const Grant& grant) { return grant.devices.total() == 0; });
  }

  std::vector<int> compact_sizes(const PolicyInput& input) const {
    std::vector<int> sizes;
    sizes.reserve(input.jobs.size());
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      const JobSpec& spec = job.spec;
      const bool shrinks =
          job.running() && queues_.queue(i) > 0 && spec.mode != ElasticMode::kRigid;
      sizes.push_back(shrinks ? spec.min_devices : spec.requested_devices);
    }
    return sizes;
  }

  ServiceQueues queues_;
  ElasticOptions options_;
  RequestedBatchSpeed speed_;
};

}  // namespace

PolicyInfo elastic_tiresias_policy() {
  std::vector<ParamSpec> params = queue_params();
  params.push_back({.name = "compact_above",
                    .default_value = std::int64_t{10},
                    .low = 0,
                    .high = 1e6,
                    .help = "if more jobs than this wait, jobs outside the first queue shrink to "
                            "their minimum"});
  params.push_back({.name = "resize_cost",
                    .default_value = 30.0,
                    .low = 0,
                    .high = 1e6,
                    .help = "seconds that expanding a running job costs and must earn back"});
  params.push_back({.name = "migrate",
                    .default_value = true,
                    .help = "move jobs to fewer nodes if that earns the resize back"});
  params.push_back(placement_param(PlacementRule::kBestFit));
  return {.name = "elastic-tiresias",
          .summary =
              "tiresias that shrinks jobs if the queue is long and expands them into idle devices",
          .source = "EDL, Elastic Deep Learning in Multi-Tenant GPU Clusters, 2021",
          .needs = {Knowledge::kProfiledSpeed},
          .params = std::move(params),
          .make = [](const Params& given, Random) -> std::unique_ptr<Policy> {
            const ElasticOptions options{
                .compact_above = static_cast<int>(given.integer("compact_above")),
                .resize_cost_s = given.number("resize_cost"),
                .migrate = given.flag("migrate"),
                .placement = placement_rule(given)};
            return std::make_unique<ElasticTiresias>(queue_options(given), options);
          }};
}

}  // namespace rubato
