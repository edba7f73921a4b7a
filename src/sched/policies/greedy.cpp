// Greedy allocator: the baseline of the MIP allocator (mip.cpp), our reconstruction.
//
// Assumes nothing. Sizes are powers of two of devices or whole nodes within a job's range. Running
// jobs are never stopped. Steps, at every decision:
//  1. Idle units and a queue: while it fits, the head of the queue gets the largest of its sizes
//     that is idle.
//  2. A job has just arrived and does not fit: the largest job that can be halved is halved, again
//     and again, until the newcomer's smallest size is free. The newcomer then gets the largest of
//     its sizes that is free. If halving does not free enough, it waits and no job is halved.
//  3. Idle units and no queue: the job that has run least is doubled while it fits; then the next.
// With `backfill`, jobs behind a head that does not fit are considered too. With freed=head, step 2
// serves the head of the queue instead of the newcomer behind it. O(jobs^2) per decision.
#include <algorithm>
#include <unordered_set>

#include "sched/gang.h"
#include "sched/policies/doubling.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

struct GreedySettings {
  bool backfill = false;
  bool freed_to_head = false;
  Doubling::Unit unit = Doubling::Unit::kDevice;
  PlacementRule placement = PlacementRule::kBestFit;
};

class Greedy final : public Policy {
 public:
  explicit Greedy(const GreedySettings& settings) : settings_(settings) {}

