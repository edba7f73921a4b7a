#include "sched/policies/pollux_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>

namespace rubato {

namespace {

constexpr double kCrossoverChance = 0.9;
constexpr double kResetChance = 0.1;     // chance that a job falls back to what it has now
constexpr double kThinChance = 0.1;      // chance that a job loses some of its nodes
constexpr double kThinNodeChance = 0.1;  // chance for each of them
constexpr double kLeastSpeedup = 1e-3;   // keeps the mean finite for jobs without devices
constexpr int kRefills = 3;              // attempts to replace duplicates in a generation

// Draws the number of successes in n independent trials from a table: one random number instead of
// n.
class BinomialTable {
 public:
  BinomialTable(std::size_t n, double chance) {
    if (chance >= 1.0) {
      tail_.assign(n, 1.0);
      return;
    }
    double density = std::pow(1.0 - chance, static_cast<double>(n));
    double above = 1.0 - density;
    for (std::size_t k = 0; k < n && above > 1e-12; ++k) {
      tail_.push_back(above);
      density *= static_cast<double>(n - k) / static_cast<double>(k + 1) * chance / (1.0 - chance);
      above -= density;
    }
  }
  std::size_t draw(Random& random) const {
    const double u = random.uniform();
    std::size_t k = 0;
    while (k < tail_.size() && u < tail_[k]) ++k;
    return k;
  }

 private:
  std::vector<double> tail_;  // P(X > k)
};

class Search {
 public:
  Search(const SearchProblem& problem, const SearchOptions& options, Random& random,
         const DecisionLimit* limit)
      : problem_(problem),
        random_(random),
        wanted_(static_cast<std::size_t>(options.population)),
        generations_(options.generations),
        patience_(options.patience),
        limit_(limit),
        job_count_(problem.jobs.size()),
        node_count_(problem.node_devices.size()),
        arrivals_(job_count_, 1.0 / static_cast<double>(job_count_)),
        resets_(job_count_, kResetChance),
        thinned_(job_count_, kThinChance),
        rows_(job_count_),
        free_(node_count_),
        present_(node_count_),
        spanning_(node_count_),
        speedups_(job_count_) {
    const auto types = problem.node_type.empty()
                           ? std::size_t{1}
                           : *std::max_element(problem.node_type.begin(), problem.node_type.end()) +
                                 std::size_t{1};
    types_ = types;
    for (std::size_t j = 0; j < job_count_; ++j) {
      const auto most = static_cast<std::size_t>(problem.jobs[j].max_devices) + 1;
      speedups_[j].assign(types * 2 * most, std::numeric_limits<double>::quiet_NaN());
    }
  }

  std::vector<Genome> run(std::span<const std::vector<GeneRow>> start) {
    for (const std::vector<GeneRow>& candidate : start) {
      rows_ = candidate;
      repair();
      Genome genome;
      flatten(genome);
      if (seen_.insert(genome.hash).second) population_.push_back(std::move(genome));
    }
    survive();
    double least = least_cost();
    for (int generation = 0, stale = 0; generation < generations_ && stale < patience_;
         ++generation) {
      if (limit_ != nullptr && limit_->reached()) break;
      breed();
      survive();
      const double reached = least_cost();
      stale = reached < least ? 0 : stale + 1;
      least = std::min(least, reached);
    }
    std::vector<Genome> front;
    for (std::size_t i = 0; i < population_.size(); ++i) {
      if (rank_[i] == 0) front.push_back(std::move(population_[i]));
    }
    std::stable_sort(front.begin(), front.end(),
                     [](const Genome& a, const Genome& b) { return a.cost < b.cost; });
    return front;
  }

 private:
  // The population is kept in order of fronts. The first front is sorted by cost.
  double least_cost() const { return population_.front().cost; }

  // --- Variation

  void breed() {
    std::size_t missing = wanted_;
    const std::size_t parents = population_.size();
    for (int attempt = 0; attempt < kRefills && missing > 0; ++attempt) {
      for (std::size_t pair = 0, pairs = (missing + 1) / 2; pair < pairs; ++pair) {
        const Genome* a = &population_[tournament(parents)];
        const Genome* b = &population_[tournament(parents)];
        const bool cross = random_.chance(kCrossoverChance);
        const std::size_t cut = cross ? any_job() : 0;
        for (int child = 0; child < 2 && missing > 0; ++child) {
          inherit(*b, *a, cut);
          std::swap(a, b);
          mutate();
          repair();
          flatten(child_);
          if (!seen_.insert(child_.hash).second) continue;
          offspring_.push_back(child_);
          --missing;
        }
      }
    }
    for (Genome& child : offspring_) population_.push_back(std::move(child));
    offspring_.clear();
  }

