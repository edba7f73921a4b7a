#include <CbcHeuristic.hpp>
#include <CbcHeuristicRINS.hpp>
#include <CbcModel.hpp>
#include <CglClique.hpp>
#include <CglGomory.hpp>
#include <CglKnapsackCover.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <CglProbing.hpp>
#include <CglTwomir.hpp>
#include <CoinError.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>

#include "solve/milp.h"

namespace rubato {

namespace {

// CBC minimises, and ignores differences below 1e-5. The objective is therefore scaled to a few
// hundred.
double scale_of(const Milp& program) {
  double largest = 0;
  for (const Milp::Column& column : program.columns) {
    largest = std::max(largest, std::abs(column.objective));
  }
  return largest > 0 ? 1000.0 / largest : 1.0;
}

void load(const Milp& program, double scale, OsiClpSolverInterface& lp) {
  CoinPackedMatrix matrix(false, 0, 0);
  matrix.setDimensions(0, static_cast<int>(program.columns.size()));
  std::vector<double> row_lower, row_upper, lower, upper, objective;
  std::vector<int> index;
  std::vector<double> value;
  const auto finite = [](double x) { return std::clamp(x, -COIN_DBL_MAX, COIN_DBL_MAX); };
  for (const Milp::Row& row : program.rows) {
    index.clear();
    value.clear();
    for (const auto& term : row.terms) {
      index.push_back(term.first);
      value.push_back(term.second);
    }
    matrix.appendRow(static_cast<int>(index.size()), index.data(), value.data());
    row_lower.push_back(finite(row.lower));
    row_upper.push_back(finite(row.upper));
  }
  for (const Milp::Column& column : program.columns) {
    lower.push_back(finite(column.lower));
    upper.push_back(finite(column.upper));
    objective.push_back(-scale * column.objective);
  }
  lp.loadProblem(matrix, lower.data(), upper.data(), objective.data(), row_lower.data(),
                 row_upper.data());
  for (std::size_t i = 0; i < program.columns.size(); ++i) {
    if (program.columns[i].integer) lp.setInteger(static_cast<int>(i));
  }
}

void add_cuts(CbcModel& model) {
  CglProbing probing;
  probing.setMaxPass(1);
  probing.setMaxProbe(10);
  probing.setMaxProbeRoot(50);
  probing.setRowCuts(3);
  CglKnapsackCover cover;
  CglClique clique;
  clique.setStarCliqueReport(false);
  clique.setRowCliqueReport(false);
  CglMixedIntegerRounding2 rounding;
  model.addCutGenerator(&probing, -98, "probing");
  model.addCutGenerator(&cover, -98, "cover");
  model.addCutGenerator(&clique, -98, "clique");
  model.addCutGenerator(&rounding, -98, "rounding");
  CglGomory gomory;
  gomory.setLimit(100);
  model.addCutGenerator(&gomory, -98, "gomory");
  CglTwomir twomir;
  model.addCutGenerator(&twomir, -98, "twomir");
}

MilpResult search(const Milp& program, std::span<const double> start, const MilpLimits& limits) {
  MilpResult result;
  for (std::size_t i = 0; i < start.size(); ++i) {
    result.value += program.columns[i].objective * start[i];
  }
  result.x.assign(start.begin(), start.end());
  result.status = MilpStatus::kLimit;
  if (limits.seconds <= 0) return result;

  const double scale = scale_of(program);
  OsiClpSolverInterface lp;
  lp.messageHandler()->setLogLevel(0);
  load(program, scale, lp);
  CbcModel model(lp);
  model.setLogLevel(0);
  model.messageHandler()->setLogLevel(0);
  model.solver()->messageHandler()->setLogLevel(0);
  model.setUseElapsedTime(true);
  model.setDblParam(CbcModel::CbcMaximumSeconds, limits.seconds);
  model.setIntParam(CbcModel::CbcMaxNumNode,
                    static_cast<int>(std::min<long>(limits.nodes, 2'000'000'000)));
  model.setDblParam(CbcModel::CbcAllowableFractionGap, limits.gap);
  model.setDblParam(CbcModel::CbcAllowableGap, 1e-9);
  model.setDblParam(CbcModel::CbcCutoffIncrement, 1e-7);
  model.initialSolve();
  if (!model.isInitialSolveProvenOptimal()) {
    result.status = model.isInitialSolveProvenPrimalInfeasible() ? MilpStatus::kInfeasible
                                                                 : MilpStatus::kFailed;
    result.detail = "the linear relaxation was not solved";
    return result;
  }
  add_cuts(model);
  CbcRounding rounding(model);
  model.addHeuristic(&rounding);
  CbcHeuristicRINS neighbours(model);
  neighbours.setHowOften(200);
  model.addHeuristic(&neighbours);
  model.setMaximumCutPassesAtRoot(50);
  model.setMaximumCutPasses(1);
  model.setNumberStrong(5);
  model.setNumberBeforeTrust(5);
  if (!start.empty()) {
    model.setBestSolution(start.data(), static_cast<int>(start.size()), -scale * result.value,
                          true);
  }
  model.branchAndBound();

  result.bound = -model.getBestPossibleObjValue() / scale;
  if (const double* best = model.bestSolution()) {
    const double value = -model.getObjValue() / scale;
    if (result.x.empty() || value > result.value) {
      result.value = value;
      result.x.assign(best, best + program.columns.size());
    }
  }
  switch (model.status()) {
    case 0:
      result.status = result.x.empty() ? MilpStatus::kInfeasible : MilpStatus::kOptimal;
      break;
    case 1:
      result.status = MilpStatus::kLimit;
      break;
    default:
      result.status = MilpStatus::kFailed;
      result.detail = "the search was abandoned";
  }
  // A finished search leaves the bound of its last open node.
  if (result.status == MilpStatus::kOptimal && !(result.bound >= result.value)) {
    result.bound = result.value;
  }
  return result;
}

}  // namespace

MilpResult solve_with_cbc(const Milp& program, std::span<const double> start,
                          const MilpLimits& limits) {
  const auto begin = std::chrono::steady_clock::now();
  MilpResult result;
  try {
    result = search(program, start, limits);
  } catch (const CoinError& error) {
    result.detail = "CBC: " + error.message();
  } catch (const std::exception& error) {
    result.detail = std::string("CBC: ") + error.what();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace rubato
