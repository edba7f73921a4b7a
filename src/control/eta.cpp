#include "control/eta.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

namespace rubato::control {

namespace {

constexpr Seconds kShortest = 1e-3;  // an active job has not ended

}  // namespace

std::map<JobNumber, Eta> estimate_ends(std::span<const EtaJob> running,
                                       std::span<const EtaJob> waiting, int free,
                                       std::span<const EtaJob> later) {
  std::map<JobNumber, Eta> etas;
  using Release = std::pair<Seconds, int>;  // when, devices
  std::priority_queue<Release, std::vector<Release>, std::greater<>> releases;
  const auto add = [&](const EtaJob& job, Seconds start_s, int devices) {
    if (!job.left_s) return;  // nobody can count on its devices
    const Seconds finish_s = start_s + std::max(kShortest, *job.left_s);
    etas[job.job] = {.start_s = start_s, .finish_s = finish_s, .devices = devices};
    releases.emplace(finish_s, devices);
  };
  for (const EtaJob& job : running) add(job, 0, job.devices);
  Seconds now_s = 0;
  for (const EtaJob& job : waiting) {
    while (free < job.needs && !releases.empty()) {
      now_s = std::max(now_s, releases.top().first);
      free += releases.top().second;
      releases.pop();
    }
    if (free < job.needs) return etas;  // whoever comes after it waits for it
    free -= job.needs;
    add(job, now_s, job.needs);
  }
  for (const EtaJob& job : later) {
    Seconds start_s = now_s;
    bool known = true;
    for (const JobNumber other : job.after) {
      const auto end = etas.find(other);
      known = known && end != etas.end();
      if (known) start_s = std::max(start_s, end->second.finish_s);
    }
    if (!known) continue;
    while (!releases.empty() && (free < job.needs || releases.top().first <= start_s)) {
      start_s = std::max(start_s, releases.top().first);
      free += releases.top().second;
      releases.pop();
    }
    if (free < job.needs) continue;
    free -= job.needs;
    add(job, start_s, job.needs);
  }
  return etas;
}

}  // namespace rubato::control
