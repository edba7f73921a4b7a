// How fast the exact division of a capacity is (`make bench-solver`, solve/allocate.h):
//  - 200 jobs x 16 sizes on 512 devices, compared with CBC, GLPK and a plain dynamic program on the
//    same instance in the same run, for typical tables and for tables designed to be hard;
//  - 2,000 jobs on 10,000 devices, for the same kinds of tables;
//  - how the time grows with jobs x devices.
// Everything runs on one core. Every value is compared with that of the plain program, which is
// exact.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "knapsack_instances.h"
#include "knapsack_mip.h"

namespace rubato::bench {
namespace {

constexpr int kSizes = 16;
constexpr double kLimitS = 10;  // for CBC and GLPK

double clock_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time in seconds, which excludes other programs on the machine. All solvers here use one
// thread and never wait, so on an idle machine it equals wall time.
double now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds(const std::function<void()>& work) {
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

const char* name(DivisionProof proof) {
  switch (proof) {
    case DivisionProof::kNone:
      return "-";
    case DivisionProof::kAllFit:
      return "all fit";
    case DivisionProof::kGreedy:
      return "greedy";
    case DivisionProof::kRounding:
      return "rounding";
    case DivisionProof::kProgram:
      return "program";
  }
  return "?";
}

Knapsack instance(KnapsackKind kind, int jobs, int devices, std::uint64_t seed) {
  Random random(seed);
  return random_knapsack(kind, random, jobs, kSizes, devices);
}

// Ends the program if the division is worse than the exact value.
void need_exact(const Knapsack& knapsack, const Division& division, double exact) {
  long long size = 0;
  for (std::size_t j = 0; j < knapsack.tables.size(); ++j) {
    size += knapsack.tables[j][static_cast<std::size_t>(division.choice[j])].size;
  }
  if (size <= knapsack.capacity && std::abs(division.value - exact) <= 1e-11 * std::abs(exact)) {
    return;
  }
  fmt::print(stderr, "WRONG: value {} of size {}, best is {}\n", division.value, size, exact);
  std::exit(1);
}

// Seconds of one call, measured over enough calls to take a few milliseconds.
double seconds_of_allocate(const Knapsack& knapsack, Division& division) {
  constexpr int kMostCalls = 50;
  constexpr double kEnough = 5e-3;
  int calls = 0;
  const double start = now();
  double spent = 0;
  do {
    division = allocate(knapsack.tables, knapsack.capacity);
    spent = now() - start;
  } while (++calls < kMostCalls && spent < kEnough);
  return spent / calls;
}

// CBC or GLPK on one instance. If it did not finish within the limit, its time is a lower bound.
struct Rival {
  std::vector<double> times;
  bool stopped = false;

  void add(double time, const MipDivision& division, double exact) {
    times.push_back(time);
    if (!division.valid) {
      stopped = true;
    } else if (division.value > exact + 1e-11 * std::abs(exact)) {
      fmt::print(stderr, "WRONG: a rival found {}, ours is {}\n", division.value, exact);
      std::exit(1);
    }
  }
  std::string time_text() const { return fmt::format("{}{:.1f}", stopped ? "> " : "", ms()); }
  std::string ratio_text(double ours) const {
    return fmt::format("{}{:.0f}", stopped ? "> " : "", ms() / 1e3 / ours);
  }
  double ms() const { return median(times) * 1e3; }
};

// Prints a line. Returns how many times faster than CBC we are. CBC and GLPK run `rounds` times.
double beside_rivals(KnapsackKind kind, std::uint64_t seed, int rounds) {
  const Knapsack knapsack = instance(kind, 200, 512, seed);
  const double exact = plain_program(knapsack);
  std::vector<double> ours;
  std::vector<double> plain;
  Rival cbc;
  Rival glpk;
  Division division;
  for (int round = 0; round < 5; ++round) {
    ours.push_back(seconds_of_allocate(knapsack, division));
    need_exact(knapsack, division, exact);
    plain.push_back(seconds([&] { (void)plain_program(knapsack); }));
    if (round >= rounds) continue;
    MipDivision mip;
    const double cbc_s =
        seconds([&] { mip = solve_with_cbc(knapsack.tables, knapsack.capacity, kLimitS); });
    cbc.add(cbc_s, mip, exact);
    const double glpk_s =
        seconds([&] { mip = solve_with_glpk(knapsack.tables, knapsack.capacity, kLimitS); });
    glpk.add(glpk_s, mip, exact);
  }
  const double own = median(ours);
  fmt::print("{:<14} {:>4} {:>9.3f} {:>9.2f} {:>9} {:>9} {:>8} {:>8} {:>8.0f}  {:<8} {:>5} {:>9}\n",
             name(kind), seed, own * 1e3, median(plain) * 1e3, cbc.time_text(), glpk.time_text(),
             cbc.ratio_text(own), glpk.ratio_text(own), median(plain) / own, name(division.proof),
             division.rows, division.cells);
  return cbc.ms() / 1e3 / own;
}

// Prints a line. Returns the longest time over the seeds.
double large(KnapsackKind kind, int jobs, int devices, int seeds) {
  std::vector<double> times;
  double clock_worst = 0;
  Division worst;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Knapsack knapsack = instance(kind, jobs, devices, static_cast<std::uint64_t>(seed));
    std::vector<double> ours;
    std::vector<double> on_clock;
    Division division;
    for (int round = 0; round < 5; ++round) {
      ours.push_back(seconds_of_allocate(knapsack, division));
      const double start = clock_now();
      division = allocate(knapsack.tables, knapsack.capacity);
      on_clock.push_back(clock_now() - start);
    }
    clock_worst = std::max(clock_worst, median(on_clock));
    if (seed == 1) need_exact(knapsack, division, plain_program(knapsack));
    times.push_back(median(ours));
    if (times.back() >= *std::max_element(times.begin(), times.end())) worst = division;
  }
  const double longest = *std::max_element(times.begin(), times.end());
  fmt::print("{:<14} {:>6} {:>8} {:>10.2f} {:>10.2f} {:>10.2f}  {:<8} {:>5} {:>10}\n", name(kind),
             jobs, devices, median(times) * 1e3, longest * 1e3, clock_worst * 1e3,
             name(worst.proof), worst.rows, worst.cells);
  return longest;
}

std::string verdict(bool holds) { return holds ? "yes" : "NO"; }

void growth(KnapsackKind kind, int most_jobs) {
  fmt::print("\n{}\n{:>6} {:>8} {:>10} {:>20} {:>16}\n", name(kind), "jobs", "devices", "ms",
             "ns per job x device", "time x per 4x");
  double before = 0;
  for (int jobs = 250; jobs <= most_jobs; jobs *= 2) {
    const int devices = 5 * jobs;
    std::vector<double> times;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const Knapsack knapsack = instance(kind, jobs, devices, seed);
      Division division;
      times.push_back(seconds_of_allocate(knapsack, division));
    }
    const double time = median(times);
    fmt::print("{:>6} {:>8} {:>10.3f} {:>20.4f} {:>16}\n", jobs, devices, time * 1e3,
               time * 1e9 / jobs / devices, before > 0 ? fmt::format("{:.2f}", time / before) : "");
    before = time;
  }
}

int run() {
  fmt::print(
      "All times are processor time of one thread, except 'on clock' (the worst wall time, "
      "including whatever else ran).\nCBC and GLPK are stopped after 10 s ('>').\n\n200 jobs x 16 "
      "sizes, 512 devices. Median of 5 in ms (CBC, GLPK: of 3, alternating with ours; hard tables: "
      "1).\nrows, cells: what the dynamic program had to process (the plain one: 200 rows, 1.6 "
      "million cells).\n{:<14} {:>4} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}  {:<8} {:>5} "
      "{:>9}\n",
      "tables", "seed", "ours", "plain DP", "CBC", "GLPK", "CBC x", "GLPK x", "plain x", "proof",
      "rows", "cells");
  double concave = std::numeric_limits<double>::infinity();
  double irregular = concave;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    concave = std::min(concave, beside_rivals(KnapsackKind::kConcave, seed, 3));
  }
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    irregular = std::min(irregular, beside_rivals(KnapsackKind::kIrregular, seed, 3));
  }
  for (const KnapsackKind kind : kKnapsackKinds) {
    if (kind == KnapsackKind::kConcave || kind == KnapsackKind::kIrregular) continue;
    beside_rivals(kind, 1, 1);
  }
  fmt::print(
      "lowest ratio to CBC: concave {:.0f} (target: 100): {}; irregular {:.0f} (target: 30): {}\n",
      concave, verdict(concave >= 100), irregular, verdict(irregular >= 30));

  fmt::print(
      "\n2,000 jobs x 16 sizes, 10,000 devices, 10 seeds, in ms; median of 5 per seed. proof, "
      "rows, cells: of the slowest seed (the plain program: 320 million cells)\n{:<14} {:>6} {:>8} "
      "{:>10} {:>10} {:>10}  {:<8} {:>5} {:>10}\n",
      "tables", "jobs", "devices", "median", "worst", "on clock", "proof", "rows", "cells");
  double worst_concave = 0;
  double worst_other = 0;
  for (const KnapsackKind kind : kKnapsackKinds) {
    const double worst = large(kind, 2'000, 10'000, 10) * 1e3;
    const bool is_concave = kind == KnapsackKind::kConcave || kind == KnapsackKind::kConcaveTied;
    double& most = is_concave ? worst_concave : worst_other;
    most = std::max(most, worst);
  }
  fmt::print(
      "worst: concave {:.2f} ms (target: under 10): {}; any other kind {:.1f} ms (target: under "
      "250): {}\n",
      worst_concave, verdict(worst_concave < 10), worst_other, verdict(worst_other < 250));

  fmt::print(
      "\nGrowth: jobs and devices double together, so linear growth in jobs x devices is a factor "
      "of 4 per line (median of 5 seeds).\nIn the last table nothing can be excluded. From 500 "
      "jobs on, its rows no longer fit into 4 MiB and are computed twice.\n");
  growth(KnapsackKind::kConcave, 16'000);
  growth(KnapsackKind::kIrregular, 16'000);
  growth(KnapsackKind::kStaircase, 4'000);
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
