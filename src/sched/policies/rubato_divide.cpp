#include "sched/policies/rubato_divide.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace rubato {

namespace {

constexpr int kPriceSteps = 60;
constexpr int kMostRounds = 8;
constexpr double kLeastGain = 1e-9;  // relative; anything less is rounding

// Divides by gain per device, starting from nothing: shows what is lost without the exact solver.
Division divide_greedily(const std::vector<std::vector<Choice>>& tables, int capacity) {
  struct Step {
    double gain_per_unit;
    std::size_t job;
    int to;
    bool operator<(const Step& other) const { return gain_per_unit < other.gain_per_unit; }
  };
  Division division{.feasible = true};
  division.choice.assign(tables.size(), 0);
  std::priority_queue<Step> queue;
  const auto offer = [&](std::size_t job, int from) {
    const auto& table = tables[job];
    for (std::size_t next = static_cast<std::size_t>(from) + 1; next < table.size(); ++next) {
      const Choice& now = table[static_cast<std::size_t>(from)];
      const double gain = table[next].value - now.value;
      if (gain <= 0 || table[next].size <= now.size) continue;
      queue.push({gain / (table[next].size - now.size), job, static_cast<int>(next)});
      return;
    }
  };
  for (std::size_t j = 0; j < tables.size(); ++j) offer(j, 0);
  while (!queue.empty()) {
    const Step step = queue.top();
    queue.pop();
    const auto& table = tables[step.job];
    int& choice = division.choice[step.job];
    const int more = table[static_cast<std::size_t>(step.to)].size -
                     table[static_cast<std::size_t>(choice)].size;
    if (more > capacity) continue;
    capacity -= more;
    choice = step.to;
    offer(step.job, choice);
  }
  return division;
}

class Divider {
 public:
  Divider(const std::vector<TypedChoices>& jobs, const DeviceCounts& usable, std::size_t types,
          bool exact)
      : jobs_(jobs), usable_(usable), types_(types), exact_(exact) {}

  double value(const TypedShare& share, std::size_t job) const {
    if (!share.type.valid()) return 0;
    return jobs_[job].of[share.type.index()][static_cast<std::size_t>(share.choice)].value;
  }

  double total(const std::vector<TypedShare>& shares) const {
    double sum = 0;
    for (std::size_t j = 0; j < shares.size(); ++j) sum += value(shares[j], j);
    return sum;
  }

  // Divides one type at a time among the jobs assigned to it.
  std::vector<TypedShare> divide(const std::vector<DeviceTypeId>& assigned) const {
    std::vector<TypedShare> shares(jobs_.size());
    for (std::size_t t = 0; t < types_; ++t) {
      solve(DeviceTypeId(t), shares, [&](std::size_t j) { return assigned[j] == DeviceTypeId(t); });
    }
    return shares;
  }

  // What jobs have now, as far as it still fits.
  std::vector<TypedShare> as_now() const {
    std::vector<TypedShare> shares(jobs_.size());
    DeviceCounts left = usable_;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      if (jobs_[j].now < 0) continue;
      const TypedShare share{jobs_[j].now_type, jobs_[j].now};
      const int size = jobs_[j].of[share.type.index()][static_cast<std::size_t>(share.choice)].size;
      if (size > left[share.type]) continue;
      left[share.type] -= size;
      shares[j] = share;
    }
    return shares;
  }

  void improve(std::vector<TypedShare>& shares) const {
    double best = total(shares);
    for (int round = 0; round < kMostRounds; ++round) {
      const double before = best;
      for (std::size_t t = 0; t < types_; ++t) {
        solve(DeviceTypeId(t), shares, [](std::size_t) { return true; });
      }
      best = total(shares);
      if (best <= before * (1 + kLeastGain)) return;
    }
  }

