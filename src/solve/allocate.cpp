// The algorithm, and why its result is exact. Sizes are counted from each job's smallest one, in
// units of the greatest common divisor of all of them. `room` is the capacity left after the
// smallest sizes; v(k) is the value and s(k) the size of choice k of a job.
//
// Bound. For any price m >= 0 of a unit, every division x with sizes within `room` satisfies
//   value(x) = sum v(x_j) <= sum (v(x_j) - m s(x_j)) + m room <= sum max_k (v(k) - m s(k)) + m room
// The right-hand side is the bound U. With loss(k) = max_i (v(i) - m s(i)) - (v(k) - m s(k)) >= 0,
//   value(x) = U - T(x),  T(x) = sum loss(x_j) + m * unused(x),
// so the best division is the one with the least T, and no term of T is negative.
//
// Greedy. The corners of a table's concave majorant are choices of the table, and the gains per
// unit of the steps between corners never rise. Take all steps in order of falling gain per unit,
// and let m be the gain per unit at which they first exceed `room`. Taking all steps above m, and
// as many of those equal to m as fit, is a division (the steps of one job are taken in order) in
// which every job has loss 0. If nothing is unused, T is 0 and the division is optimal. If all
// steps have size 1, as in concave tables with equal steps, there is always another step that fits,
// so nothing is unused.
//
// Dynamic program. Otherwise the greedy division (the base) leaves `gap` units unused, and
// T = m * gap. The best change of a single job gives a first incumbent. A choice with a loss of at
// least the incumbent's T cannot be part of a better division. The others are moves: `delta` units
// more than the base, at a loss. close_gap.h finds the set of moves with the least T.
//
// Rounding. The sum of the computed losses is minimised without any slack. A computed loss of a
// relevant choice differs from the true one by a few units in the last place of its value, as do
// the terms of any sum of values. An incumbent whose T is below one unit in the last place of the
// sum of its values is accepted.
#include "solve/allocate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "solve/close_gap.h"

namespace rubato {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A step between two corners of a concave majorant.
struct Step {
  double gain = 0;  // per unit
  int size = 0;
};

// The gain per unit at which the steps, taken in falling order, first exceed `room`. Their total
// must exceed it. Weighted quickselect; reorders the steps.
double break_gain(std::span<Step> steps, std::int64_t room) {
  constexpr int kMaxPasses = 40;  // bounds the cost of unlucky pivots; then the steps are sorted
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    // The pivot is the median of an evenly spaced sample.
    std::array<double, 9> sample{};
    for (std::size_t i = 0; i < sample.size(); ++i) {
      sample[i] = steps[(2 * i + 1) * steps.size() / (2 * sample.size())].gain;
    }
    std::nth_element(sample.begin(), sample.begin() + sample.size() / 2, sample.end());
    const double pivot = sample[sample.size() / 2];
    std::int64_t above = 0;
    std::int64_t equal = 0;
    for (const Step& step : steps) {
      above += step.gain > pivot ? step.size : 0;
      equal += step.gain == pivot ? step.size : 0;
    }
    const bool keep_above = above > room;
    if (!keep_above) {
      if (above + equal > room) return pivot;
      room -= above + equal;
    }
    std::size_t kept = 0;
    for (const Step step : steps) {
      steps[kept] = step;
      kept += (keep_above ? step.gain > pivot : step.gain < pivot) ? 1 : 0;
    }
    steps = steps.first(kept);
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.gain > b.gain; });
  for (const Step& step : steps) {
    room -= step.size;
    if (room < 0) return step.gain;
  }
  RUBATO_CHECK(false, "all steps fit");
}

class Allocator {
 public:
  Allocator(std::span<const std::vector<Choice>> tables, int capacity)
      : tables_(tables), room_(capacity) {}

  Division solve() {
    if (room_ < 0 || !collect()) return {};
    if (all_fit()) {
      for (std::size_t j = 0; j < jobs(); ++j) at_[j] = end_[j] - 1;
      return finish(DivisionProof::kAllFit, 0);
    }
    const std::int64_t gap = greedy();
    if (gap == 0) return finish(DivisionProof::kGreedy, 0);
    return improve(gap);
  }

 private:
  // The choices of all jobs, one job after another, without dominated ones: sizes and values rise
  // strictly within a job.
  struct Item {
    double value = 0;
    int size = 0;
    int index = 0;  // in the table
  };