  // Takes the rows before `cut` from one parent and the rest from the other.
  void inherit(const Genome& before, const Genome& after, std::size_t cut) {
    for (std::size_t j = 0; j < job_count_; ++j) {
      const auto row = (j < cut ? before : after).row(j);
      rows_[j].assign(row.begin(), row.end());
    }
  }

  std::size_t any_job() { return random_.below(static_cast<std::uint32_t>(job_count_)); }

  void mutate() {
    for (std::size_t k = resets_.draw(random_); k > 0; --k) {
      const std::size_t j = any_job();
      rows_[j] = problem_.jobs[j].current;
    }
    for (std::size_t k = thinned_.draw(random_); k > 0; --k) {
      std::erase_if(rows_[any_job()],
                    [&](const GeneShare&) { return random_.chance(kThinNodeChance); });
    }
    for (std::size_t n = 0; n < node_count_; ++n) free_[n] = problem_.node_devices[n];
    std::fill(present_.begin(), present_.end(), 0);
    for (const GeneRow& row : rows_) {
      for (const GeneShare& share : row) {
        free_[share.node] -= static_cast<int>(share.devices);
        ++present_[share.node];
      }
    }
    grow_present();
    arrive_new();
  }

  // On nodes with room, about one of the jobs present there (sometimes more) gets a new, larger
  // count.
  void grow_present() {
    const double by_arrival = 1.0 / static_cast<double>(job_count_);
    for (GeneRow& row : rows_) {
      for (GeneShare& share : row) {
        if (free_[share.node] < 1) continue;
        const double by_presence = 1.0 / present_[share.node];
        if (!random_.chance(by_arrival + by_presence - by_arrival * by_presence)) continue;
        share.devices = static_cast<std::uint32_t>(
            random_.between(static_cast<int>(share.devices), problem_.node_devices[share.node]));
      }
    }
  }

  // On nodes with room, each absent job arrives with chance 1/jobs.
  void arrive_new() {
    for (std::size_t n = 0; n < node_count_; ++n) {
      if (free_[n] < 1) continue;
      for (std::size_t k = arrivals_.draw(random_); k > 0; --k) {
        GeneRow& row = rows_[any_job()];
        const auto at = std::lower_bound(
            row.begin(), row.end(), n,
            [](const GeneShare& share, std::size_t node) { return share.node < node; });
        if (at != row.end() && at->node == n) continue;
        const int devices = random_.between(0, problem_.node_devices[n]);
        if (devices == 0) continue;
        row.insert(at, {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(devices)});
      }
    }
  }

  // --- Repair: makes the rows obey all limits

  void repair() {
    std::fill(spanning_.begin(), spanning_.end(), 0);
    for (std::size_t n = 0; n < node_count_; ++n) free_[n] = problem_.node_devices[n];
    for (std::size_t j = 0; j < job_count_; ++j) {
      GeneRow& row = rows_[j];
      if (row.empty()) continue;
      const SearchProblem::Job& job = problem_.jobs[j];
      if (types_ > 1) keep_one_type(row, job);
      if (row.size() > 1) {
        // At most one job that spans nodes per node. The job counts as spanning even if this leaves
        // it on one node.
        std::erase_if(row, [&](const GeneShare& share) { return spanning_[share.node]++ > 0; });
      }
      cap_devices(row, job.max_devices);
      int total = 0;
      for (GeneShare& share : row) {
        share.devices = std::min(share.devices, static_cast<std::uint32_t>(free_[share.node]));
        total += static_cast<int>(share.devices);
      }
      if (total < job.min_devices) {
        row.clear();
        continue;
      }
      std::erase_if(row, [](const GeneShare& share) { return share.devices == 0; });
      for (const GeneShare& share : row) free_[share.node] -= static_cast<int>(share.devices);
    }
  }

