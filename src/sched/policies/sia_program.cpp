#include "sched/policies/sia_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "solve/allocate.h"

namespace rubato {

namespace {

double value_of(const SiaProgram& program, const std::vector<int>& choice) {
  double value = 0;
  for (std::size_t j = 0; j < choice.size(); ++j) {
    if (choice[j] >= 0) value += program.jobs[j][static_cast<std::size_t>(choice[j])].value;
  }
  return value;
}

// The only type with options. Invalid if there is none or more than one.
DeviceTypeId only_type(const SiaProgram& program) {
  DeviceCounts options;
  for (const auto& job : program.jobs) {
    for (const SiaOption& option : job) ++options[option.type];
  }
  return options.single_type();
}

std::vector<int> solve_one_type(const SiaProgram& program, DeviceTypeId type) {
  std::vector<std::vector<Choice>> tables;
  for (const auto& job : program.jobs) {
    std::vector<Choice>& table = tables.emplace_back(1, Choice{0, 0.0});
    for (const SiaOption& option : job) table.push_back({option.devices, option.value});
  }
  std::vector<int> choice = allocate(tables, program.capacity[type]).choice;
  for (int& c : choice) --c;
  return choice;
}

// --- Prices per device
//
// If every device has a price, each job takes its best option independently. The sum of their
// gains, plus the price of all devices, is an upper bound on the value of any plan. The bound minus
// the value of a plan is the sum of what its jobs lose against their best options, plus the price
// of unused devices. So an option that loses more than the distance from the bound to a known plan
// cannot be part of a better plan.

using Prices = std::array<double, kMaxDeviceTypes>;

constexpr int kPriceSteps = 200;
constexpr int kPatience = 5;  // steps without a better bound
constexpr double kRounding = 1e-9;

struct Relaxed {
  double bound = 0;
  std::vector<int> choice;                  // of each job independently
  std::array<int, kMaxDeviceTypes> left{};  // negative: demand exceeds capacity
};

double gain(const SiaOption& option, const Prices& prices) {
  return option.value - prices[option.type.index()] * option.devices;
}

void relax(const SiaProgram& program, const Prices& prices, Relaxed& out) {
  out.bound = 0;
  out.choice.assign(program.jobs.size(), -1);
  for (std::size_t t = 0; t < kMaxDeviceTypes; ++t) {
    out.left[t] = program.capacity.of[t];
    out.bound += prices[t] * program.capacity.of[t];
  }
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    double best = 0;
    for (std::size_t o = 0; o < program.jobs[j].size(); ++o) {
      const double g = gain(program.jobs[j][o], prices);
      if (g <= best) continue;
      best = g;
      out.choice[j] = static_cast<int>(o);
    }
    out.bound += best;
    if (out.choice[j] < 0) continue;
    const SiaOption& option = program.jobs[j][static_cast<std::size_t>(out.choice[j])];
    out.left[option.type.index()] -= option.devices;
  }
}

// Turns the independent choices of the jobs into a plan. While the demand for a type exceeds its
// capacity, the job that loses least per device freed there changes. Then the job that gains most
// takes what is left, as long as there is one.
std::vector<int> repair(const SiaProgram& program, const Prices& prices, const Relaxed& relaxed) {
  std::vector<int> choice = relaxed.choice;
  std::array<int, kMaxDeviceTypes> left = relaxed.left;
  const auto option_of = [&](std::size_t j, int o) -> const SiaOption* {
    return o < 0 ? nullptr : &program.jobs[j][static_cast<std::size_t>(o)];
  };
  const auto move = [&](std::size_t j, int to) {
    if (const SiaOption* from = option_of(j, choice[j])) left[from->type.index()] += from->devices;
    choice[j] = to;
    if (const SiaOption* next = option_of(j, to)) left[next->type.index()] -= next->devices;
  };
  // Whether the job can switch from one option to the other.
  const auto fits = [&](const SiaOption* from, const SiaOption* to) {
    if (to == nullptr) return true;
    const bool same = from != nullptr && from->type == to->type;
    return to->devices <= left[to->type.index()] + (same ? from->devices : 0);
  };
  for (std::size_t t = 0; t < kMaxDeviceTypes; ++t) {
    while (left[t] < 0) {
      double best = 0;
      std::size_t who = program.jobs.size();
      int what = -1;
      for (std::size_t j = 0; j < program.jobs.size(); ++j) {
        const SiaOption* from = option_of(j, choice[j]);
        if (from == nullptr || from->type.index() != t) continue;
        for (int o = -1; o < static_cast<int>(program.jobs[j].size()); ++o) {
          const SiaOption* to = option_of(j, o);
          const bool here = to != nullptr && to->type == from->type;
          const int freed = from->devices - (here ? to->devices : 0);
          if (freed <= 0 || (to != nullptr && !here && to->devices > left[to->type.index()])) {
            continue;
          }
          const double loss = gain(*from, prices) - (to == nullptr ? 0 : gain(*to, prices));
          const double per_unit = loss / std::min(freed, -left[t]);
          if (who < program.jobs.size() && per_unit >= best) continue;
          best = per_unit;
          who = j;
          what = o;
        }
      }
      move(who, what);
    }
  }
  for (;;) {
    double best = 0;
    std::size_t who = program.jobs.size();
    int what = -1;
    for (std::size_t j = 0; j < program.jobs.size(); ++j) {
      const SiaOption* from = option_of(j, choice[j]);
      for (int o = 0; o < static_cast<int>(program.jobs[j].size()); ++o) {
        const SiaOption* to = option_of(j, o);
        const double more = to->value - (from == nullptr ? 0 : from->value);
        if (more <= best || !fits(from, to)) continue;
        best = more;
        who = j;
        what = o;
      }
    }
    if (who == program.jobs.size()) return choice;
    move(who, what);
  }
}

struct Bounded {
  Prices prices{};
  double bound = Milp::kInfinity;
  std::vector<int> choice;  // the best plan known
  double value = 0;
};

// Finds prices by subgradient steps towards the best known plan. Building plans dominates the cost,
// so a plan is built only when the prices stop improving at the current step size.
Bounded find_prices(const SiaProgram& program) {
  Bounded best{.choice = program.current, .value = value_of(program, program.current)};
  Prices prices{};
  Relaxed relaxed;
  const auto make_plan = [&] {
    std::vector<int> choice = repair(program, prices, relaxed);
    const double value = value_of(program, choice);
    if (value <= best.value) return;
    best.value = value;
    best.choice = std::move(choice);
  };
  double pace = 1;
  int stalled = 0;
  for (int step = 0; step < kPriceSteps; ++step) {
    relax(program, prices, relaxed);
    if (relaxed.bound < best.bound - kRounding) {
      best.bound = relaxed.bound;
      best.prices = prices;
      stalled = 0;
    } else if (++stalled == kPatience) {
      pace /= 2;
      stalled = 0;
      prices = best.prices;
      relax(program, prices, relaxed);
      make_plan();
    }
    double norm = 0;
    for (std::size_t t = 0; t < kMaxDeviceTypes; ++t) {
      if (relaxed.left[t] > 0 && prices[t] <= 0) continue;
      norm += static_cast<double>(relaxed.left[t]) * relaxed.left[t];
    }
    if (norm == 0) make_plan();
    if (norm == 0 || best.bound - best.value <= kRounding) break;
    const double length = pace * (relaxed.bound - best.value) / norm;
    for (std::size_t t = 0; t < kMaxDeviceTypes; ++t) {
      prices[t] = std::max(0.0, prices[t] - length * relaxed.left[t]);
    }
  }
  return best;
}

// --- The core: options that may improve on the best known plan

struct CoreJob {
  std::size_t job = 0;
  std::vector<int> choices;  // -1: nothing
};

struct Core {
  std::vector<CoreJob> jobs;  // jobs with several choices
  std::vector<int> fixed;     // choices of the other jobs
  DeviceCounts capacity;      // what the other jobs leave
  double fixed_value = 0;
};

Core find_core(const SiaProgram& program, const Bounded& known) {
  Core core{
      .jobs = {}, .fixed = std::vector<int>(program.jobs.size(), -1), .capacity = program.capacity};
  const double most_loss = known.bound - known.value + kRounding;
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    const std::vector<SiaOption>& options = program.jobs[j];
    double best = 0;
    for (const SiaOption& option : options) best = std::max(best, gain(option, known.prices));
    CoreJob job{.job = j, .choices = {}};
    if (best <= most_loss) job.choices.push_back(-1);
    for (std::size_t o = 0; o < options.size(); ++o) {
      if (best - gain(options[o], known.prices) <= most_loss) {
        job.choices.push_back(static_cast<int>(o));
      }
    }
    if (job.choices.size() > 1) {
      core.jobs.push_back(std::move(job));
      continue;
    }
    core.fixed[j] = job.choices.front();
    if (core.fixed[j] < 0) continue;
    const SiaOption& option = options[static_cast<std::size_t>(core.fixed[j])];
    core.capacity[option.type] -= option.devices;
    core.fixed_value += option.value;
  }
  return core;
}

