// The state of a store with the jobs at rest, which are only in its tables: what a replay of the
// whole log gives.
#pragma once

#include <gtest/gtest.h>

#include "control/store.h"

namespace rubato::control {

inline State whole_state(const Store& store) {
  State state = store.state();
  auto rows = store.jobs().list({.limit = 1'000'000});
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  for (JobRecord& job : *rows) {
    const auto number = job.number;
    state.jobs.try_emplace(number, std::move(job));
  }
  return state;
}

}  // namespace rubato::control
