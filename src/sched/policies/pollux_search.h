// The genetic search of Pollux: which job gets how many devices on which nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"

namespace rubato {

// Devices of one job on one node. Rows are sorted by node and hold no zero counts.
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
  double cost = 0;                 // minus the power mean of speedups: what is minimised
  double idleness = 0;  // minus the cluster utility: kept as a second objective for diversity
  std::uint64_t hash = 0;

  std::span<const GeneShare> row(std::size_t job) const {
    const std::size_t begin = job == 0 ? 0 : end[job - 1];
    return {shares.data() + begin, end[job] - begin};
  }
};

// What is searched. Jobs come in order of preference: where they collide, an earlier one keeps its
// devices.
struct SearchProblem {
  struct Job {
    int min_devices = 0;  // fewer become none
    int max_devices = 0;
    std::uint32_t allowed_types = ~0U;
    GeneRow current;            // its devices now
    double restart_factor = 1;  // its speedup counts this much when its devices change
    // Speedup on (type, several nodes?, devices), devices >= 1.
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
  int patience = 30;  // stop when the least cost has not fallen for this many generations
};

// Runs NSGA-II from the given candidates (rows as in `SearchProblem::jobs`; they are repaired
// first) and returns the non-dominated candidates of the last generation, the one with the least
// cost first. Never empty. Deterministic for the generator's state.
std::vector<Genome> search(const SearchProblem& problem, const SearchOptions& options,
                           std::span<const std::vector<GeneRow>> start, Random& random);

}  // namespace rubato
