// Runs policies x workloads x seeds on several threads.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace rubato {

struct PolicyChoice {
  const PolicyInfo* info = nullptr;
  Settings settings;
  bool at_events = false;  // decides at events, regardless of SimOptions::round_s
};

struct RunMatrix {
  std::vector<PolicyChoice> policies;
  std::vector<Workload> workloads;
  std::vector<std::uint64_t> seeds;
  SimOptions options;  // without settings and seed, which come from the matrix
  // Quirks of each workload, parallel to `workloads`.
  std::vector<Quirks> quirks;
  int threads = 1;
};

// Callbacks for progress. They are called from several threads, one call at a time.
struct MatrixProgress {
  std::function<void(long finished_jobs)> on_jobs;
  std::function<void(const SimSummary& summary)> on_run;
};

// Results are ordered by workload, then policy, then seed, regardless of the thread that ran them.
// On failure, the first error in that order is returned instead.
Result<std::vector<SimResult>> run_matrix(const Cluster& cluster, const RunMatrix& matrix,
                                          const MatrixProgress& progress);

}  // namespace rubato