Milp to_milp(const SiaProgram& program, const Core& core) {
  Milp milp;
  std::array<Milp::Row, kMaxDeviceTypes> types;
  for (const CoreJob& job : core.jobs) {
    Milp::Row one{.lower = job.choices.front() < 0 ? 0.0 : 1.0, .upper = 1, .terms = {}};
    for (const int o : job.choices) {
      if (o < 0) continue;
      const SiaOption& option = program.jobs[job.job][static_cast<std::size_t>(o)];
      const auto column = static_cast<int>(milp.columns.size());
      milp.columns.push_back({.objective = option.value, .lower = 0, .upper = 1, .integer = true});
      one.terms.emplace_back(column, 1.0);
      types[option.type.index()].terms.emplace_back(column, option.devices);
    }
    milp.rows.push_back(std::move(one));
  }
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (types[type].terms.empty()) continue;
    types[type].upper = core.capacity.of[type];
    milp.rows.push_back(std::move(types[type]));
  }
  return milp;
}

std::vector<double> to_columns(const Core& core, const std::vector<int>& choice) {
  std::vector<double> x;
  for (const CoreJob& job : core.jobs) {
    for (const int o : job.choices) {
      if (o >= 0) x.push_back(choice[job.job] == o ? 1.0 : 0.0);
    }
  }
  return x;
}

