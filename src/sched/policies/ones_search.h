// The evolutionary search of ONES: which job trains on which device.
//
// A candidate is an array over the devices of the cluster. A gene is a job (or nothing) and the
// local batch of that worker. The score is a sum over jobs, and a job's part depends on its own
// devices and batch alone. So for every number of devices there is one best batch, whatever other
// jobs do, and the cost tables of the problem contain it. The local batch of a gene therefore
// follows from how often the job occurs, and only the job is stored: two bytes per device.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"

namespace rubato {

struct OnesProblem {
  // Per node: devices that exist (they have genes), devices that may be used now, and their type.
  std::vector<int> node_devices;
  std::vector<int> node_usable;
  std::vector<std::uint32_t> node_type;
  std::uint32_t types = 1;

  struct Share {
    std::uint32_t node = 0;
    int devices = 0;
    bool operator==(const Share&) const = default;
  };

  // The costs of one job on one device type, by number of devices (index 0 is unused), on one node
  // and on several. kNeverCost if the job cannot run on this many devices or if fewer devices are
  // as fast.
  struct Costs {
    std::vector<double> one_node;
    std::vector<double> several;
  };

  struct Job {
    int min_devices = 1;
    int max_devices = 1;
    std::vector<Costs> costs;    // by type; empty tables: the type is not allowed
    double waiting = 0;          // cost of giving it nothing
    std::vector<Share> current;  // sorted by node; empty: the job waits now
    double unchanged = 0;        // cost on the current devices; the tables are for all others
  };
  std::vector<Job> jobs;  // fewer than 32768
  // Devices may stay idle if using them would make the score worse. Otherwise they are used
  // whenever they make a job faster.
  bool may_idle = false;
};

inline constexpr double kNeverCost = std::numeric_limits<double>::infinity();
inline constexpr std::int16_t kIdle = -1;

struct OnesGenome {
  std::vector<std::int16_t> genes;  // by device: nodes in order, the devices of a node together
  double score = kNeverCost;        // smaller is better
};

// The operators. Each object has its own scratch space. The problem must outlive it. Not
// thread-safe, but any number of objects may share one problem.
class OnesOperators {
 public:
  OnesOperators(const OnesProblem& problem, double theta);

  // Turns an arbitrary array into a candidate: drops genes on unusable devices or of unknown jobs,
  // cuts every job to a size that it may have, fills idle devices and calls reorder.
  void refresh(OnesGenome& genome, Random& random);
  // Uniform crossover: each device gets the gene of one parent or the other. Continues like
  // refresh, but mutates before filling.
  void breed(const OnesGenome& a, const OnesGenome& b, OnesGenome& child, Random& random);

  // The parts, which work on the counts of the candidate under construction (exposed for tests).
  void crossover(const OnesGenome& a, const OnesGenome& b, OnesGenome& child, Random& random) const;
  void count(const OnesGenome& genome);  // genes -> sizes that jobs may have
  void mutate(Random& random);           // preempts every running job with probability theta
  void fill(Random& random);             // starts waiting jobs and grows others while devices last
  // Writes the counts back and sets the score. A job that keeps its size keeps its devices. The
  // others are placed largest first, on the fullest node that holds them, otherwise on as few nodes
  // as possible. The workers of a job are adjacent: one run of devices on every node, on no more
  // nodes than necessary. With `repack`, running jobs on more nodes than necessary are placed anew.
  void reorder(OnesGenome& genome, bool repack);

  int size(std::size_t job) const { return size_[job]; }
  std::uint32_t type(std::size_t job) const { return type_[job]; }

 private:
  struct Step {
    int devices = 0;  // in addition to now
    double cost = 0;  // change of the score per device
  };
  // The next larger size of a job that pays off, if it fits into the idle devices.
  Step next_step(std::size_t job, std::uint32_t type) const;
  void take(std::size_t job, std::uint32_t type, int devices);
  double packed_cost(std::size_t job, std::uint32_t type, int devices) const {
    return packed_[job * problem_.types + type][static_cast<std::size_t>(devices)];
  }
  void put(std::size_t job, std::uint32_t node, int devices, OnesGenome& genome);

  const OnesProblem& problem_;
  double theta_;
  std::vector<std::uint32_t> first_;  // gene of each node's first device
  std::vector<int> node_size_;        // by type
  std::size_t devices_ = 0;
  std::vector<int> usable_;  // by type
  // By job and type: costs when packed on as few nodes as possible, the largest size that pays off
  // within each size, and the next larger one that pays off (0: none).
  std::vector<std::vector<double>> packed_;
  std::vector<std::vector<int>> down_;
  std::vector<std::vector<int>> up_;
  std::vector<int> now_size_;  // by job: devices that it holds now
  std::vector<char> compact_;  // by job: its current devices are on as few nodes as possible

  // The candidate under construction.
  std::vector<int> size_;            // by job
  std::vector<std::uint32_t> type_;  // by job, of those with devices
  std::vector<int> idle_;            // by type
  // Scratch.
  std::vector<int> held_;  // by job and type
  std::vector<int> free_;  // by node
  std::vector<std::uint32_t> cursor_;
  std::vector<std::size_t> moving_;
  std::vector<OnesProblem::Share> shares_;
  std::vector<std::vector<std::uint32_t>> by_free_;  // by type and free devices: nodes
  int most_free_ = 0;
};

struct OnesOptions {
  int islands = 4;
  int population = 16;  // per island
  int generations = 60;
  int patience = 10;  // generations between exchanges; the search ends after a stretch without
                      // improvement
  double theta = 0.1;
  int threads = 1;  // maximum; the result does not depend on it
};

// The population, kept between decisions.
class OnesSearch {
 public:
  OnesSearch(OnesOptions options, Random random);

  // Evolves the population on this problem and returns the best candidate. `renumbered` maps every
  // job of the last problem to its index in this one (kIdle: it is gone). The current devices are
  // always among the candidates. Deterministic for any number of threads.
  const OnesGenome& run(const OnesProblem& problem, std::span<const std::int16_t> renumbered);
  long evaluations() const { return evaluations_; }

 private:
  struct Island {
    // The population, sorted by score, followed by candidates that are kept for their memory.
    std::vector<OnesGenome> genomes;
    std::size_t alive = 0;
    Random random;

    OnesGenome& add();  // adds a candidate to be written
  };
  void start(Island& island, const OnesProblem& problem, std::span<const std::int16_t> renumbered,
             OnesOperators& operators) const;
  void evolve(Island& island, OnesOperators& operators, int generations) const;
  void select(Island& island) const;

  OnesOptions options_;
  std::vector<Island> islands_;
  long evaluations_ = 0;
};

}  // namespace rubato
