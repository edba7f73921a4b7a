// Compares CBC with GLPK on the programs of the policy `mip`: same instance, start and limits, one
// thread. Run `build/bin/mip_solvers`. The product itself uses only CBC.
#include <fmt/format.h>
#include <glpk.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/random.h"
#include "sched/policies/mip_program.h"

namespace rubato::bench {
namespace {

constexpr int kInstances = 4;
constexpr MilpLimits kLimits{.seconds = 2, .nodes = 1'000'000'000, .gap = 1e-3};

// GLPK accepts an initial solution only through its callback.
struct Offer {
  std::vector<double> x;  // indices from 1, as in GLPK
  bool made = false;
};

void offer_start(glp_tree* tree, void* info) {
  auto& offer = *static_cast<Offer*>(info);
  if (glp_ios_reason(tree) != GLP_IHEUR || offer.made) return;
  offer.made = true;
  glp_ios_heur_sol(tree, offer.x.data());
}

MilpResult solve_with_glpk(const Milp& program, std::span<const double> start,
                           const MilpLimits& limits) {
  const auto begin = std::chrono::steady_clock::now();
  glp_term_out(GLP_OFF);
  glp_prob* lp = glp_create_prob();
  glp_set_obj_dir(lp, GLP_MAX);
  glp_add_cols(lp, static_cast<int>(program.columns.size()));
  for (int i = 0; i < static_cast<int>(program.columns.size()); ++i) {
    const Milp::Column& column = program.columns[static_cast<std::size_t>(i)];
    glp_set_col_bnds(lp, i + 1, GLP_DB, column.lower, column.upper);
    if (column.integer) glp_set_col_kind(lp, i + 1, GLP_BV);
    glp_set_obj_coef(lp, i + 1, column.objective);
  }
  glp_add_rows(lp, static_cast<int>(program.rows.size()));
  for (int r = 0; r < static_cast<int>(program.rows.size()); ++r) {
    const Milp::Row& row = program.rows[static_cast<std::size_t>(r)];
    glp_set_row_bnds(lp, r + 1, GLP_UP, 0, row.upper);  // all rows of these programs are "at most"
    std::vector<int> index{0};
    std::vector<double> value{0};
    for (const auto& term : row.terms) {
      index.push_back(term.first + 1);
      value.push_back(term.second);
    }
    glp_set_mat_row(lp, r + 1, static_cast<int>(row.terms.size()), index.data(), value.data());
  }
  Offer offer{.x = {0}};
  offer.x.insert(offer.x.end(), start.begin(), start.end());
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.tm_lim = static_cast<int>(limits.seconds * 1000);
  options.mip_gap = limits.gap;
  options.gmi_cuts = options.mir_cuts = options.cov_cuts = options.clq_cuts = GLP_ON;
  options.cb_func = offer_start;
  options.cb_info = &offer;
  glp_smcp simplex;
  glp_init_smcp(&simplex);
  simplex.msg_lev = GLP_MSG_OFF;
  MilpResult result;
  int code = glp_simplex(lp, &simplex);
  result.bound = glp_get_obj_val(lp);
  if (code == 0) code = glp_intopt(lp, &options);
  const int status = glp_mip_status(lp);
  result.value = glp_mip_obj_val(lp);
  result.status = code == GLP_ETMLIM                                        ? MilpStatus::kLimit
                  : code == GLP_EMIPGAP || (code == 0 && status == GLP_OPT) ? MilpStatus::kOptimal
                                                                            : MilpStatus::kFailed;
  glp_delete_prob(lp);
  glp_free_env();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

// A busy cluster: three of four jobs hold nodes, the rest wait.
MipProgram make_program(int jobs, int capacity, int periods, std::uint64_t seed) {
  Random random(seed);
  MipProgram program{.capacity = capacity};
  for (int t = 0; t < periods; ++t) program.weights.push_back(std::pow(0.9, t));
  int left = capacity;
  for (int j = 0; j < jobs; ++j) {
    MipJob job;
    const double hours = 8 * std::exp(random.normal());  // on one node
    const double serial = 0.005 + 0.08 * random.uniform();
    const int largest = random.chance(0.5) ? 8 : 16;
    for (int size = 1 << random.below(3); size <= largest; size *= 2) {
      const double speed = 1 / ((1 - serial) / size + serial + 0.3 * serial * std::log2(size));
      job.options.push_back({size, 300 * speed / (hours * 3600)});
    }
    if (random.chance(0.75)) {
      const std::size_t held = random.below(static_cast<std::uint32_t>(job.options.size()));
      if (job.options[held].size <= left) job.current = job.options[held].size;
      left -= job.current;
    }
    job.switch_cost = job.stop_cost = 0.1 * job.options.front().progress;
    job.run_value = 1;
    program.jobs.push_back(std::move(job));
  }
  return program;
}

struct Tally {
  std::vector<double> ms;
  double value = 0;
  int limited = 0;
};

void run() {
  fmt::print("Programs of the policy mip, {} each; gap {} %, limit {} s, one thread\n\n",
             kInstances, kLimits.gap * 100, kLimits.seconds);
  fmt::print("{:>5} {:>6} {:>8} {:>8} {:>6}  {:>10} {:>10} {:>8}  {:>10} {:>10} {:>8}  {:>11}\n",
             "jobs", "nodes", "periods", "columns", "rows", "CBC median", "max ms", "at limit",
             "GLPK median", "max ms", "at limit", "GLPK/CBC value");
  struct Size {
    int jobs, nodes, periods;
  };
  for (const Size& size : {Size{10, 32, 2}, Size{20, 32, 2}, Size{40, 64, 2}, Size{10, 32, 4},
                           Size{20, 32, 4}, Size{40, 64, 4}, Size{100, 128, 4}, Size{20, 32, 8}}) {
    std::array<Tally, 2> tallies;
    MipModel model;
    for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
      const MipProgram program = make_program(size.jobs, size.nodes, size.periods, seed);
      model = build_model(program);
      const std::vector<double> start = model.columns_of(program, solve_period_by_period(program));
      for (std::size_t which = 0; which < 2; ++which) {
        const MilpResult result = which == 0 ? solve_with_cbc(model.milp, start, kLimits)
                                             : solve_with_glpk(model.milp, start, kLimits);
        tallies[which].ms.push_back(result.seconds * 1e3);
        tallies[which].value += result.value;
        if (result.status != MilpStatus::kOptimal) ++tallies[which].limited;
      }
    }
    for (Tally& tally : tallies) std::sort(tally.ms.begin(), tally.ms.end());
    const auto median = [](const Tally& tally) { return tally.ms[tally.ms.size() / 2]; };
    fmt::print(
        "{:>5} {:>6} {:>8} {:>8} {:>6}  {:>10.1f} {:>10.1f} {:>8}  {:>10.1f} {:>10.1f} {:>8}  "
        "{:>11.5f}\n",
        size.jobs, size.nodes, size.periods, model.milp.columns.size(), model.milp.rows.size(),
        median(tallies[0]), tallies[0].ms.back(), tallies[0].limited, median(tallies[1]),
        tallies[1].ms.back(), tallies[1].limited, tallies[1].value / tallies[0].value);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace rubato::bench

int main() { rubato::bench::run(); }
