// Random instances of solve/allocate.h, for its tests and its benchmark.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"
#include "solve/allocate.h"

namespace rubato {

struct Knapsack {
  std::vector<std::vector<Choice>> tables;
  int capacity = 0;
};

enum class KnapsackKind {
  kConcave,      // sizes 0, 1, 2, ...; falling gains
  kConcaveTied,  // the same, gains from few integers: many ties
  kIrregular,    // sizes 0, 1, 2, ...; a concave curve times noise, so neither concave nor monotone
  kUncorrelated,  // any sizes, any values, negative ones too
  kPowersOfTwo,   // sizes 0, 1, 2, 4, ...; concave curve times a little noise
  kCorrelated,    // any sizes; value = size + a constant for all but size 0
  kSubsetSum,     // any sizes; value = size
  kAllEqual,      // the same irregular table for all jobs
  kEven,          // even sizes, values = size / 2 + a constant per job; odd capacity
  kLargeSteps,    // sizes 0 and some large ones, values near proportional
  kStaircase,     // sizes in tens, worth as much each; a unit more is worth next to nothing
};
inline constexpr std::array kKnapsackKinds{
    KnapsackKind::kConcave,      KnapsackKind::kConcaveTied, KnapsackKind::kIrregular,
    KnapsackKind::kUncorrelated, KnapsackKind::kPowersOfTwo, KnapsackKind::kCorrelated,
    KnapsackKind::kSubsetSum,    KnapsackKind::kAllEqual,    KnapsackKind::kEven,
    KnapsackKind::kLargeSteps,   KnapsackKind::kStaircase};

inline const char* name(KnapsackKind kind) {
  switch (kind) {
    case KnapsackKind::kConcave:
      return "concave";
    case KnapsackKind::kConcaveTied:
      return "concave, ties";
    case KnapsackKind::kIrregular:
      return "irregular";
    case KnapsackKind::kUncorrelated:
      return "uncorrelated";
    case KnapsackKind::kPowersOfTwo:
      return "powers of two";
    case KnapsackKind::kCorrelated:
      return "correlated";
    case KnapsackKind::kSubsetSum:
      return "subset sum";
    case KnapsackKind::kAllEqual:
      return "all equal";
    case KnapsackKind::kEven:
      return "even sizes";
    case KnapsackKind::kLargeSteps:
      return "large steps";
    case KnapsackKind::kStaircase:
      return "staircase";
  }
  return "?";
}

// The value of the best division by the plain dynamic program, which is exact for any tables;
// minus infinity if there is none.
inline double plain_program(const Knapsack& knapsack) {
  const auto width = static_cast<std::size_t>(knapsack.capacity) + 1;
  std::vector<double> best(width, 0.0);
  std::vector<double> next(width);
  for (const auto& table : knapsack.tables) {
    std::fill(next.begin(), next.end(), -std::numeric_limits<double>::infinity());
    for (const Choice& choice : table) {
      const auto size = static_cast<std::size_t>(choice.size);
      for (std::size_t c = size; c < width; ++c) {
        next[c] = std::max(next[c], best[c - size] + choice.value);
      }
    }
    best.swap(next);
  }
  return best.back();
}

// `count` different sizes in [0, largest] in rising order, 0 among them.
inline std::vector<int> random_sizes(Random& random, int count, int largest) {
  std::vector<int> sizes{0};
  while (sizes.size() < static_cast<std::size_t>(std::min(count, largest + 1))) {
    const int size = random.between(1, largest);
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// A table with `count` choices.
inline std::vector<Choice> random_table(KnapsackKind kind, Random& random, int count) {
  std::vector<Choice> table;
  const double scale = 1 + 9 * random.uniform();
  const double exponent = 0.3 + 0.6 * random.uniform();
  switch (kind) {
    case KnapsackKind::kConcave:
    case KnapsackKind::kConcaveTied: {
      std::vector<double> gains;
      for (int i = 1; i < count; ++i) {
        gains.push_back(kind == KnapsackKind::kConcave ? scale * random.uniform()
                                                       : random.between(1, 5));
      }
      std::sort(gains.rbegin(), gains.rend());
      table.push_back({0, 0});
      for (const double gain : gains) {
        table.push_back({table.back().size + 1, table.back().value + gain});
      }
      break;
    }
    case KnapsackKind::kIrregular:
    case KnapsackKind::kAllEqual:
      for (int i = 0; i < count; ++i) {
        table.push_back({i, scale * std::pow(i, exponent) * (0.5 + random.uniform())});
      }
      break;
    case KnapsackKind::kUncorrelated:
      for (const int size : random_sizes(random, count, 4 * count)) {
        table.push_back({size, 100 * random.uniform() - 20});
      }
      break;
    case KnapsackKind::kPowersOfTwo:
      table.push_back({0, 0});
      for (int i = 0; i + 1 < count && i < 10; ++i) {
        table.push_back(
            {1 << i, scale * std::pow(1 << i, exponent) * (0.9 + 0.2 * random.uniform())});
      }
      break;
    case KnapsackKind::kCorrelated:
      for (const int size : random_sizes(random, count, 4 * count)) {
        table.push_back({size, size == 0 ? 0.0 : size + 10.0});
      }
      break;
    case KnapsackKind::kSubsetSum:
      for (const int size : random_sizes(random, count, 4 * count)) {
        table.push_back({size, static_cast<double>(size)});
      }
      break;
    case KnapsackKind::kEven: {
      const double constant = random.between(1, 3);
      for (const int size : random_sizes(random, count, 2 * count)) {
        table.push_back({2 * size, size == 0 ? 0.0 : size + constant});
      }
      if (random.chance(0.1)) table.push_back({4 * count + 1, 2.0 * count + 4});
      break;
    }
    case KnapsackKind::kLargeSteps:
      table.push_back({0, 0});
      for (int i = 1; i < count; ++i) {
        const int size = table.back().size + random.between(17, 23);
        table.push_back({size, size + 0.01 * random.uniform()});
      }
      break;
    case KnapsackKind::kStaircase:
      for (int i = 0; 2 * i < count; ++i) {
        const double value = 10 * i + 0.01 * random.uniform();
        table.push_back({10 * i, value});
        if (2 * i + 1 < count) table.push_back({10 * i + 1, value + 0.01 * random.uniform()});
      }
      break;
  }
  return table;
}

inline Knapsack random_knapsack(KnapsackKind kind, Random& random, int jobs, int choices,
                                int capacity) {
  Knapsack knapsack;
  knapsack.capacity = kind == KnapsackKind::kEven ? capacity | 1 : capacity;
  if (kind == KnapsackKind::kStaircase) knapsack.capacity += 9 - capacity % 10;
  for (int j = 0; j < jobs; ++j) {
    if (kind == KnapsackKind::kAllEqual && j > 0) {
      knapsack.tables.push_back(knapsack.tables[0]);
    } else {
      knapsack.tables.push_back(random_table(kind, random, choices));
    }
  }
  return knapsack;
}

}  // namespace rubato
