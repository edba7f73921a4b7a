// The genetic search of Pollux: which job gets how many devices on which nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "sched/decision_limit.h"

namespace rubato {

// Devices of one job on one node. Rows are sorted by node and contain no zero counts.
struct GeneShare {
  std::uint32_t node = 0;
  std::uint32_t devices = 0;
  bool operator==(const GeneShare&) const = default;
};
using GeneRow = std::vector<GeneShare>;

// One candidate: the rows of all jobs, flat.
struct Genome {
  std::vector<GeneShare> shares;
  std::vector<std::uint32_t> end;  // end of each job's row in `shares`
  double cost = 0;                 // minus the power mean of speedups: this is minimised
  double idleness = 0;             // minus the cluster utility: a second objective, for diversity
  std::uint64_t hash = 0;

  std::span<const GeneShare> row(std::size_t job) const {
    const std::size_t begin = job == 0 ? 0 : end[job - 1];
    return {shares.data() + begin, end[job] - begin};
  }
};

// The problem to search. Jobs are in order of preference: if two collide, the earlier one keeps its
// devices.
struct SearchProblem {
  struct Job {
    int min_devices = 0;  // a smaller count becomes 0
    int max_devices = 0;
    std::uint32_t allowed_types = ~0U;
    GeneRow current;            // its devices now
    double restart_factor = 1;  // its speedup is multiplied by this if its devices change
    // Speedup on (type, several nodes?, devices); devices >= 1.
    std::function<double(std::size_t type, bool several, int devices)> speedup;
  };
  std::vector<Job> jobs;
  std::vector<int> node_devices;         // usable devices of each node
  std::vector<std::uint32_t> node_type;  // type of each node
  double speedup_scale = 1;              // multiplies speedups before the mean
};

struct SearchOptions {
  int population = 100;
  int generations = 100;
  int patience = 30;  // stop if the least cost has not fallen for this many generations
};

// Runs NSGA-II from the given candidates (rows as in `SearchProblem::jobs`; they are repaired
// first). Returns the non-dominated candidates of the last generation, lowest cost first. Never
// empty. Deterministic for a given state of the generator, unless `limit` (may be null) ends it
// early.
std::vector<Genome> search(const SearchProblem& problem, const SearchOptions& options,
                           std::span<const std::vector<GeneRow>> start, Random& random,
                           const DecisionLimit* limit = nullptr);

}  // namespace rubato
