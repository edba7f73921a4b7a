#include "solve/close_gap.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace rubato {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
// While they take less than this, all rows are kept for the backward pass. Beyond it, only every
// n-th row is kept, and the rows in between are computed a second time.
constexpr std::size_t kKeptCells = std::size_t{512} << 10;
// How many useless moves are remembered. Looking a row up must cost far less than computing it.
constexpr std::size_t kUselessMoves = 64;

class GapProgram {
 public:
  explicit GapProgram(const GapProblem& problem)
      : problem_(problem), best_(problem.incumbent), interval_(1) {}

  GapSolution solve() {
    order_rows();
    forward();
    GapSolution solution;
    solution.loss = best_;
    solution.rows = rows_;
    solution.cells = cells_;
    if (best_row_ >= 0) {
      solution.improved = true;
      backward(solution);
    }
    return solution;
  }

 private:
  // A computed row: best[d] for d in [low, high], using the moves with a loss below `limit`.
  struct Done {
    std::size_t row = 0;
    double limit = 0;
    std::int64_t low = 0, high = 0;
    std::vector<double> cells;  // empty if not kept
    std::size_t width() const { return static_cast<std::size_t>(high - low + 1); }
  };

  void order_rows() {
    const std::size_t n = problem_.rows.size();
    std::vector<double> rate(n, kUnbounded);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t i = problem_.rows[r].begin; i < problem_.rows[r].end; ++i) {
        const Move& move = problem_.moves[i];
        rate[r] = std::min(rate[r], move.loss / std::abs(move.delta));
      }
    }
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&rate](std::size_t a, std::size_t b) {
      return rate[a] != rate[b] ? rate[a] < rate[b] : a < b;
    });
    // What the rows from position p on can contribute.
    up_rate_.assign(n + 1, kUnbounded);
    down_rate_.assign(n + 1, kUnbounded);
    reach_.assign(n + 1, 0);
    for (std::size_t p = n; p-- > 0;) {
      const GapProblem::Row& row = problem_.rows[order_[p]];
      up_rate_[p] = up_rate_[p + 1];
      down_rate_[p] = down_rate_[p + 1];
      int down = 0;
      int up = 0;
      for (std::size_t i = row.begin; i < row.end; ++i) {
        const Move& move = problem_.moves[i];
        double& least = move.delta > 0 ? up_rate_[p] : down_rate_[p];
        least = std::min(least, move.loss / std::abs(move.delta));
        down = std::max(down, -move.delta);
        up = std::max(up, move.delta);
      }
      reach_[p] = reach_[p + 1] + down;
      margin_ = std::max(margin_, static_cast<std::size_t>(up) + static_cast<std::size_t>(down));
    }
  }

  // The lowest and the highest state that can still end below best_ using the rows from position p
  // on. Wider than necessary by up to one unit, so that rounding cannot cut too much.
  std::int64_t lowest(std::size_t p) const {
    const double distance = best_ / std::min(up_rate_[p], problem_.price);
    return distance < 1e15 ? problem_.gap - 1 - static_cast<std::int64_t>(distance * (1 + 1e-9))
                           : std::numeric_limits<std::int64_t>::min();
  }
  std::int64_t highest(std::size_t p) const {
    const double distance = std::min(static_cast<double>(reach_[p]), best_ / down_rate_[p] + 1);
    return problem_.gap + static_cast<std::int64_t>(distance * (1 + 1e-9));
  }

  // Collects the moves of a row with a loss below the limit in moves_.
  void select_moves(std::size_t row, double limit) {
    moves_.clear();
    for (std::size_t i = problem_.rows[row].begin; i < problem_.rows[row].end; ++i) {
      if (problem_.moves[i].loss < limit) moves_.push_back(problem_.moves[i]);
    }
  }

  // Whether no move can change a state: earlier rows had the same moves at no higher loss without
  // effect, and nothing has changed since.
  bool moves_are_useless() const {
    return !useless_.empty() && std::all_of(moves_.begin(), moves_.end(), [this](const Move& move) {
      return std::any_of(useless_.begin(), useless_.end(), [&move](const Move& useless) {
        return useless.delta == move.delta && useless.loss <= move.loss;
      });
    });
  }

  void forward() {
    const double zero = 0;
    load(&zero, 0, 0);
    std::size_t kept_cells = 0;
    for (std::size_t p = 0; p < order_.size() && best_ > problem_.enough; ++p) {
      Done done{.row = order_[p], .limit = best_};
      select_moves(done.row, best_);
      if (moves_.empty() || moves_are_useless()) continue;
      std::int64_t down = 0;
      std::int64_t up = 0;
      for (const Move& move : moves_) {
        down = std::min<std::int64_t>(down, move.delta);
        up = std::max<std::int64_t>(up, move.delta);
      }
      done.low = std::max(low_ + down, lowest(p + 1));
      done.high = std::min(high_ + up, highest(p + 1));
      if (done.low > done.high) return;  // no state can end below best_ any more
      const std::size_t width = done.width();
      if (out_.size() < width + 2 * margin_) out_.resize(2 * width + 2 * margin_);
      double* const out = out_.data() + margin_;
      const bool changed = relax_row(state(done.low), width, moves_, out);
      ++rows_;
      cells_ += static_cast<std::int64_t>(width * (moves_.size() + 1));
      if (!changed) {
        if (useless_.size() > kUselessMoves) useless_.clear();
        useless_.insert(useless_.end(), moves_.begin(), moves_.end());
        continue;
      }
      useless_.clear();
      take_incumbent(out, done);
      // Drop states at the ends that cannot end below best_.
      std::size_t first = 0;
      std::size_t last = width;
      while (first < last && out[first] >= best_) ++first;
      while (first < last && out[last - 1] >= best_) --last;
      if (first == last) {
        done_.push_back(std::move(done));
        return;
      }
      done.high = done.low + static_cast<std::int64_t>(last) - 1;
      done.low += static_cast<std::int64_t>(first);
      // The computed row is the input of the next one.
      in_.swap(out_);
      in_first_ = margin_ + first;
      low_ = done.low;
      high_ = done.high;
      surround();
      if (done_.size() % interval_ == 0) {
        done.cells.assign(state(low_), state(high_) + 1);
        kept_cells += done.width();
      }
      done_.push_back(std::move(done));
      if (interval_ == 1 && kept_cells > kKeptCells) thin_out();
    }
  }

  // Keeps only every interval_-th row, of the rows so far and from now on.
  void thin_out() {
    interval_ = static_cast<std::size_t>(std::sqrt(static_cast<double>(order_.size()))) + 1;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (i % interval_ != 0) recycle(done_[i].cells);
    }
  }

  // A state within the gap may complete the best set so far.
  void take_incumbent(const double* cells, const Done& done) {
    const double useful = best_ / problem_.price;  // units that may stay unused
    std::int64_t from = done.low;
    if (useful < static_cast<double>(problem_.gap - done.low)) {
      from = std::max(from, problem_.gap - 1 - static_cast<std::int64_t>(useful));
    }
    const std::int64_t to = std::min(done.high, problem_.gap);
    for (std::int64_t d = from; d <= to; ++d) {
      const double total =
          cells[d - done.low] + problem_.price * static_cast<double>(problem_.gap - d);
      if (total < best_) {
        best_ = total;
        best_row_ = static_cast<std::ptrdiff_t>(done_.size());
        best_state_ = d;
        best_cell_ = cells[d - done.low];
      }
    }
  }

  // Makes the states [low, high] the input of the next row.
  void load(const double* cells, std::int64_t low, std::int64_t high) {
    low_ = low;
    high_ = high;
    const auto width = static_cast<std::size_t>(high - low + 1);
    if (in_.size() < width + 2 * margin_) in_.resize(2 * width + 2 * margin_);
    in_first_ = margin_;
    std::copy_n(cells, width, in_.data() + in_first_);
    surround();
  }
  // Surrounds the states of in_ with as many unreachable ones as a row may read.
  void surround() {
    double* const first = in_.data() + in_first_;
    std::fill_n(first - margin_, margin_, kUnbounded);
    std::fill_n(first + (high_ - low_ + 1), margin_, kUnbounded);
  }
  const double* state(std::int64_t d) const {
    return in_.data() + (static_cast<std::int64_t>(in_first_) + d - low_);
  }

  // Reuses the memory of rows that are no longer needed.
  void recycle(std::vector<double>& cells) {
    if (cells.capacity() > 0) spare_.push_back(std::move(cells));
    cells = {};
  }

  // Ensures that the cells of row i exist: recomputes it and the missing rows before it as
  // forward() did.
  void restore(std::size_t i) {
    std::size_t from = i;
    while (from > 0 && done_[from].cells.empty()) --from;
    RUBATO_CHECK(!done_[from].cells.empty(), "the first row is always kept");
    for (; from < i; ++from) {
      const Done& before = done_[from];
      Done& done = done_[from + 1];
      load(before.cells.data(), before.low, before.high);
      select_moves(done.row, done.limit);
      if (!spare_.empty()) {
        done.cells = std::move(spare_.back());
        spare_.pop_back();
      }
      done.cells.resize(done.width());
      relax_row(state(done.low), done.width(), moves_, done.cells.data());
    }
  }

  // Finds the moves that led to the best state: those whose sums are exactly the values of the
  // cells.
  void backward(GapSolution& solution) {
    std::int64_t d = best_state_;
    double cell = best_cell_;
    for (auto i = static_cast<std::size_t>(best_row_) + 1; i-- > 0;) {
      if (i > 0 && done_[i - 1].cells.empty()) restore(i - 1);
      if (cell_before(i, d) != cell) {
        const GapProblem::Row& row = problem_.rows[done_[i].row];
        std::size_t m = row.begin;
        while (m < row.end &&
               (problem_.moves[m].loss >= done_[i].limit ||
                cell_before(i, d - problem_.moves[m].delta) + problem_.moves[m].loss != cell)) {
          ++m;
        }
        RUBATO_CHECK(m < row.end, "no move explains a state");
        solution.taken.push_back({row.job, m});
        d -= problem_.moves[m].delta;
        cell = cell_before(i, d);
      }
      recycle(done_[i].cells);
    }
  }
  // The least loss of state d before the i-th row.
  double cell_before(std::size_t i, std::int64_t d) const {
    if (i == 0) return d == 0 ? 0 : kUnbounded;
    const Done& done = done_[i - 1];
    return d >= done.low && d <= done.high ? done.cells[static_cast<std::size_t>(d - done.low)]
                                           : kUnbounded;
  }

  const GapProblem& problem_;
  std::vector<std::size_t> order_;
  std::vector<double> up_rate_, down_rate_;
  std::vector<std::int64_t> reach_;
  std::size_t margin_ = 0;
  double best_;
  std::ptrdiff_t best_row_ = -1;  // in done_
  std::int64_t best_state_ = 0;
  double best_cell_ = 0;
  std::size_t interval_;  // one row in this many is kept
  std::vector<Done> done_;
  std::vector<Move> moves_;
  std::vector<Move> useless_;
  int rows_ = 0;
  std::vector<double> in_, out_;
  std::size_t in_first_ = 0;  // position of state low_ in in_
  std::int64_t low_ = 0, high_ = 0;
  std::vector<std::vector<double>> spare_;
  std::int64_t cells_ = 0;
};

}  // namespace

GapSolution close_gap(GapProblem problem) {
  // Counted in units of the greatest common divisor of the deltas. Any remainder of the gap stays
  // unused.
  int unit = 0;
  for (const Move& move : problem.moves) {
    if (unit == 0 || move.delta % unit != 0) unit = std::gcd(unit, move.delta);
    if (unit == 1) break;
  }
  double unavoidable = 0;
  if (unit > 1) {
    for (Move& move : problem.moves) move.delta /= unit;
    unavoidable = problem.price * static_cast<double>(problem.gap % unit);
    problem.gap /= unit;
    problem.price *= unit;
    problem.incumbent -= unavoidable;
  }
  GapSolution solution = GapProgram(problem).solve();
  solution.loss += unavoidable;
  return solution;
}

}  // namespace rubato