  Plan decide(const PolicyInput& input) override {
    Sharing sharing(input, settings_.unit);
    std::vector<std::size_t> queue = sharing.waiting();
    serve_queue(sharing, queue);
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      if (known_.contains(input.jobs[i]->spec.id)) continue;  // not an arrival
      if (std::find(queue.begin(), queue.end(), i) == queue.end()) continue;
      const std::size_t served = settings_.freed_to_head ? queue.front() : i;
      if (sharing.make_room(served)) std::erase(queue, served);
    }
    if (queue.empty()) sharing.double_shortest();
    known_.clear();
    for (const JobState* job : input.jobs) known_.insert(job->spec.id);
    return sharing.plan(queue, settings_.placement);
  }

 private:
  // What each job has, in units, while the decision is made.
  class Sharing {
   public:
    Sharing(const PolicyInput& input, Doubling::Unit unit)
        : input_(input),
          doubling_(input, unit),
          type_(input.jobs.size()),
          size_(input.jobs.size(), 0) {
      for (std::size_t t = 0; t < input.cluster.type_count(); ++t) {
        idle_[DeviceTypeId(t)] = doubling_.capacity(DeviceTypeId(t));
      }
      for (std::size_t i = 0; i < size_.size(); ++i) {
        if (!input.jobs[i]->running()) continue;
        type_[i] = doubling_.type_of(*input.jobs[i]);
        // Its range may have become smaller since it got them.
        size_[i] = std::min(doubling_.current(*input.jobs[i]),
                            doubling_.sizes(input.jobs[i]->spec, type_[i]).back());
        idle_[type_[i]] -= size_[i];
      }
    }

    std::vector<std::size_t> waiting() const {
      std::vector<std::size_t> queue;
      for (const std::size_t i : by_priority_then_arrival(input_)) {
        if (size_[i] == 0) queue.push_back(i);
      }
      return queue;
    }

    // Gives a waiting job the largest of its sizes that is idle. False if none is.
    bool start(std::size_t i) {
      for (std::size_t t = 0; t < input_.cluster.type_count(); ++t) {
        const DeviceTypeId type(t);
        if (!input_.jobs[i]->spec.allows(type)) continue;
        const int largest = largest_idle(i, type);
        if (largest > size_[i]) {
          size_[i] = largest;
          type_[i] = type;
        }
      }
      if (size_[i] == 0) return false;
      idle_[type_[i]] -= size_[i];
      return true;
    }

    // Halves jobs until a waiting job can start, and starts it. False if it cannot start.
    bool make_room(std::size_t i) {
      for (std::size_t t = 0; t < input_.cluster.type_count(); ++t) {
        const DeviceTypeId type(t);
        if (!input_.jobs[i]->spec.allows(type)) continue;
        const auto sizes_before = size_;
        const auto idle_before = idle_;
        while (largest_idle(i, type) == 0 && halve_largest(type)) {
        }
        if (start(i)) return true;
        size_ = sizes_before;
        idle_ = idle_before;
      }
      return false;
    }

    void double_shortest() {
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < size_.size(); ++i) {
        if (size_[i] > 0) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return input_.jobs[a]->executed_s(input_.now_s) < input_.jobs[b]->executed_s(input_.now_s);
      });
      for (const std::size_t i : order) {
        while (allowed(i, 2 * size_[i]) && idle_[type_[i]] >= size_[i]) {
          idle_[type_[i]] -= size_[i];
          size_[i] *= 2;
        }
      }
    }

    Plan plan(const std::vector<std::size_t>& queue, PlacementRule placement) const {
      Plan plan = empty_plan(input_);
      plan.placement = placement;
      for (std::size_t i = 0; i < size_.size(); ++i) {
        if (size_[i] == 0) continue;
        const JobState& job = *input_.jobs[i];
        const bool kept = job.running() && size_[i] == doubling_.current(job);
        plan.grants[i].devices[type_[i]] =
            kept ? job.allocation.devices() : doubling_.devices(job.spec, type_[i], size_[i]);
        plan.grants[i].batch = job.spec.requested_batch;
      }
      for (std::size_t place = 1; place < queue.size(); ++place) {
        plan.grants[queue[place]].waiting = Reason::kWaitsBehind;
      }
      return plan;
    }

   private:
    bool allowed(std::size_t i, int size) const {
      const std::vector<int> sizes = doubling_.sizes(input_.jobs[i]->spec, type_[i]);
      return std::binary_search(sizes.begin(), sizes.end(), size);
    }

    int largest_idle(std::size_t i, DeviceTypeId type) const {
      int largest = 0;
      for (const int size : doubling_.sizes(input_.jobs[i]->spec, type)) {
        if (size <= idle_[type]) largest = size;
      }
      return largest;
    }

    bool halve_largest(DeviceTypeId type) {
      std::size_t largest = size_.size();
      for (std::size_t i = 0; i < size_.size(); ++i) {
        if (size_[i] < 2 || type_[i] != type || !allowed(i, size_[i] / 2)) continue;
        if (largest == size_.size() || size_[i] > size_[largest]) largest = i;
      }
      if (largest == size_.size()) return false;
      const int half = size_[largest] / 2;
      idle_[type] += size_[largest] - half;
      size_[largest] = half;
      return true;
    }

    const PolicyInput& input_;
    Doubling doubling_;
    std::vector<DeviceTypeId> type_;
    std::vector<int> size_;
    DeviceCounts idle_;
  };

  void serve_queue(Sharing& sharing, std::vector<std::size_t>& queue) const {
    for (auto it = queue.begin(); it != queue.end();) {
      if (sharing.start(*it)) {
        it = queue.erase(it);
      } else if (settings_.backfill) {
        ++it;
      } else {
        return;
      }
    }
  }

  GreedySettings settings_;
  std::unordered_set<JobId> known_;  // jobs of the last decision
};

}  // namespace

PolicyInfo greedy_policy() {
  return {
      .name = "greedy",
      .summary =
          "the head takes idle devices, newcomers halve the largest job, idle devices "
          "double jobs",
      .source = "Hu et al. (ModelArts), 2021 (baseline)",
      .needs = {Knowledge::kNothing},
      .params = {{.name = "backfill",
                  .default_value = false,
                  .help = "whether jobs behind a head of the queue that does not fit may start"},
                 {.name = "freed",
                  .default_value = std::string("newcomer"),
                  .choices = {"newcomer", "head"},
                  .help = "which job gets what a halved job gave up: the one that arrived, or "
                          "the head of the queue"},
                 unit_param(),
                 placement_param(PlacementRule::kBestFit)},
      .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
        return std::make_unique<Greedy>(
            GreedySettings{.backfill = params.flag("backfill"),
                           .freed_to_head = params.choice("freed") == "head",
                           .unit = unit_of(params),
                           .placement = placement_rule(params)});
      }};
}

}  // namespace rubato
