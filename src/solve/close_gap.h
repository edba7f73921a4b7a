// The dynamic program of allocate.cpp: which moves away from a base fill a gap at the least loss.
//
// A set of moves, at most one per row, whose deltas sum to d <= gap costs
//   T = sum of the losses + price * (gap - d).
// All losses are non-negative, so T < incumbent requires every loss < incumbent. Rows are processed
// in order of their least loss per unit moved. best[d] is the least loss of moves in the rows so
// far whose deltas sum to d. After each row:
//  - Skipping all later rows gives complete sets. The best of them may become the incumbent.
//  - A state D units below the gap costs at least D * min(price, a) to complete, where a is the
//    least loss per unit of the later upward moves (each unit is filled at a or more, or stays
//    unused at `price`; downward moves only add). A state D units above the gap costs at least
//    D * b, where b is the least loss per unit of the later downward moves, and it must not be
//    further above than these moves can reach. States that cannot stay below the incumbent are
//    dropped. The window around the gap narrows as rows become more expensive and incumbents
//    better.
//  - If the row changed nothing, later rows with the same moves (or more expensive ones) will not
//    either, until some other row changes a state. They are skipped. Jobs with equal tables produce
//    many such rows.
// When no state is left, or no later row has a move below the incumbent, the incumbent is optimal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "solve/relax_row.h"

namespace rubato {

struct GapProblem {
  struct Row {
    int job = 0;
    std::size_t begin = 0, end = 0;  // its moves; no delta is 0
  };
  std::int64_t gap = 0;  // at least 0
  double price = 0;      // of a unit that stays unused; positive
  double incumbent = 0;  // T of a known set
  double enough = 0;     // a T that counts as 0
  std::vector<Move> moves;
  std::vector<Row> rows;
};

struct GapSolution {
  struct Taken {
    int job = 0;
    std::size_t move = 0;
  };
  bool improved = false;     // false: nothing is below the incumbent
  double loss = 0;           // the least T
  std::vector<Taken> taken;  // if improved
  int rows = 0;              // processed
  std::int64_t cells = 0;    // states x moves
};

GapSolution close_gap(GapProblem problem);

}  // namespace rubato
