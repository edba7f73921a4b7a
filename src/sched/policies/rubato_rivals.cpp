#include "sched/policies/rubato_rivals.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace rubato {

namespace {

constexpr double kGuessesAlike =
    2;  // guessed lengths that differ by no more than this factor are alike
constexpr double kRivalRounding = 1e-9;

// The values of waiting jobs by length, in epochs or seconds.
class Rivals {
 public:
  void add(double length, double value) { jobs_.emplace_back(length, value); }
  // To be called once, after the last add().
  void sort() {
    std::sort(jobs_.begin(), jobs_.end(), std::greater<>());
    for (std::size_t i = 1; i < jobs_.size(); ++i) {
      jobs_[i].second = std::max(jobs_[i].second, jobs_[i - 1].second);
    }
  }
  // The largest value of those that are at least so long; 0 if there is none.
  double most(double least) const {
    const auto shorter = std::partition_point(jobs_.begin(), jobs_.end(), [&](const auto& job) {
      return job.first >= least * (1 - kRivalRounding);
    });
    return shorter == jobs_.begin() ? 0 : std::prev(shorter)->second;
  }

 private:
  std::vector<std::pair<double, double>> jobs_;  // then: of all that are at least so long
};

template <typename Groups>
double most_in(const Groups& groups, const typename Groups::key_type& key, double least) {
  const auto found = groups.find(key);
  return found == groups.end() ? 0 : found->second.most(least);
}

}  // namespace

std::vector<double> rival_values(std::span<const Contender> jobs) {
  using Group = std::pair<std::string_view, int>;  // application and smallest size
  std::map<Group, Rivals> known;
  std::map<Group, Rivals> guessed;
  std::map<int, Rivals> unknown;  // guessed, by smallest size
  const auto group = [](const Contender& job) -> Group {
    const JobSpec& spec = job.outlook->job->spec;
    return {spec.application, spec.smallest()};
  };
  for (const Contender& job : jobs) {
    const Outlook& outlook = *job.outlook;
    if (outlook.job->running() || outlook.unexplored) continue;
    if (!outlook.guessed) {
      known[group(job)].add(outlook.epochs_left, job.value);
      continue;
    }
    guessed[group(job)].add(outlook.length_s, job.value);
    unknown[group(job).second].add(outlook.length_s, job.value);
  }
  for (auto& entry : known) entry.second.sort();
  for (auto& entry : guessed) entry.second.sort();
  for (auto& entry : unknown) entry.second.sort();
  std::vector<double> result(jobs.size(), 0.0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Outlook& outlook = *jobs[i].outlook;
    if (!outlook.job->running() || outlook.unexplored) continue;
    const Group own = group(jobs[i]);
    if (!outlook.guessed) {
      result[i] = most_in(known, own, outlook.epochs_left);
      continue;
    }
    result[i] = most_in(unknown, own.second, outlook.length_s / kGuessesAlike);
    if (!own.first.empty()) result[i] = std::max(result[i], most_in(guessed, own, 0));
  }
  return result;
}

}  // namespace rubato
