#include "sched/policies/mip_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

bool neighbours(int from, int to) {
  return from == 0 || to == 0 || (to <= 2 * from && from <= 2 * to);
}

// A running job grows by at most one doubling per period, even if it stops in between: stopping
// only to come back larger must not pay.
bool within_reach(const MipJob& job, int size, std::size_t period) {
  if (job.current == 0) return true;
  for (std::size_t t = 0; t <= period && size > 1; ++t) size = (size + 1) / 2;
  return size <= job.current;
}

const MipOption* find_option(const MipJob& job, int size) {
  for (const MipOption& option : job.options) {
    if (option.size == size) return &option;
  }
  return nullptr;
}

double most_progress(const MipJob& job) {
  double most = 0;
  for (const MipOption& option : job.options) most = std::max(most, option.progress);
  return most;
}

double haste_bonus(const MipJob& job, const MipOption& option) {
  return MipProgram::kHaste * option.progress / std::max(1.0, most_progress(job));
}

// Cost of going from one size to the next. Stopping costs something only in the first period: a job
// that stops later in the plan has usually ended.
double change_cost(const MipJob& job, int from, int to, bool first) {
  if (from == 0 || from == to) return 0;
  if (to == 0) return first ? job.stop_cost : 0;
  return job.switch_cost;
}

// The choices of a single period. `from` is the size before it, `left` the share of work left.
std::vector<Choice> choices(const MipJob& job, int from, double left, double weight,
                            std::size_t period) {
  const bool first = period == 0;
  std::vector<Choice> table{{0, -job.value * change_cost(job, from, 0, first)}};
  if (left <= 0) return table;
  for (const MipOption& option : job.options) {
    if (!neighbours(from, option.size) || !within_reach(job, option.size, period)) continue;
    double value = weight * (std::min(option.progress, left) + job.run_value);
    if (first) value += haste_bonus(job, option);
    value -= change_cost(job, from, option.size, first);
    table.push_back({option.size, job.value * value});
  }
  return table;
}

// Columns and rows of one job.
class ModelBuilder {
 public:
  ModelBuilder(const MipProgram& program, const MipJob& job, MipModel& model,
               std::vector<Milp::Row>& capacity)
      : program_(program), job_(job), model_(model), capacity_(capacity) {}

  void build() {
    ends_ = most_progress(job_) * static_cast<double>(program_.periods()) > 1;
    for (std::size_t t = 0; t < program_.periods(); ++t) add_period(t);
    if (ends_) add_end();
    for (std::size_t t = 1; t < program_.periods(); ++t) {
      add_reach(t);
      if (job_.switch_cost > 0 && job_.options.size() > 1) add_switch(t);
    }
    model_.constant -= job_.value * change_cost(job_, job_.current, 0, true);
    model_.of.push_back(std::move(columns_));
  }

 private:
  int column(double objective, double upper, bool integer) {
    model_.milp.columns.push_back({.objective = objective, .upper = upper, .integer = integer});
    return static_cast<int>(model_.milp.columns.size()) - 1;
  }

  void add_period(std::size_t t) {
    const double weight = program_.weights[t];
    std::vector<int>& x = columns_.x.emplace_back();
    Milp::Row one{.upper = 1};
    for (const MipOption& option : job_.options) {
      if (!within_reach(job_, option.size, t) ||
          (t == 0 && !neighbours(job_.current, option.size))) {
        x.push_back(-1);
        continue;
      }
      double value = weight * (job_.run_value + (ends_ ? 0 : option.progress));
      if (t == 0) {
        value += haste_bonus(job_, option) + change_cost(job_, job_.current, 0, true) -
                 change_cost(job_, job_.current, option.size, true);
      }
      x.push_back(column(job_.value * value, 1, true));
      one.terms.emplace_back(x.back(), 1.0);
      capacity_[t].terms.emplace_back(x.back(), option.size);
    }
    if (one.terms.size() > 1) model_.milp.rows.push_back(std::move(one));
  }

  void add_end() {
    Milp::Row all{.upper = 1};
    for (std::size_t t = 0; t < program_.periods(); ++t) {
      columns_.q.push_back(column(job_.value * program_.weights[t], 1, false));
      all.terms.emplace_back(columns_.q.back(), 1.0);
      Milp::Row done{.upper = 0, .terms = {{columns_.q.back(), 1.0}}};
      for (std::size_t k = 0; k < job_.options.size(); ++k) {
        // Progress beyond 1 gains nothing. A smaller coefficient gives a tighter relaxation.
        if (columns_.x[t][k] >= 0) {
          done.terms.emplace_back(columns_.x[t][k], -std::min(1.0, job_.options[k].progress));
        }
      }
      model_.milp.rows.push_back(std::move(done));
    }
    model_.milp.rows.push_back(std::move(all));
  }

  // Adds the sizes of period t with indices from `first` up to, but excluding, `last`.
  void add_sizes(Milp::Row& row, std::size_t t, std::size_t first, std::size_t last) const {
    for (std::size_t k = first; k < last; ++k) {
      if (columns_.x[t][k] >= 0) row.terms.emplace_back(columns_.x[t][k], 1.0);
    }
  }