  std::size_t jobs() const { return tables_.size(); }

  // Fills items_. False if the smallest sizes do not fit.
  bool collect() {
    std::size_t total = 0;
    for (const std::vector<Choice>& table : tables_) total += table.size();
    items_.reserve(total);
    begin_.resize(jobs());
    end_.resize(jobs());
    at_.resize(jobs());
    for (std::size_t j = 0; j < jobs(); ++j) {
      if (tables_[j].empty()) return false;
      begin_[j] = items_.size();
      if (!append_sorted(tables_[j])) {
        items_.resize(begin_[j]);
        append_unsorted(tables_[j]);
      }
      end_[j] = items_.size();
      RUBATO_CHECK(end_[j] > begin_[j], "no value of a table is finite");
      const int smallest = items_[begin_[j]].size;
      RUBATO_CHECK(smallest >= 0, "a size is negative");
      for (std::size_t k = begin_[j]; k < end_[j]; ++k) items_[k].size -= smallest;
      room_ -= smallest;
    }
    if (room_ < 0) return false;
    for (std::size_t j = 0; j < jobs(); ++j) {
      while (items_[end_[j] - 1].size > room_) --end_[j];  // can never be taken
    }
    divide_by_common_unit();
    return true;
  }

  // False if the table turns out not to be sorted by size.
  bool append_sorted(const std::vector<Choice>& table) {
    int last_size = -1;
    double best = -kInfinity;
    for (std::size_t k = 0; k < table.size(); ++k) {
      const Choice choice = table[k];
      if (choice.size <= last_size) return false;
      last_size = choice.size;
      if (choice.value > best) {
        best = choice.value;
        items_.push_back({best, choice.size, static_cast<int>(k)});
      }
    }
    return true;
  }