  // Adjusts the prices until the demand for each type roughly matches its devices. Returns the type
  // that each job prefers at these prices.
  std::vector<DeviceTypeId> assign(std::array<double, kMaxDeviceTypes>& price) const {
    double highest = 0;
    for (const TypedChoices& job : jobs_) {
      for (const auto& choices : job.of) {
        for (const Choice& c : choices) highest = std::max(highest, c.value / c.size);
      }
    }
    std::vector<DeviceTypeId> assigned(jobs_.size());
    for (int step = 0; step < kPriceSteps; ++step) {
      DeviceCounts asked;
      for (std::size_t j = 0; j < jobs_.size(); ++j) {
        double best = 0;
        double nearest = -1e300;
        int size = 0;
        for (std::size_t t = 0; t < types_; ++t) {
          for (const Choice& c : jobs_[j].of[t]) {
            const double gain = c.value - price[t] * c.size;
            if (gain > nearest) {
              nearest = gain;
              assigned[j] = DeviceTypeId(t);
            }
            if (gain <= best) continue;
            best = gain;
            size = c.size;
          }
        }
        if (size > 0) asked[assigned[j]] += size;
      }
      const double pace = 0.6 / (1 + 0.15 * step);
      for (std::size_t t = 0; t < types_; ++t) {
        const double room = std::max(1, usable_.of[t]);
        const double excess = std::clamp((asked.of[t] - room) / room, -1.0, 1.0);
        price[t] = std::clamp(price[t] * std::exp(pace * excess), 1e-6 * highest, highest);
      }
    }
    return assigned;
  }

 private:
  // Divides one type among the jobs that may take part. The other jobs keep what they have.
  template <typename Takes>
  void solve(DeviceTypeId type, std::vector<TypedShare>& shares, Takes takes) const {
    std::vector<std::size_t> takers;
    std::vector<std::vector<Choice>> tables;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const std::vector<Choice>& choices = jobs_[j].of[type.index()];
      if (choices.empty() || !takes(j)) continue;
      takers.push_back(j);
      tables.push_back({{0, shares[j].type == type ? 0.0 : value(shares[j], j)}});
      tables.back().insert(tables.back().end(), choices.begin(), choices.end());
    }
    if (takers.empty() || usable_[type] == 0) return;
    const Division division =
        exact_ ? allocate(tables, usable_[type]) : divide_greedily(tables, usable_[type]);
    for (std::size_t i = 0; i < takers.size(); ++i) {
      TypedShare& share = shares[takers[i]];
      if (division.choice[i] > 0) {
        share = {type, division.choice[i] - 1};
      } else if (share.type == type) {
        share = {};
      }
    }
  }

  const std::vector<TypedChoices>& jobs_;
  const DeviceCounts& usable_;
  std::size_t types_;
  bool exact_;
};

std::vector<DeviceTypeId> fastest(const std::vector<TypedChoices>& jobs, std::size_t types) {
  std::vector<DeviceTypeId> assigned(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    double best = -1;
    for (std::size_t t = 0; t < types; ++t) {
      if (jobs[j].of[t].empty() || jobs[j].of[t].front().value <= best) continue;
      best = jobs[j].of[t].front().value;
      assigned[j] = DeviceTypeId(t);
    }
  }
  return assigned;
}

}  // namespace

std::vector<TypedShare> divide_types(const std::vector<TypedChoices>& jobs,
                                     const DeviceCounts& usable, std::size_t types,
                                     DivisionMethod method,
                                     std::array<double, kMaxDeviceTypes>& price) {
  const Divider divider(jobs, usable, types, method != DivisionMethod::kGreedy);
  if (types == 1) return divider.divide(std::vector<DeviceTypeId>(jobs.size(), DeviceTypeId(0)));
  if (method == DivisionMethod::kFastest) return divider.divide(fastest(jobs, types));
  std::vector<TypedShare> kept = divider.as_now();
  divider.improve(kept);
  if (method == DivisionMethod::kImproveOnly) return kept;
  std::vector<TypedShare> fresh = divider.divide(divider.assign(price));
  divider.improve(fresh);
  return divider.total(fresh) > divider.total(kept) ? fresh : kept;
}

}  // namespace rubato
