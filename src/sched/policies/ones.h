// ONES as a class, for programs that inspect its search. ones.cpp describes the policy.
#pragma once

#include <functional>
#include <memory>

#include "sched/policies/ones_search.h"
#include "sched/policy.h"

namespace rubato {

// The registered parameters, under the same names.
struct OnesParams {
  OnesOptions search;
  bool by_rate = true;  // score
  double exponent = 0.35;
  double waiting = 1;
  Seconds pause_s = 1;
  Seconds restart_s = 30;
  Seconds long_run_s = 7200;
  Seconds interval_s = 30;
  // Called with every problem before it is searched; may be empty.
  std::function<void(const OnesProblem&)> on_problem{};
};

std::unique_ptr<Policy> make_ones(const OnesParams& params, Random random);

}  // namespace rubato
