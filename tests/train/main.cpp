// The tests compare bits, so they run in the same pinned environment as jobs.
#include <gtest/gtest.h>

#include <cstdio>

#include "elastic/worker/pinned_environment.h"

int main(int argc, char** argv) {
  const auto pinned = rubato::elastic::pin_environment(argv, rubato::elastic::Consistency::kD1);
  if (!pinned) {
    std::fprintf(stderr, "%s\n", pinned.error().message.c_str());
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
