// Mixed-integer linear programs, solved by a library (CBC).
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace rubato {

// Maximise sum objective * x, subject to lower <= row <= upper and the limits of the columns.
struct Milp {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Column {
    double objective = 0;
    double lower = 0;
    double upper = 1;
    bool integer = false;
  };
  struct Row {
    double lower = -kInfinity;
    double upper = kInfinity;
    std::vector<std::pair<int, double>> terms;  // column and coefficient, each column at most once
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
};

struct MilpLimits {
  Seconds seconds = 10;    // of wall time; 0: no search at all
  long nodes = 1'000'000;  // of the search tree: a limit that does not depend on the machine
  double gap = 1e-6;       // stop if the bound is within this share of the value
};

enum class MilpStatus {
  kOptimal,     // within the gap
  kLimit,       // time or nodes ran out; `x`, if any, is the best solution found
  kInfeasible,  // proven
  kFailed,      // the solver gave up; `detail` says why
};

struct MilpResult {
  MilpStatus status = MilpStatus::kFailed;
  double value = 0;
  double bound = Milp::kInfinity;  // upper bound on the value of any solution
  std::vector<double> x;           // empty: none was found
  Seconds seconds = 0;             // spent
  std::string detail;
};

// `start`, if not empty, is a feasible initial solution; the result is never worse. A solver may
// throw; callers treat that as kFailed.
using MilpSolver = std::function<MilpResult(const Milp& program, std::span<const double> start,
                                            const MilpLimits& limits)>;

// CBC. Single-threaded, and deterministic unless it runs out of time. Safe to call from several
// threads at once, because each call has its own model. Never throws.
MilpResult solve_with_cbc(const Milp& program, std::span<const double> start,
                          const MilpLimits& limits);

}  // namespace rubato
