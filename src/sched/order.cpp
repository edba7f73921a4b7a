#include "sched/order.h"

#include <algorithm>
#include <numeric>

namespace rubato {

JobOrder by_priority_then_arrival(const PolicyInput& input) {
  JobOrder order(input.jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto more_urgent = [&](std::size_t a, std::size_t b) {
    return input.jobs[a]->spec.priority > input.jobs[b]->spec.priority;
  };
  // Most workloads use a single priority. Then arrival order is already the answer.
  if (!std::is_sorted(order.begin(), order.end(), more_urgent)) {
    std::stable_sort(order.begin(), order.end(), more_urgent);
  }
  return order;
}

JobOrder by_key(const PolicyInput& input, const std::function<double(const JobState&)>& key) {
  struct Entry {
    int priority;
    double key;
    std::size_t index;
  };
  std::vector<Entry> entries;
  entries.reserve(input.jobs.size());
  for (std::size_t i = 0; i < input.jobs.size(); ++i) {
    entries.push_back({input.jobs[i]->spec.priority, key(*input.jobs[i]), i});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.key != b.key) return a.key < b.key;
    return a.index < b.index;
  });
  JobOrder order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(entry.index);
  return order;
}

JobOrder running_first(const PolicyInput& input, const JobOrder& order) {
  JobOrder result;
  result.reserve(order.size());
  for (const bool running : {true, false}) {
    for (const std::size_t i : order) {
      if (input.jobs[i]->running() == running) result.push_back(i);
    }
  }
  return result;
}

}  // namespace rubato
