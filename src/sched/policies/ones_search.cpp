#include "sched/policies/ones_search.h"

#include <algorithm>

#include "base/parallel.h"

namespace rubato {

namespace {

// Threads are started per stretch of generations. Below this many genes written per stretch,
// threads are assumed to cost more than they save. This is a guess: no gain from threads has been
// measured yet.
constexpr double kGenesPerThread = 200'000;
constexpr double kRepackChance = 0.15;
// Of this many randomly drawn jobs at most, the one with the lowest cost takes an idle device. The
// number is drawn anew for each filling, so some candidates are greedy and some are not.
constexpr int kMostRivals = 12;

}  // namespace

OnesOperators::OnesOperators(const OnesProblem& problem, double theta)
    : problem_(problem), theta_(theta) {
  const std::size_t jobs = problem.jobs.size();
  const std::size_t types = problem.types;
  node_size_.assign(types, 0);
  usable_.assign(types, 0);
  for (std::size_t n = 0; n < problem.node_devices.size(); ++n) {
    first_.push_back(static_cast<std::uint32_t>(devices_));
    devices_ += static_cast<std::size_t>(problem.node_devices[n]);
    const std::uint32_t type = problem.node_type[n];
    node_size_[type] = std::max(node_size_[type], problem.node_devices[n]);
    usable_[type] += problem.node_usable[n];
    most_free_ = std::max(most_free_, problem.node_devices[n]);
  }
  by_free_.resize(types * static_cast<std::size_t>(most_free_ + 1));
  packed_.resize(jobs * types);
  down_.resize(jobs * types);
  up_.resize(jobs * types);
  compact_.assign(jobs, 1);
  for (std::size_t j = 0; j < jobs; ++j) {
    const OnesProblem::Job& job = problem.jobs[j];
    for (std::size_t t = 0; t < types; ++t) {
      const OnesProblem::Costs& costs = job.costs[t];
      if (costs.several.empty()) continue;
      const std::size_t sizes = costs.several.size();
      auto& packed = packed_[j * types + t];
      auto& down = down_[j * types + t];
      auto& up = up_[j * types + t];
      packed.assign(sizes, kNeverCost);
      down.assign(sizes, 0);
      up.assign(sizes, 0);
      for (std::size_t c = 1; c < sizes; ++c) {
        packed[c] = static_cast<int>(c) <= node_size_[t] ? costs.one_node[c] : costs.several[c];
        down[c] = packed[c] < kNeverCost ? static_cast<int>(c) : down[c - 1];
      }
      for (std::size_t c = sizes - 1; c-- > 0;) {
        up[c] = packed[c + 1] < kNeverCost ? static_cast<int>(c) + 1 : up[c + 1];
      }
    }
    int total = 0;
    for (const auto& share : job.current) total += share.devices;
    now_size_.push_back(total);
    if (job.current.size() > 1) {
      const int whole = node_size_[problem.node_type[job.current.front().node]];
      compact_[j] = static_cast<int>(job.current.size()) <= (total + whole - 1) / whole ? 1 : 0;
    }
  }
  size_.assign(jobs, 0);
  type_.assign(jobs, 0);
  idle_.assign(types, 0);
}

void OnesOperators::crossover(const OnesGenome& a, const OnesGenome& b, OnesGenome& child,
                              Random& random) const {
  child.genes.resize(devices_);
  for (std::size_t from = 0; from < devices_; from += 64) {
    std::uint64_t coins = random.next();
    const std::size_t to = std::min(devices_, from + 64);
    for (std::size_t i = from; i < to; ++i, coins >>= 1) {
      child.genes[i] = (coins & 1U) != 0 ? a.genes[i] : b.genes[i];
    }
  }
}

void OnesOperators::count(const OnesGenome& genome) {
  const std::size_t jobs = problem_.jobs.size();
  const std::size_t types = problem_.types;
  held_.assign(jobs * types, 0);
  for (std::size_t n = 0; n < first_.size(); ++n) {
    const std::size_t end = first_[n] + static_cast<std::size_t>(problem_.node_usable[n]);
    for (std::size_t i = first_[n]; i < end; ++i) {
      const std::int16_t job = genome.genes[i];
      if (job >= 0) ++held_[static_cast<std::size_t>(job) * types + problem_.node_type[n]];
    }
  }
  idle_ = usable_;
  for (std::size_t j = 0; j < jobs; ++j) {
    size_[j] = 0;
    // A job runs on one type: the one of which it holds most devices.
    std::uint32_t best = 0;
    for (std::uint32_t t = 1; t < types; ++t) {
      if (held_[j * types + t] > held_[j * types + best]) best = t;
    }
    const int held = held_[j * types + best];
    const auto& down = down_[j * types + best];
    if (held == 0 || down.empty()) continue;
    const int size = down[std::min(static_cast<std::size_t>(held), down.size() - 1)];
    if (size == 0) continue;
    take(j, best, size);
  }
}

void OnesOperators::take(std::size_t job, std::uint32_t type, int devices) {
  type_[job] = type;
  size_[job] += devices;
  idle_[type] -= devices;
}

void OnesOperators::mutate(Random& random) {
  for (std::size_t j = random.geometric(theta_); j < size_.size();
       j += 1 + static_cast<std::size_t>(random.geometric(theta_))) {
    if (size_[j] > 0) take(j, type_[j], -size_[j]);
  }
}

OnesOperators::Step OnesOperators::next_step(std::size_t job, std::uint32_t type) const {
  const auto& up = up_[job * problem_.types + type];
  if (up.empty()) return {};
  const int now = size_[job];
  const int next = up[static_cast<std::size_t>(now)];
  if (next == 0 || next - now > idle_[type]) return {};
  double before = problem_.jobs[job].waiting;
  if (now > 0) {
    before = now == now_size_[job] ? problem_.jobs[job].unchanged : packed_cost(job, type, now);
  }
  return {next - now, (packed_cost(job, type, next) - before) / (next - now)};
}

void OnesOperators::fill(Random& random) {
  const auto jobs = static_cast<std::uint32_t>(size_.size());
  if (jobs == 0) return;
  const int rivals = random.between(1, kMostRivals);
  int idle = 0;
  for (const int of_type : idle_) idle += of_type;
  while (idle > 0) {
    Step best;
    std::size_t winner = 0;
    std::uint32_t on = 0;
    const auto consider = [&](std::size_t j) {
      const bool runs = size_[j] > 0;
      const std::uint32_t from = runs ? type_[j] : 0;
      const std::uint32_t to = runs ? type_[j] + 1 : problem_.types;
      for (std::uint32_t t = from; t < to; ++t) {
        const Step step = next_step(j, t);
        if (step.devices == 0 || (best.devices > 0 && step.cost >= best.cost)) continue;
        best = step;
        winner = j;
        on = t;
      }
    };
    for (int k = 0; k < rivals; ++k) consider(random.below(jobs));
    if (best.devices == 0) {
      for (std::size_t j = 0; j < size_.size(); ++j) consider(j);
      if (best.devices == 0) return;  // no job can use what is left
    }
    if (problem_.may_idle && best.cost >= 0) {
      for (std::size_t j = 0; j < size_.size(); ++j) consider(j);
      if (best.cost >= 0) return;
    }
    take(winner, on, best.devices);
    idle -= best.devices;
  }
}

void OnesOperators::put(std::size_t job, std::uint32_t node, int devices, OnesGenome& genome) {
  const std::uint32_t from = cursor_[node];
  std::fill_n(genome.genes.begin() + from, devices, static_cast<std::int16_t>(job));
  cursor_[node] += static_cast<std::uint32_t>(devices);
  free_[node] -= devices;
}

void OnesOperators::reorder(OnesGenome& genome, bool repack) {
  genome.genes.assign(devices_, kIdle);
  free_ = problem_.node_usable;
  cursor_ = first_;
  moving_.clear();
  double score = 0;
  for (std::size_t j = 0; j < size_.size(); ++j) {
    const OnesProblem::Job& job = problem_.jobs[j];
    if (size_[j] == 0) {
      score += job.waiting;
      continue;
    }
    const bool keep = size_[j] == now_size_[j] && (!repack || compact_[j] != 0) &&
                      problem_.node_type[job.current.front().node] == type_[j];
    if (!keep) {
      moving_.push_back(j);
      continue;
    }
    for (const auto& share : job.current) put(j, share.node, share.devices, genome);
    score += job.unchanged;
  }
  std::stable_sort(moving_.begin(), moving_.end(),
                   [&](std::size_t a, std::size_t b) { return size_[a] > size_[b]; });
  const auto bucket = [&](std::uint32_t type, int free) -> std::vector<std::uint32_t>& {
    return by_free_[type * static_cast<std::size_t>(most_free_ + 1) +
                    static_cast<std::size_t>(free)];
  };
  for (auto& nodes : by_free_) nodes.clear();
  for (std::size_t n = free_.size(); n-- > 0;) {
    if (free_[n] > 0)
      bucket(problem_.node_type[n], free_[n]).push_back(static_cast<std::uint32_t>(n));
  }
  for (const std::size_t j : moving_) {
    const OnesProblem::Job& job = problem_.jobs[j];
    const std::uint32_t type = type_[j];
    shares_.clear();
    for (int left = size_[j]; left > 0;) {
      // The fullest node that holds everything that is left, otherwise the emptiest.
      int free = left;
      while (free <= most_free_ && bucket(type, free).empty()) ++free;
      if (free > most_free_) {
        free = std::min(left, most_free_);
        while (bucket(type, free).empty()) --free;
      }
      const std::uint32_t node = bucket(type, free).back();
      bucket(type, free).pop_back();
      const int taken = std::min(left, free);
      put(j, node, taken, genome);
      if (free > taken) bucket(type, free - taken).push_back(node);
      shares_.push_back({node, taken});
      left -= taken;
    }
    const auto c = static_cast<std::size_t>(size_[j]);
    const OnesProblem::Costs& costs = job.costs[type];
    double cost = shares_.size() > 1 ? costs.several[c] : costs.one_node[c];
    if (!job.current.empty()) {
      std::sort(shares_.begin(), shares_.end(),
                [](const auto& x, const auto& y) { return x.node < y.node; });
      if (shares_ == job.current) cost = job.unchanged;
    }
    score += cost;
  }
  genome.score = score;
}

void OnesOperators::refresh(OnesGenome& genome, Random& random) {
  genome.genes.resize(devices_, kIdle);
  count(genome);
  fill(random);
  reorder(genome, false);
}

void OnesOperators::breed(const OnesGenome& a, const OnesGenome& b, OnesGenome& child,
                          Random& random) {
  crossover(a, b, child, random);
  count(child);
  mutate(random);
  fill(random);
  reorder(child, random.chance(kRepackChance));
}

// --- The population

OnesSearch::OnesSearch(OnesOptions options, Random random) : options_(options) {
  for (int i = 0; i < options.islands; ++i) {
    islands_.push_back({.genomes = {}, .random = random.fork()});
  }
}

OnesGenome& OnesSearch::Island::add() {
  if (alive == genomes.size()) genomes.emplace_back();
  return genomes[alive++];
}

void OnesSearch::start(Island& island, const OnesProblem& problem,
                       std::span<const std::int16_t> renumbered, OnesOperators& operators) const {
  for (std::size_t i = 0; i < island.alive; ++i) {
    for (std::int16_t& gene : island.genomes[i].genes) {
      if (gene >= 0) gene = renumbered[static_cast<std::size_t>(gene)];
    }
    operators.refresh(island.genomes[i], island.random);
  }
  // The current devices, with idle ones filled.
  std::vector<std::uint32_t> next;
  std::uint32_t devices = 0;
  for (const int of_node : problem.node_devices) {
    next.push_back(devices);
    devices += static_cast<std::uint32_t>(of_node);
  }
  std::vector<std::int16_t> now(devices, kIdle);
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    for (const auto& share : problem.jobs[j].current) {
      for (int k = 0; k < share.devices; ++k)
        now[next[share.node]++] = static_cast<std::int16_t>(j);
    }
  }
  do {
    OnesGenome& genome = island.add();
    genome.genes = now;
    operators.refresh(genome, island.random);
  } while (island.alive < static_cast<std::size_t>(options_.population));
  select(island);
}

