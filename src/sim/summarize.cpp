#include <algorithm>
#include <vector>

#include "base/stats.h"
#include "sim/result.h"

namespace rubato {

void summarize_jobs(const std::vector<JobResult>& jobs, SimSummary& summary) {
  std::vector<double> jct, queue, fairness;
  jct.reserve(jobs.size());
  queue.reserve(jobs.size());
  fairness.reserve(jobs.size());
  Seconds first_submit_s = jobs.empty() ? 0 : jobs.front().submit_s;
  Seconds last_finish_s = first_submit_s;
  summary.resizes = 0;
  summary.resize_lost_device_s = 0;
  summary.jobs_dropped = 0;
  for (const JobResult& job : jobs) {
    first_submit_s = std::min(first_submit_s, job.submit_s);
    if (job.dropped) {
      ++summary.jobs_dropped;
      continue;
    }
    // A job that never finished has waited too. Leaving it out would reward starving it.
    queue.push_back(job.queue_s);
    summary.resizes += job.resizes;
    summary.resize_lost_device_s += job.lost_device_s;
    if (!job.finished()) continue;
    jct.push_back(job.jct_s());
    fairness.push_back(job.fairness);
    last_finish_s = std::max(last_finish_s, job.finish_s);
  }
  std::sort(jct.begin(), jct.end());
  std::sort(queue.begin(), queue.end());

  summary.jobs = static_cast<int>(jobs.size());
  summary.jobs_finished = static_cast<int>(jct.size());
  summary.mean_jct_s = mean(jct);
  summary.p50_jct_s = percentile_sorted(jct, 50);
  summary.p90_jct_s = percentile_sorted(jct, 90);
  summary.p99_jct_s = percentile_sorted(jct, 99);
  summary.mean_queue_s = mean(queue);
  summary.p99_queue_s = percentile_sorted(queue, 99);
  summary.makespan_s = jct.empty() ? 0 : last_finish_s - first_submit_s;
  summary.mean_fairness = mean(fairness);
  summary.worst_fairness =
      fairness.empty() ? 0 : *std::max_element(fairness.begin(), fairness.end());
}

}  // namespace rubato
