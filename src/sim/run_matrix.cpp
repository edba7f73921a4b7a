#include "sim/run_matrix.h"

#include <mutex>
#include <optional>

#include "base/parallel.h"

namespace rubato {

Result<std::vector<SimResult>> run_matrix(const Cluster& cluster, const RunMatrix& matrix,
                                          const MatrixProgress& progress) {
  const std::size_t per_workload = matrix.policies.size() * matrix.seeds.size();
  const std::size_t count = matrix.workloads.size() * per_workload;
  std::vector<std::optional<Result<SimResult>>> results(count);
  std::mutex mutex;
  long finished_jobs = 0;
  parallel_for(count, matrix.threads, [&](std::size_t i) {
    const std::size_t w = i / per_workload;
    const PolicyChoice& policy = matrix.policies[i % per_workload / matrix.seeds.size()];
    SimOptions options = matrix.options;
    options.seed = matrix.seeds[i % matrix.seeds.size()];
    options.settings = policy.settings;
    options.quirks = matrix.quirks[w];
    int reported = 0;
    const auto report = [&](int finished) {
      const std::lock_guard lock(mutex);
      finished_jobs += finished - reported;
      reported = finished;
      if (progress.on_jobs) progress.on_jobs(finished_jobs);
    };
    options.on_progress = report;
    results[i] = simulate(cluster, matrix.workloads[w], *policy.info, options);
    if (!*results[i]) return;
    const SimSummary& summary = (**results[i]).summary;
    report(summary.jobs_finished);
    const std::lock_guard lock(mutex);
    if (progress.on_run) progress.on_run(summary);
  });
  std::vector<SimResult> runs;
  runs.reserve(count);
  for (auto& result : results) {
    if (!*result) return result->error();
    runs.push_back(std::move(**result));
  }
  return runs;
}

}  // namespace rubato