// Keeps the best candidates, without duplicates.
void OnesSearch::select(Island& island) const {
  auto& genomes = island.genomes;
  std::stable_sort(genomes.begin(), genomes.begin() + static_cast<std::ptrdiff_t>(island.alive),
                   [](const OnesGenome& a, const OnesGenome& b) { return a.score < b.score; });
  const auto wanted = static_cast<std::size_t>(options_.population);
  std::size_t kept = 1;
  for (std::size_t i = 1; i < island.alive && kept < wanted; ++i) {
    // Equal candidates have equal scores, so they are adjacent.
    bool copy = false;
    for (std::size_t k = kept; k-- > 0 && genomes[k].score == genomes[i].score && !copy;) {
      copy = genomes[k].genes == genomes[i].genes;
    }
    if (copy) continue;
    if (kept != i) std::swap(genomes[kept], genomes[i]);
    ++kept;
  }
  island.alive = kept;
}

void OnesSearch::evolve(Island& island, OnesOperators& operators, int generations) const {
  const auto wanted = static_cast<std::size_t>(options_.population);
  for (int generation = 0; generation < generations; ++generation) {
    const auto parents = static_cast<std::uint32_t>(island.alive);
    island.genomes.resize(std::max(island.genomes.size(), island.alive + wanted));
    for (std::size_t i = 0; i < wanted; ++i) {
      // Each parent is the better of two draws: the population is sorted.
      const auto a = std::min(island.random.below(parents), island.random.below(parents));
      const auto b = std::min(island.random.below(parents), island.random.below(parents));
      operators.breed(island.genomes[a], island.genomes[b], island.add(), island.random);
    }
    select(island);
  }
}

