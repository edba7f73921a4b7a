#include "membership/shrink.h"

#include <algorithm>
#include <cctype>

namespace rubato::elastic::membership::sim {

namespace {

constexpr int kMostRuns = 20'000;

class Shrinker {
 public:
  Shrinker(const Schedule& schedule, const Violation& violation)
      : violation_of_(violation), best_{schedule, violation(schedule), 1} {
    kind_ = kind_of_violation(best_.violation);
  }

  // Keeps the candidate if it violates the same. True: it does.
  bool attempt(const Schedule& candidate) {
    if (best_.runs >= kMostRuns) return false;
    ++best_.runs;
    const std::string violation = violation_of_(candidate);
    if (violation.empty() || kind_of_violation(violation) != kind_) return false;
    best_.schedule = candidate;
    best_.violation = violation;
    return true;
  }

  template <typename Edit>
  bool attempt_edit(const Edit& edit) {
    Schedule candidate = best_.schedule;
    edit(candidate);
    return attempt(candidate);
  }

  // Leaves out ever smaller groups of faults.
  bool fewer_faults() {
    bool better = false;
    for (std::size_t group = std::max<std::size_t>(1, faults().size() / 2);; group /= 2) {
      for (std::size_t at = 0; at < faults().size();) {
        const std::size_t end = std::min(at + group, faults().size());
        const bool fewer = attempt_edit([&](Schedule& candidate) {
          candidate.faults.erase(candidate.faults.begin() + static_cast<std::ptrdiff_t>(at),
                                 candidate.faults.begin() + static_cast<std::ptrdiff_t>(end));
        });
        better = better || fewer;
        if (!fewer) at = end;
      }
      if (group <= 1) return better;
    }
  }

  bool smaller_job() {
    bool better = false;
    for (int nodes = 1; nodes < best_.schedule.nodes; ++nodes) {
      better = attempt_edit([&](Schedule& s) { s.nodes = nodes; }) || better;
    }
    for (int workers = 1; workers < best_.schedule.workers; ++workers) {
      better = attempt_edit([&](Schedule& s) { s.workers = workers; }) || better;
    }
    if (best_.schedule.patient) {
      better = attempt_edit([&](Schedule& s) { s.patient = false; }) || better;
    }
    for (const Step steps : {Step{20}, Step{50}, Step{100}}) {
      if (steps >= best_.schedule.steps) break;
      better = attempt_edit([&](Schedule& s) { s.steps = steps; }) || better;
    }
    return better;
  }

  // Faults of round numbers that come early, without moments.
  bool simpler_faults() {
    bool better = false;
    for (std::size_t i = 0; i < faults().size(); ++i) {
      const auto change = [&](const auto& edit) {
        Fault simpler = faults()[i];
        edit(simpler);
        if (simpler.at == faults()[i].at && simpler.duration == faults()[i].duration &&
            simpler.after == faults()[i].after && simpler.when == faults()[i].when &&
            simpler.worker == faults()[i].worker) {
          return;
        }
        better = attempt_edit([&](Schedule& s) { s.faults[i] = simpler; }) || better;
      };
      change([](Fault& fault) { fault.when.reset(); });
      for (const Micros unit : {1'000'000, 100'000, 10'000, 1'000}) {
        change([&](Fault& fault) { fault.duration -= fault.duration % unit; });
        change([&](Fault& fault) { fault.at -= fault.at % unit; });
        change([&](Fault& fault) { fault.after -= fault.after % unit; });
      }
      for (int worker = 0; worker < faults()[i].worker; ++worker) {
        change([&](Fault& fault) { fault.worker = worker; });
      }
      // This fault and all that follow come earlier together.
      const Micros before = i == 0 ? 0 : faults()[i - 1].at;
      const Micros gap = faults()[i].at - before;
      for (const Micros less : {gap, gap / 2}) {
        if (less <= 0) continue;
        better = attempt_edit([&](Schedule& s) {
                   for (std::size_t k = i; k < s.faults.size(); ++k) s.faults[k].at -= less;
                 }) ||
                 better;
      }
    }
    return better;
  }

  const std::vector<Fault>& faults() const { return best_.schedule.faults; }
  // In the order in which they happen, which changes nothing.
  Shrunk best() const {
    Shrunk result = best_;
    std::stable_sort(result.schedule.faults.begin(), result.schedule.faults.end(),
                     [](const Fault& a, const Fault& b) { return a.at < b.at; });
    return result;
  }

 private:
  const Violation& violation_of_;
  Shrunk best_;
  std::string kind_;
};

}  // namespace

std::string kind_of_violation(const std::string& violation) {
  for (const char* const general : {"the job does not end", "the owner's wish is not met"}) {
    if (violation.find(general) != std::string::npos) return general;
  }
  std::string kind = violation.substr(0, violation.find('\n'));
  std::erase_if(kind, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  return kind;
}

Shrunk shrink(const Schedule& schedule, const std::vector<Fault>& as_it_was,
              const Violation& violation) {
  Shrinker shrinker(schedule, violation);
  if (!as_it_was.empty()) {
    Schedule pinned = schedule;
    pinned.faults = as_it_was;
    shrinker.attempt(pinned);
  }
  while (shrinker.fewer_faults() || shrinker.smaller_job() || shrinker.simpler_faults()) {
  }
  return shrinker.best();
}

}  // namespace rubato::elastic::membership::sim