// The choices of all jobs; empty if the columns do not describe a plan.
std::vector<int> from_columns(const SiaProgram& program, const Core& core,
                              const std::vector<double>& x) {
  std::vector<int> choice = core.fixed;
  DeviceCounts left = core.capacity;
  std::size_t column = 0;
  for (const CoreJob& job : core.jobs) {
    for (const int o : job.choices) {
      if (o < 0 || x[column++] < 0.5) continue;
      if (choice[job.job] >= 0) return {};
      choice[job.job] = o;
      const SiaOption& option = program.jobs[job.job][static_cast<std::size_t>(o)];
      left[option.type] -= option.devices;
    }
  }
  for (const int devices : left.of) {
    if (devices < 0) return {};
  }
  return choice;
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

SiaSolution solve_sia(const SiaProgram& program, const MilpLimits& limits,
                      const MilpSolver& solver) {
  SiaSolution solution;
  if (const DeviceTypeId type = only_type(program); type.valid()) {
    solution.choice = solve_one_type(program, type);
    solution.value = value_of(program, solution.choice);
    return solution;
  }
  Bounded known = find_prices(program);
  solution.choice = std::move(known.choice);
  solution.value = known.value;
  if (known.bound - known.value <= kRounding) return solution;
  const Core core = find_core(program, known);
  if (core.jobs.empty()) return solution;
  const MilpResult result =
      solve_safely(solver, to_milp(program, core), to_columns(core, solution.choice), limits);
  solution.solver_s = result.seconds;
  std::vector<int> choice;
  if (!result.x.empty()) choice = from_columns(program, core, result.x);
  if (!choice.empty() && value_of(program, choice) > solution.value) {
    solution.choice = std::move(choice);
    solution.value = value_of(program, solution.choice);
  }
  if (result.status == MilpStatus::kLimit) {
    solution.note = fmt::format(
        "sia: the solver hit its limit; using its best plan ({:.4g}, upper bound {:.4g})",
        solution.value, std::min(known.bound, core.fixed_value + result.bound));
  } else if (result.status != MilpStatus::kOptimal) {
    solution.note = "sia: the solver failed; using the best known plan; " + result.detail;
  }
  return solution;
}

}  // namespace rubato
