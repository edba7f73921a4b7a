#include "sim/run_matrix.h"

#include <optional>

#include "base/mutex.h"
#include "base/parallel.h"

namespace rubato {

namespace {

// Calls the caller's functions from any thread, one at a time.
class SharedProgress {
 public:
  explicit SharedProgress(const MatrixProgress& progress) : progress_(progress) {}

  void add_jobs(long finished) {
    const MutexLock lock(mutex_);
    finished_jobs_ += finished;
    if (progress_.on_jobs) progress_.on_jobs(finished_jobs_);
  }
  void add_run(const SimSummary& summary) {
    const MutexLock lock(mutex_);
    if (progress_.on_run) progress_.on_run(summary);
  }

 private:
  Mutex mutex_;
  const MatrixProgress& progress_ RUBATO_GUARDED_BY(mutex_);
  long finished_jobs_ RUBATO_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<std::vector<SimResult>> run_matrix(const Cluster& cluster, const RunMatrix& matrix,
                                          const MatrixProgress& progress) {
  const std::size_t per_workload = matrix.policies.size() * matrix.seeds.size();
  const std::size_t count = matrix.workloads.size() * per_workload;
  std::vector<std::optional<Result<SimResult>>> results(count);
  SharedProgress shared(progress);
  parallel_for(count, matrix.threads, [&](std::size_t i) {
    const std::size_t w = i / per_workload;
    const PolicyChoice& policy = matrix.policies[i % per_workload / matrix.seeds.size()];
    SimOptions options = matrix.options;
    options.seed = matrix.seeds[i % matrix.seeds.size()];
    options.settings = policy.settings;
    if (policy.at_events) options.round_s.reset();
    options.quirks = matrix.quirks[w];
    int reported = 0;
    const auto report = [&](int finished) {
      shared.add_jobs(finished - reported);
      reported = finished;
    };
    options.on_progress = report;
    results[i] = simulate(cluster, matrix.workloads[w], *policy.info, options);
    if (!*results[i]) return;
    const SimSummary& summary = (**results[i]).summary;
    report(summary.jobs_finished);
    shared.add_run(summary);
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