  // Cuts a row to its maximum, taking devices from its nodes in random order.
  void cap_devices(GeneRow& row, int most) {
    int total = 0;
    for (const GeneShare& share : row) total += static_cast<int>(share.devices);
    if (total <= most) return;
    order_.resize(row.size());
    std::iota(order_.begin(), order_.end(), 0U);
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[random_.below(static_cast<std::uint32_t>(i))]);
    }
    int left = most;
    for (const std::uint32_t i : order_) {
      row[i].devices = std::min(row[i].devices, static_cast<std::uint32_t>(left));
      left -= static_cast<int>(row[i].devices);
    }
    std::erase_if(row, [](const GeneShare& share) { return share.devices == 0; });
  }

  // A job runs on one type: the allowed type of which the row holds most.
  void keep_one_type(GeneRow& row, const SearchProblem::Job& job) {
    std::array<std::uint32_t, 32> held{};
    for (const GeneShare& share : row) {
      const std::uint32_t type = problem_.node_type[share.node];
      if ((job.allowed_types >> type & 1U) != 0) held[type] += share.devices;
    }
    const auto best = std::max_element(held.begin(), held.end());
    const auto kept = static_cast<std::uint32_t>(best - held.begin());
    std::erase_if(row, [&](const GeneShare& share) {
      return *best == 0 || problem_.node_type[share.node] != kept;
    });
  }

  // --- Evaluation

  double speedup(std::size_t j, std::span<const GeneShare> row, int devices) {
    const std::size_t type = problem_.node_type[row.front().node];
    const auto most = static_cast<std::size_t>(problem_.jobs[j].max_devices) + 1;
    double& known = speedups_[j][(type * 2 + (row.size() > 1 ? 1 : 0)) * most +
                                 static_cast<std::size_t>(devices)];
    if (std::isnan(known)) known = problem_.jobs[j].speedup(type, row.size() > 1, devices);
    return known;
  }