  // At most one of these holds: a size of at least N in period t, a size below N/2 in the period
  // before. The same for shrinking. Together, these rows leave exactly the allowed steps.
  void add_reach(std::size_t t) {
    const std::size_t count = job_.options.size();
    for (std::size_t k = 0; k < count; ++k) {
      const int size = job_.options[k].size;
      std::size_t below = 0;  // options before this index are too small
      while (below < count && 2 * job_.options[below].size < size) ++below;
      std::size_t above = count;  // options from this index on are too large
      while (above > 0 && job_.options[above - 1].size > 2 * size) --above;
      add_conflict(t, k, count, 0, below);
      add_conflict(t, 0, k + 1, above, count);
    }
  }

  void add_conflict(std::size_t t, std::size_t now_first, std::size_t now_last, std::size_t first,
                    std::size_t last) {
    Milp::Row row{.upper = 1};
    add_sizes(row, t - 1, first, last);
    if (row.terms.empty()) return;
    add_sizes(row, t, now_first, now_last);
    model_.milp.rows.push_back(std::move(row));
  }

  // y is 1 if the job crosses any boundary between two sizes, upwards or downwards.
  void add_switch(std::size_t t) {
    columns_.y.resize(program_.periods(), -1);
    columns_.y[t] = column(-job_.value * job_.switch_cost, 1, false);
    const std::size_t count = job_.options.size();
    for (std::size_t k = 1; k < count; ++k) {
      for (const bool up : {true, false}) {
        Milp::Row row{.upper = 1, .terms = {{columns_.y[t], -1.0}}};
        add_sizes(row, t, up ? k : 0, up ? count : k);
        add_sizes(row, t - 1, up ? 0 : k, up ? k : count);
        model_.milp.rows.push_back(std::move(row));
      }
    }
  }

  const MipProgram& program_;
  const MipJob& job_;
  MipModel& model_;
  std::vector<Milp::Row>& capacity_;
  MipModel::JobColumns columns_;
  bool ends_ = false;
};

std::vector<double> shares_done(const MipProgram& program, const MipJob& job,
                                const std::vector<int>& sizes) {
  std::vector<double> shares(program.periods(), 0.0);
  double left = 1;
  for (std::size_t t = 0; t < program.periods(); ++t) {
    const MipOption* option = find_option(job, sizes[t]);
    if (option != nullptr) shares[t] = std::min(left, option->progress);
    left -= shares[t];
  }
  return shares;
}

// The best plan known without a search: staying as now, continuing the earlier plan, or the given
// one.
MipSizes best_start(const MipProgram& program, MipSizes best) {
  double value = objective(program, best);
  const auto consider = [&](const MipSizes& sizes) {
    if (!feasible(program, sizes)) return;
    const double other = objective(program, sizes);
    if (other <= value) return;
    value = other;
    best = sizes;
  };
  MipSizes held, planned;
  for (const MipJob& job : program.jobs) {
    held.emplace_back(program.periods(), job.current);
    planned.push_back(held.back());
    for (std::size_t t = 0; t < std::min(program.periods(), job.planned.size()); ++t) {
      planned.back()[t] = job.planned[t];
    }
  }
  consider(held);
  consider(planned);
  return best;
}

MilpResult solve_safely(const MilpSolver& solver, const Milp& milp, std::span<const double> start,
                        const MilpLimits& limits) {
  try {
    return solver(milp, start, limits);
  } catch (const std::exception& error) {
    return {.status = MilpStatus::kFailed, .detail = error.what()};
  }
}

}  // namespace

double MipSolution::gap() const {
  if (!std::isfinite(bound)) return Milp::kInfinity;
  return std::max(0.0, bound - value) / std::max(std::abs(bound), 1e-12);
}

bool feasible(const MipProgram& program, const MipSizes& sizes) {
  if (sizes.size() != program.jobs.size()) return false;
  std::vector<int> used(program.periods(), 0);
  for (std::size_t j = 0; j < sizes.size(); ++j) {
    if (sizes[j].size() != program.periods()) return false;
    int before = program.jobs[j].current;
    for (std::size_t t = 0; t < program.periods(); ++t) {
      const int size = sizes[j][t];
      if (size != 0 && find_option(program.jobs[j], size) == nullptr) return false;
      if (!neighbours(before, size) || !within_reach(program.jobs[j], size, t)) return false;
      used[t] += size;
      before = size;
    }
  }
  return std::all_of(used.begin(), used.end(), [&](int u) { return u <= program.capacity; });
}

double objective(const MipProgram& program, const MipSizes& sizes) {
  double total = 0;
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    const MipJob& job = program.jobs[j];
    const std::vector<double> shares = shares_done(program, job, sizes[j]);
    double value = 0;
    int before = job.current;
    for (std::size_t t = 0; t < program.periods(); ++t) {
      value += program.weights[t] * (shares[t] + (sizes[j][t] > 0 ? job.run_value : 0));
      value -= change_cost(job, before, sizes[j][t], t == 0);
      before = sizes[j][t];
    }
    if (const MipOption* option = find_option(job, sizes[j][0])) value += haste_bonus(job, *option);
    total += job.value * value;
  }
  return total;
}

