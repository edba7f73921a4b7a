#include "sched/placement.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rubato {

namespace {

class Placer {
 public:
  Placer(const Plan& plan, const PolicyInput& input)
      : plan_(plan), input_(input), free_(input.usable.begin(), input.usable.end()) {}

  std::vector<PlacementChange> run() {
    enum class Todo : char { kDone, kMove };
    std::vector<Todo> todo(plan_.grants.size(), Todo::kDone);
    for (std::size_t i = 0; i < plan_.grants.size(); ++i) {
      if (plan_.grants[i].nodes) take(*plan_.grants[i].nodes);
    }
    for (std::size_t i = 0; i < plan_.grants.size(); ++i) {
      const Grant& grant = plan_.grants[i];
      const Allocation& current = input_.jobs[i]->allocation;
      if (grant.devices.total() == 0) {
        if (!current.empty()) changes_.push_back({i, {}});
      } else if (grant.nodes) {
        if (*grant.nodes != current.shares || grant.batch != current.batch) {
          changes_.push_back({i, {*grant.nodes, grant.batch}});
        }
      } else if (!current.empty() && grant.devices == current.counts(input_.cluster) &&
                 fits(current.shares)) {
        take(current.shares);
        if (grant.batch != current.batch) changes_.push_back({i, {current.shares, grant.batch}});
      } else {
        todo[i] = Todo::kMove;
      }
    }
    const auto move = [&](std::size_t i) {
      if (todo[i] == Todo::kMove) changes_.push_back({i, place_one(i)});
    };
    if (plan_.placement == PlacementRule::kBestFit) keep_survivors();
    if (plan_.placement_order.empty()) {
      for (std::size_t i = 0; i < todo.size(); ++i) move(i);
    } else {
      for (const std::size_t i : plan_.placement_order) move(i);
    }
    return std::move(changes_);
  }

 private:
  bool fits(const std::vector<NodeShare>& shares) const {
    return std::all_of(shares.begin(), shares.end(), [&](const NodeShare& share) {
      return free_[share.node.index()] >= share.devices;
    });
  }
  void take(const std::vector<NodeShare>& shares) {
    for (const NodeShare& share : shares) free_[share.node.index()] -= share.devices;
  }
  void give_back(const std::vector<NodeShare>& shares) {
    for (const NodeShare& share : shares) free_[share.node.index()] += share.devices;
  }

  // Reserves what resized jobs keep before any other job is placed.
  void keep_survivors() {
    survivors_.resize(plan_.grants.size());
    for (std::size_t i = 0; i < plan_.grants.size(); ++i) {
      const Grant& grant = plan_.grants[i];
      const Allocation& current = input_.jobs[i]->allocation;
      if (grant.nodes || current.empty() || grant.devices.total() == 0 ||
          grant.devices == current.counts(input_.cluster)) {
        continue;
      }
      std::vector<NodeShare> kept = current.shares;
      // The largest shares survive, so the job ends up on fewer nodes.
      std::stable_sort(kept.begin(), kept.end(), [](const NodeShare& a, const NodeShare& b) {
        return a.devices > b.devices;
      });
      DeviceCounts left = grant.devices;
      for (NodeShare& share : kept) {
        int& wanted = left[input_.cluster.node(share.node).type];
        share.devices = std::min({share.devices, wanted, free_[share.node.index()]});
        wanted -= share.devices;
      }
      std::erase_if(kept, [](const NodeShare& share) { return share.devices == 0; });
      take(kept);
      survivors_[i] = std::move(kept);
    }
  }

  Allocation place_one(std::size_t i) {
    const Grant& grant = plan_.grants[i];
    if (plan_.placement == PlacementRule::kMostFree || survivors_[i].empty()) {
      Allocation fresh{{}, grant.batch};
      add(grant.devices, fresh.shares);
      return fresh;
    }
    Allocation grown{survivors_[i], grant.batch};
    DeviceCounts missing = grant.devices;
    for (const NodeShare& share : grown.shares) {
      missing[input_.cluster.node(share.node).type] -= share.devices;
    }
    add(missing, grown.shares);
    give_back(grown.shares);
    Allocation fresh{{}, grant.batch};
    add(grant.devices, fresh.shares);
    if (fresh.shares.size() < grown.shares.size()) return fresh;
    give_back(fresh.shares);
    take(grown.shares);
    return grown;
  }

