// The same problem as solve/allocate.h as a mixed-integer program, solved by CBC or GLPK.
#pragma once

#include <coin/Cbc_C_Interface.h>
#include <glpk.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "solve/allocate.h"

namespace rubato {

// What a solver chose: valid if every table has a choice and the sizes fit. The value is the sum of
// the chosen values, not what the solver reports, which its tolerances blur.
struct MipDivision {
  bool valid = false;
  double value = 0;
};

// One variable per choice; rows: one choice per table, and the capacity.
struct KnapsackModel {
  KnapsackModel(std::span<const std::vector<Choice>> tables, int units) : capacity(units) {
    for (std::size_t j = 0; j < tables.size(); ++j) {
      for (const Choice& choice : tables[j]) {
        choices.push_back(choice);
        table.push_back(static_cast<int>(j));
      }
    }
    jobs = static_cast<int>(tables.size());
  }

  template <typename IsChosen>
  MipDivision read(IsChosen is_chosen) const {
    MipDivision division;
    std::vector<int> count(static_cast<std::size_t>(jobs));
    long long size = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (!is_chosen(static_cast<int>(i))) continue;
      ++count[static_cast<std::size_t>(table[i])];
      size += choices[i].size;
      division.value += choices[i].value;
    }
    division.valid = size <= capacity;
    for (const int c : count) division.valid = division.valid && c == 1;
    return division;
  }

  int jobs = 0;
  int capacity = 0;
  std::vector<Choice> choices;
  std::vector<int> table;  // of each choice
};

// Both give up (not valid) after `limit_s`.
inline MipDivision solve_with_cbc(std::span<const std::vector<Choice>> tables, int capacity,
                                  double limit_s) {
  const KnapsackModel model(tables, capacity);
  const std::size_t columns = model.choices.size();
  std::vector<CoinBigIndex> start;
  std::vector<int> row;
  std::vector<double> coefficient;
  std::vector<double> objective;
  for (std::size_t i = 0; i < columns; ++i) {
    start.push_back(static_cast<CoinBigIndex>(row.size()));
    row.insert(row.end(), {model.table[i], model.jobs});
    coefficient.insert(coefficient.end(), {1.0, static_cast<double>(model.choices[i].size)});
    objective.push_back(model.choices[i].value);
  }
  start.push_back(static_cast<CoinBigIndex>(row.size()));
  const std::vector<double> column_low(columns, 0.0);
  const std::vector<double> column_high(columns, 1.0);
  std::vector<double> row_low(tables.size(), 1.0);
  std::vector<double> row_high(tables.size(), 1.0);
  row_low.push_back(-std::numeric_limits<double>::max());
  row_high.push_back(capacity);

  Cbc_Model* cbc = Cbc_newModel();
  Cbc_setParameter(cbc, "log", "0");
  Cbc_setParameter(cbc, "ratioGap", "0");
  Cbc_setParameter(cbc, "allowableGap", "0");
  Cbc_setParameter(cbc, "sec", std::to_string(limit_s).c_str());
  Cbc_loadProblem(cbc, static_cast<int>(columns), model.jobs + 1, start.data(), row.data(),
                  coefficient.data(), column_low.data(), column_high.data(), objective.data(),
                  row_low.data(), row_high.data());
  for (std::size_t i = 0; i < columns; ++i) Cbc_setInteger(cbc, static_cast<int>(i));
  Cbc_setObjSense(cbc, -1);
  Cbc_solve(cbc);
  MipDivision division;
  if (Cbc_isProvenOptimal(cbc) != 0) {
    const double* solution = Cbc_getColSolution(cbc);
    division = model.read([solution](int i) { return solution[i] > 0.5; });
  }
  Cbc_deleteModel(cbc);
  return division;
}

inline MipDivision solve_with_glpk(std::span<const std::vector<Choice>> tables, int capacity,
                                   double limit_s) {
  const KnapsackModel model(tables, capacity);
  glp_term_out(GLP_OFF);
  glp_prob* glpk = glp_create_prob();
  glp_set_obj_dir(glpk, GLP_MAX);
  glp_add_rows(glpk, model.jobs + 1);
  for (int j = 1; j <= model.jobs; ++j) glp_set_row_bnds(glpk, j, GLP_FX, 1, 1);
  glp_set_row_bnds(glpk, model.jobs + 1, GLP_UP, 0, capacity);
  glp_add_cols(glpk, static_cast<int>(model.choices.size()));
  for (std::size_t i = 0; i < model.choices.size(); ++i) {
    const int column = static_cast<int>(i) + 1;
    glp_set_col_kind(glpk, column, GLP_BV);
    glp_set_obj_coef(glpk, column, model.choices[i].value);
    const int rows[] = {0, model.table[i] + 1, model.jobs + 1};
    const double coefficients[] = {0, 1, static_cast<double>(model.choices[i].size)};
    glp_set_mat_col(glpk, column, 2, rows, coefficients);
  }
  glp_iocp options;
  glp_init_iocp(&options);
  options.presolve = GLP_ON;
  options.msg_lev = GLP_MSG_OFF;
  options.tm_lim = static_cast<int>(limit_s * 1e3);
  MipDivision division;
  if (glp_intopt(glpk, &options) == 0 && glp_mip_status(glpk) == GLP_OPT) {
    division = model.read([glpk](int i) { return glp_mip_col_val(glpk, i + 1) > 0.5; });
  }
  glp_delete_prob(glpk);
  return division;
}

}  // namespace rubato