MipSizes solve_period_by_period(const MipProgram& program) {
  MipSizes sizes(program.jobs.size());
  std::vector<double> left(program.jobs.size(), 1.0);
  for (std::size_t t = 0; t < program.periods(); ++t) {
    std::vector<std::vector<Choice>> tables;
    tables.reserve(program.jobs.size());
    for (std::size_t j = 0; j < program.jobs.size(); ++j) {
      const MipJob& job = program.jobs[j];
      const int before = t == 0 ? job.current : sizes[j][t - 1];
      tables.push_back(choices(job, before, left[j], program.weights[t], t));
    }
    const Division division = allocate(tables, program.capacity);
    for (std::size_t j = 0; j < program.jobs.size(); ++j) {
      // Always feasible: size 0 is always a choice.
      const Choice& chosen = tables[j][static_cast<std::size_t>(division.choice[j])];
      sizes[j].push_back(chosen.size);
      const MipOption* option = find_option(program.jobs[j], chosen.size);
      if (option != nullptr) left[j] -= std::min(left[j], option->progress);
    }
  }
  return sizes;
}

MipModel build_model(const MipProgram& program) {
  MipModel model;
  std::vector<Milp::Row> capacity(program.periods(),
                                  {.upper = static_cast<double>(program.capacity)});
  for (const MipJob& job : program.jobs) ModelBuilder(program, job, model, capacity).build();
  for (Milp::Row& row : capacity) model.milp.rows.push_back(std::move(row));
  return model;
}

std::vector<double> MipModel::columns_of(const MipProgram& program, const MipSizes& sizes) const {
  std::vector<double> x(milp.columns.size(), 0.0);
  const auto set = [&](int column, double value) { x[static_cast<std::size_t>(column)] = value; };
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    const MipJob& job = program.jobs[j];
    const std::vector<double> shares = shares_done(program, job, sizes[j]);
    for (std::size_t t = 0; t < program.periods(); ++t) {
      for (std::size_t k = 0; k < job.options.size(); ++k) {
        if (job.options[k].size == sizes[j][t]) set(of[j].x[t][k], 1);
      }
      if (!of[j].q.empty()) set(of[j].q[t], shares[t]);
      if (t == 0 || of[j].y.empty()) continue;
      const bool changed =
          sizes[j][t] != sizes[j][t - 1] && sizes[j][t] != 0 && sizes[j][t - 1] != 0;
      set(of[j].y[t], changed ? 1 : 0);
    }
  }
  return x;
}

MipSizes MipModel::sizes_of(const MipProgram& program, std::span<const double> x) const {
  MipSizes sizes(program.jobs.size(), std::vector<int>(program.periods(), 0));
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    for (std::size_t t = 0; t < program.periods(); ++t) {
      for (std::size_t k = 0; k < program.jobs[j].options.size(); ++k) {
        const int column = of[j].x[t][k];
        if (column < 0 || x[static_cast<std::size_t>(column)] < 0.5) continue;
        sizes[j][t] = program.jobs[j].options[k].size;
      }
    }
  }
  return sizes;
}

MipSolution solve_mip(const MipProgram& program, const MilpLimits& limits,
                      const MilpSolver& solver) {
  MipSolution solution;
  solution.sizes = solve_period_by_period(program);
  solution.value = objective(program, solution.sizes);
  solution.bound = solution.value;
  if (program.periods() == 1 || program.jobs.empty()) return solution;

  const MipModel model = build_model(program);
  const MipSizes start = best_start(program, solution.sizes);
  const MilpResult found =
      solve_safely(solver, model.milp, model.columns_of(program, start), limits);
  solution.solver_s = found.seconds;
  solution.bound = found.bound + model.constant;
  const bool usable =
      (found.status == MilpStatus::kOptimal || found.status == MilpStatus::kLimit) &&
      found.x.size() == model.milp.columns.size();
  const MipSizes sizes = usable ? model.sizes_of(program, found.x) : MipSizes{};
  if (!usable || !feasible(program, sizes)) {
    solution.outcome = MipOutcome::kFallback;
    solution.bound = Milp::kInfinity;
    solution.note = fmt::format("solver failed ({}): periods were planned one at a time",
                                found.detail.empty() ? "no usable solution" : found.detail);
    return solution;
  }
  solution.sizes = sizes;
  solution.value = objective(program, sizes);
  if (found.status == MilpStatus::kLimit) {
    solution.outcome = MipOutcome::kIncumbent;
    solution.note =
        std::isfinite(solution.bound)
            ? fmt::format("solver limit reached: using the best plan so far, gap {:.2f} %",
                          solution.gap() * 100)
            : "solver limit reached: using the best plan so far, gap unknown";
  }
  return solution;
}

}  // namespace rubato