  // Takes free devices and appends them to the shares.
  void add(const DeviceCounts& wanted, std::vector<NodeShare>& shares) {
    for (std::size_t type = 0; type < input_.cluster.type_count(); ++type) {
      for (int left = wanted.of[type]; left > 0;) {
        const NodeId node = choose(DeviceTypeId(type), left, shares);
        int& free = free_[node.index()];
        const int taken = std::min(free, left);
        RUBATO_CHECK(taken > 0, "a valid plan cannot be placed");
        free -= taken;
        left -= taken;
        const auto own = std::find_if(shares.begin(), shares.end(),
                                      [&](const NodeShare& share) { return share.node == node; });
        if (own == shares.end()) {
          shares.push_back({node, taken});
        } else {
          own->devices += taken;
        }
      }
    }
  }

  NodeId choose(DeviceTypeId type, int wanted, const std::vector<NodeShare>& own) const {
    const bool best_fit = plan_.placement == PlacementRule::kBestFit;
    if (best_fit) {
      for (const NodeShare& share : own) {
        if (free_[share.node.index()] > 0 && input_.cluster.node(share.node).type == type) {
          return share.node;
        }
      }
    }
    NodeId most;
    NodeId tightest;
    for (const Node& node : input_.cluster.nodes()) {
      if (node.type != type) continue;
      const int free = free_[node.id.index()];
      if (!most.valid() || free > free_[most.index()]) most = node.id;
      if (best_fit && free >= wanted && (!tightest.valid() || free < free_[tightest.index()])) {
        tightest = node.id;
      }
    }
    return tightest.valid() ? tightest : most;
  }

  const Plan& plan_;
  const PolicyInput& input_;
  std::vector<int> free_;
  std::vector<std::vector<NodeShare>> survivors_;
  std::vector<PlacementChange> changes_;
};

// Devices beyond the next size that the job may have.
int surplus_of_size(const JobSpec& spec, int devices) {
  if (!spec.power_of_two_sizes || devices < 1) return 0;
  return devices - static_cast<int>(std::bit_floor(static_cast<unsigned>(devices)));
}

}  // namespace

std::vector<PlacementChange> place(const Plan& plan, const PolicyInput& input) {
  return Placer(plan, input).run();
}

std::vector<PlacementChange> fit_to_usable(std::span<const JobState* const> jobs,
                                           std::span<const int> usable) {
  std::vector<int> used(usable.size(), 0);
  for (const JobState* job : jobs) {
    for (const NodeShare& share : job->allocation.shares) used[share.node.index()] += share.devices;
  }
  std::vector<std::size_t> order(jobs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const JobSpec& one = jobs[a]->spec;
    const JobSpec& other = jobs[b]->spec;
    const bool pinned = one.pinned_devices > 0;
    if (pinned != (other.pinned_devices > 0)) return !pinned;
    return !pinned && one.priority < other.priority;
  });
  std::vector<PlacementChange> changes;
  for (const std::size_t i : order) {
    const JobState& job = *jobs[i];
    Allocation left = job.allocation;
    bool hit = false;
    for (NodeShare& share : left.shares) {
      const std::size_t node = share.node.index();
      const int lost = std::min(share.devices, std::max(0, used[node] - usable[node]));
      share.devices -= lost;
      used[node] -= lost;
      hit = hit || lost > 0;
    }
    if (!hit) continue;
    int surplus = surplus_of_size(job.spec, left.devices());
    for (auto share = left.shares.rbegin(); share != left.shares.rend() && surplus > 0; ++share) {
      const int lost = std::min(share->devices, surplus);
      share->devices -= lost;
      used[share->node.index()] -= lost;
      surplus -= lost;
    }
    std::erase_if(left.shares, [](const NodeShare& share) { return share.devices == 0; });
    if (job.spec.mode == ElasticMode::kRigid || left.devices() < job.spec.min_devices) {
      for (const NodeShare& share : left.shares) used[share.node.index()] -= share.devices;
      left = {};
    }
    changes.push_back({i, std::move(left)});
  }
  return changes;
}

}  // namespace rubato