  void append_unsorted(const std::vector<Choice>& table) {
    order_.resize(table.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&table](int left, int right) {
      const Choice& a = table[static_cast<std::size_t>(left)];
      const Choice& b = table[static_cast<std::size_t>(right)];
      if (a.size != b.size) return a.size < b.size;
      return a.value != b.value ? a.value > b.value : left < right;
    });
    double best = -kInfinity;
    for (const int k : order_) {
      const Choice& choice = table[static_cast<std::size_t>(k)];
      if (choice.value > best) {
        best = choice.value;
        items_.push_back({best, choice.size, k});
      }
    }
  }

  void divide_by_common_unit() {
    int unit = 0;
    for (std::size_t j = 0; j < jobs(); ++j) {
      for (std::size_t k = begin_[j] + 1; k < end_[j]; ++k) {
        if (unit == 0 || items_[k].size % unit != 0) unit = std::gcd(unit, items_[k].size);
        if (unit == 1) return;
      }
    }
    if (unit == 0) return;  // every job has only one choice
    for (Item& item : items_) item.size /= unit;
    room_ /= unit;
    unit_ = unit;
  }

  bool all_fit() const {
    std::int64_t wanted = 0;
    for (std::size_t j = 0; j < jobs(); ++j) wanted += items_[end_[j] - 1].size;
    return wanted <= room_;
  }

  // Sets price_ and sets at_ to the base. Returns the units that are left.
  std::int64_t greedy() {
    // The corners of the majorants: corner_[i] is an item, and steps_[i] is the step to it from the
    // previous corner (of size 0 for the first corner of a job).
    steps_.reserve(items_.size());
    corner_.reserve(items_.size());
    first_corner_.reserve(jobs() + 1);
    for (std::size_t j = 0; j < jobs(); ++j) {
      first_corner_.push_back(corner_.size());
      corner_.push_back(begin_[j]);
      steps_.push_back({kInfinity, 0});
      for (std::size_t k = begin_[j] + 1; k < end_[j]; ++k) {
        Step step = step_between(corner_.back(), k);
        while (step.gain > steps_.back().gain) {
          corner_.pop_back();
          steps_.pop_back();
          step = step_between(corner_.back(), k);
        }
        corner_.push_back(k);
        steps_.push_back(step);
      }
    }
    first_corner_.push_back(corner_.size());
    std::vector<Step> copy(steps_);
    price_ = break_gain(copy, room_);

    std::int64_t left = room_;
    for (std::size_t j = 0; j < jobs(); ++j) {
      std::size_t i = first_corner_[j];
      while (i + 1 < first_corner_[j + 1] && steps_[i + 1].gain > price_) ++i;
      at_[j] = i;  // temporarily an index into corner_
      left -= items_[corner_[i]].size;
    }
    for (std::size_t j = 0; j < jobs(); ++j) {
      std::size_t i = at_[j];
      while (i + 1 < first_corner_[j + 1] && steps_[i + 1].gain == price_ &&
             steps_[i + 1].size <= left) {
        ++i;
        left -= steps_[i].size;
      }
      at_[j] = corner_[i];
    }
    return left;
  }

  Step step_between(std::size_t from, std::size_t to) const {
    const int size = items_[to].size - items_[from].size;
    return {(items_[to].value - items_[from].value) / size, size};
  }

  // What an item loses relative to the base of its job (never negative, except for rounding).
  double loss(std::size_t base, std::size_t k) const {
    const double units = items_[k].size - items_[base].size;
    return std::max(0.0, price_ * units - (items_[k].value - items_[base].value));
  }

  // Improves the base, which leaves `gap` units unused, to the best division.
  Division improve(std::int64_t gap) {
    // The first incumbent: the base with one job changed.
    double incumbent = price_ * static_cast<double>(gap);
    std::size_t changed = jobs();
    std::size_t to = 0;
    double sum = 0;
    for (std::size_t j = 0; j < jobs(); ++j) {
      const std::size_t base = at_[j];
      sum += std::abs(items_[base].value);
      for (std::size_t k = base + 1; k < end_[j]; ++k) {
        const int delta = items_[k].size - items_[base].size;
        if (delta > gap) break;
        const double total = loss(base, k) + price_ * static_cast<double>(gap - delta);
        if (total < incumbent) {
          incumbent = total;
          changed = j;
          to = k;
        }
      }
    }
    const double enough = sum * std::numeric_limits<double>::epsilon();
    GapProblem problem{.gap = gap, .price = price_, .incumbent = incumbent, .enough = enough};
    std::vector<std::size_t> items;  // of the moves
    if (incumbent > enough) {
      for (std::size_t j = 0; j < jobs(); ++j) {
        const std::size_t base = at_[j];
        const std::size_t first = problem.moves.size();
        for (std::size_t k = begin_[j]; k < end_[j]; ++k) {
          if (k == base) continue;
          const double lost = loss(base, k);
          if (lost >= incumbent) continue;
          problem.moves.push_back({items_[k].size - items_[base].size, lost});
          items.push_back(k);
        }
        if (problem.moves.size() > first) {
          problem.rows.push_back({static_cast<int>(j), first, problem.moves.size()});
        }
      }
    }
    if (problem.rows.empty()) {
      if (changed < jobs()) at_[changed] = to;
      return finish(incumbent > enough ? DivisionProof::kProgram : DivisionProof::kRounding,
                    incumbent);
    }
    const GapSolution solution = close_gap(problem);
    if (solution.improved) {
      for (const GapSolution::Taken& taken : solution.taken) {
        at_[static_cast<std::size_t>(taken.job)] = items[taken.move];
      }
    } else if (changed < jobs()) {
      at_[changed] = to;
    }
    Division division = finish(DivisionProof::kProgram, solution.loss);
    division.rows = solution.rows;
    division.cells = solution.cells;
    return division;
  }

  // The division in at_, whose value is `loss` below the bound.
  Division finish(DivisionProof proof, double loss) const {
    Division division{.feasible = true, .proof = proof, .unit_price = price_ / unit_};
    division.choice.resize(jobs());
    for (std::size_t j = 0; j < jobs(); ++j) {
      const Item& item = items_[at_[j]];
      division.choice[j] = item.index;
      division.value += item.value;
    }
    division.bound = division.value + loss;
    return division;
  }

  std::span<const std::vector<Choice>> tables_;
  std::int64_t room_;
  int unit_ = 1;
  double price_ = 0;  // of a unit
  std::vector<Item> items_;
  std::vector<std::size_t> begin_, end_;  // of each job in items_
  std::vector<std::size_t> at_;           // each job's choice, an index into items_
  std::vector<Step> steps_;
  std::vector<std::size_t> corner_;
  std::vector<std::size_t> first_corner_;  // of each job, and the end
  std::vector<int> order_;
};

}  // namespace

Division allocate(std::span<const std::vector<Choice>> tables, int capacity) {
  return Allocator(tables, capacity).solve();
}

}  // namespace rubato
