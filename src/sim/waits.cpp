#include "sim/waits.h"

#include <algorithm>
#include <map>

#include "base/stats.h"

namespace rubato {

namespace {

// A job starts or stops to wait.
struct Turn {
  Seconds time_s;
  std::size_t job;
  bool waits;
};

std::vector<Turn> turns_of(const SimResult& run) {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    const JobResult& job = run.jobs[i];
    // An empty name: the job had not been submitted when the simulation ended.
    if (!job.name.empty()) turns.push_back({job.submit_s, i, true});
    if (job.dropped) turns.push_back({job.submit_s + job.queue_s, i, false});
  }
  for (const DeviceChange& change : run.changes) {
    const JobResult& job = run.jobs[change.job];
    const bool ended = job.finished() && change.time_s >= job.finish_s;
    turns.push_back({change.time_s, change.job, change.shares.empty() && !ended});
  }
  std::stable_sort(turns.begin(), turns.end(),
                   [](const Turn& a, const Turn& b) { return a.time_s < b.time_s; });
  return turns;
}

}  // namespace

std::vector<WaitSample> sample_waits(const SimResult& run, std::size_t count) {
  if (run.timeline.empty() || run.changes.empty() || count < 2) return {};
  const std::vector<Turn> turns = turns_of(run);
  const Seconds begin_s = run.timeline.front().time_s;
  const Seconds length_s = run.timeline.back().time_s - begin_s;
  std::vector<WaitSample> samples;
  std::map<std::size_t, Seconds> since;  // of the jobs that wait
  auto turn = turns.begin();
  for (std::size_t k = 0; k < count; ++k) {
    WaitSample sample{.time_s = begin_s +
                                length_s * static_cast<double>(k) / static_cast<double>(count - 1)};
    for (; turn != turns.end() && turn->time_s <= sample.time_s; ++turn) {
      if (turn->waits) {
        since.try_emplace(turn->job, turn->time_s);
      } else {
        since.erase(turn->job);
      }
    }
    std::vector<double> waits;
    waits.reserve(since.size());
    for (const auto& [job, time_s] : since) waits.push_back(sample.time_s - time_s);
    if (!waits.empty()) {
      std::sort(waits.begin(), waits.end());
      sample.median_s = percentile_sorted(waits, 50);
      sample.p90_s = percentile_sorted(waits, 90);
    }
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace rubato
