// The order in which the notices of one turn are recorded.
//
// Events of jobs come first, because nobody reads a job's lines again once it holds nothing. Of
// what a job holds only the newest counts: it is told as a whole. Devices are given back before
// another job takes them: if no node had more devices held than it has before, and none has after,
// then no event in between says so. A job that gives devices back on one node and takes others does
// both apart.
#pragma once

#include <vector>

#include "control/job_executor.h"
#include "control/state.h"

namespace rubato::control {

std::vector<Notice> in_recorded_order(std::vector<Notice> notices, const State& state);

}  // namespace rubato::control