  // Turns rows_ into a genome and computes its objectives.
  void flatten(Genome& genome) {
    genome.shares.clear();
    genome.end.clear();
    std::fill(present_.begin(), present_.end(), 0);
    double reciprocals = 0;
    double speedup_sum = 0;
    int active_devices = 0;
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    const auto mix = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    };
    for (std::size_t j = 0; j < job_count_; ++j) {
      const GeneRow& row = rows_[j];
      const SearchProblem::Job& job = problem_.jobs[j];
      double scaled = 0;
      if (!row.empty()) {
        int devices = 0;
        for (const GeneShare& share : row) {
          devices += static_cast<int>(share.devices);
          if (present_[share.node]++ == 0) active_devices += problem_.node_devices[share.node];
          mix(j << 40 | static_cast<std::uint64_t>(share.node) << 16 | share.devices);
          genome.shares.push_back(share);
        }
        const double gained = speedup(j, row, devices);
        speedup_sum += gained;
        scaled = gained * problem_.speedup_scale;
        if (row != job.current) scaled *= job.restart_factor;
      }
      genome.end.push_back(static_cast<std::uint32_t>(genome.shares.size()));
      reciprocals += 1.0 / (scaled + kLeastSpeedup);
    }
    genome.hash = hash;
    genome.cost = -static_cast<double>(job_count_) / reciprocals;
    genome.idleness = active_devices > 0 ? -speedup_sum / active_devices : 0.0;
  }

  // --- Selection (NSGA-II with two objectives)

  static bool dominates(const Genome& a, const Genome& b) {
    return a.cost <= b.cost && a.idleness <= b.idleness &&
           (a.cost < b.cost || a.idleness < b.idleness);
  }

  std::size_t tournament(std::size_t count) {
    const std::size_t a = random_.below(static_cast<std::uint32_t>(count));
    const std::size_t b = random_.below(static_cast<std::uint32_t>(count));
    if (dominates(population_[a], population_[b])) return a;
    if (dominates(population_[b], population_[a])) return b;
    if (crowding_[a] != crowding_[b]) return crowding_[a] > crowding_[b] ? a : b;
    return a;
  }

  // Ranks the population by fronts and crowding, and keeps the best.
  void survive() {
    const std::size_t count = population_.size();
    sorted_.resize(count);
    std::iota(sorted_.begin(), sorted_.end(), 0U);
    std::sort(sorted_.begin(), sorted_.end(), [&](std::uint32_t x, std::uint32_t y) {
      const Genome& a = population_[x];
      const Genome& b = population_[y];
      if (a.cost != b.cost) return a.cost < b.cost;
      if (a.idleness != b.idleness) return a.idleness < b.idleness;
      return x < y;
    });
    // In this order the last member of a front is its best in the second objective. So one
    // comparison per front tells whether the front dominates a candidate. The fronts are ordered,
    // hence the binary search.
    for (auto& front : fronts_) front.clear();
    std::size_t used = 0;
    for (const std::uint32_t i : sorted_) {
      const auto first_open =
          std::partition_point(fronts_.begin(), fronts_.begin() + static_cast<std::ptrdiff_t>(used),
                               [&](const std::vector<std::uint32_t>& front) {
                                 return dominates(population_[front.back()], population_[i]);
                               });
      const auto k = static_cast<std::size_t>(first_open - fronts_.begin());
      if (k == used) {
        ++used;
        if (fronts_.size() < used) fronts_.emplace_back();
      }
      fronts_[k].push_back(i);
    }
    rank_.clear();
    crowding_.clear();
    std::vector<Genome> kept;
    kept.reserve(2 * wanted_);
    for (std::size_t k = 0; k < used && kept.size() < wanted_; ++k) {
      auto& front = fronts_[k];
      std::vector<std::pair<double, std::uint32_t>> crowded = crowding_of(front);
      if (kept.size() + front.size() > wanted_) {
        std::stable_sort(crowded.begin(), crowded.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        for (std::size_t i = wanted_ - kept.size(); i < crowded.size(); ++i) {
          seen_.erase(population_[crowded[i].second].hash);
        }
        crowded.resize(wanted_ - kept.size());
      }
      for (const auto& [distance, i] : crowded) {
        kept.push_back(std::move(population_[i]));
        rank_.push_back(static_cast<int>(k));
        crowding_.push_back(distance);
        population_[i].hash = 0;
      }
    }
    for (const Genome& dropped : population_) {
      if (dropped.hash != 0) seen_.erase(dropped.hash);
    }
    population_ = std::move(kept);
  }

  std::vector<std::pair<double, std::uint32_t>> crowding_of(
      const std::vector<std::uint32_t>& front) const {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    std::vector<std::pair<double, std::uint32_t>> crowded;
    crowded.reserve(front.size());
    const Genome& first = population_[front.front()];
    const Genome& last = population_[front.back()];
    // A front is sorted by ascending cost and descending idleness.
    const double cost_range = last.cost - first.cost;
    const double idle_range = first.idleness - last.idleness;
    for (std::size_t i = 0; i < front.size(); ++i) {
      double distance = kFar;
      if (i > 0 && i + 1 < front.size()) {
        const Genome& before = population_[front[i - 1]];
        const Genome& after = population_[front[i + 1]];
        distance = (cost_range > 0 ? (after.cost - before.cost) / cost_range : 0.0) +
                   (idle_range > 0 ? (before.idleness - after.idleness) / idle_range : 0.0);
      }
      crowded.emplace_back(distance, front[i]);
    }
    return crowded;
  }

  const SearchProblem& problem_;
  Random& random_;
  std::size_t wanted_;
  int generations_;
  int patience_;
  const DecisionLimit* limit_;
  std::size_t job_count_;
  std::size_t node_count_;
  std::size_t types_ = 1;

  BinomialTable arrivals_;  // number of jobs that arrive on a node by mutation
  BinomialTable resets_;
  BinomialTable thinned_;

  std::vector<Genome> population_;
  std::vector<int> rank_;                   // parallel to population_
  std::vector<double> crowding_;            // parallel to population_
  std::unordered_set<std::uint64_t> seen_;  // hashes of the population and its new offspring
  std::vector<Genome> offspring_;
  Genome child_;

  // Scratch, kept to avoid allocations.
  std::vector<GeneRow> rows_;
  std::vector<int> free_;
  std::vector<int> present_;
  std::vector<int> spanning_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> sorted_;
  std::vector<std::vector<std::uint32_t>> fronts_;
  std::vector<std::vector<double>> speedups_;  // by job; NaN: not computed yet
};

}  // namespace

std::vector<Genome> search(const SearchProblem& problem, const SearchOptions& options,
                           std::span<const std::vector<GeneRow>> start, Random& random,
                           const DecisionLimit* limit) {
  return Search(problem, options, random, limit).run(start);
}

}  // namespace rubato