const OnesGenome& OnesSearch::run(const OnesProblem& problem,
                                  std::span<const std::int16_t> renumbered) {
  const std::size_t count = islands_.size();
  std::vector<OnesOperators> operators(count, OnesOperators(problem, options_.theta));
  double genes = 0;
  for (const int devices : problem.node_devices) genes += devices;
  genes *= options_.population * static_cast<double>(count) * options_.patience;
  const int threads = std::clamp(static_cast<int>(genes / kGenesPerThread), 1, options_.threads);

  const auto best = [&]() -> const OnesGenome& {
    const OnesGenome* leader = &islands_.front().genomes.front();
    for (const Island& island : islands_) {
      if (island.genomes.front().score < leader->score) leader = &island.genomes.front();
    }
    return *leader;
  };
  parallel_for(count, threads,
               [&](std::size_t i) { start(islands_[i], problem, renumbered, operators[i]); });
  evaluations_ += static_cast<long>(count) * options_.population;
  double reached = best().score;
  for (int done = 0; done < options_.generations;) {
    const int stretch = std::min(options_.patience, options_.generations - done);
    parallel_for(count, threads,
                 [&](std::size_t i) { evolve(islands_[i], operators[i], stretch); });
    done += stretch;
    evaluations_ += static_cast<long>(count) * options_.population * stretch;
    // The best candidate of every island is copied to the next island.
    std::vector<OnesGenome> travellers;
    for (const Island& island : islands_) travellers.push_back(island.genomes.front());
    for (std::size_t i = 0; i < count && count > 1; ++i) {
      islands_[(i + 1) % count].add() = std::move(travellers[i]);
      select(islands_[(i + 1) % count]);
    }
    const double now = best().score;
    if (!(now < reached)) break;
    reached = now;
  }
  return best();
}

}  // namespace rubato
