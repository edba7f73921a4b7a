// Defaults for the command line of a training program.
#pragma once

#include <cstdint>
#include <string>

namespace rubato {

struct JobDefaults {
  std::string name = "train";
  std::int64_t epochs = 1;
  std::int64_t steps = -1;  // -1: as many steps as the epochs have
  std::int64_t batch = 32;  // samples per logical worker and step
  std::uint64_t seed = 1;
  // Logical workers, each with its own share of a step: they decide the result, and a job can use
  // at most as many devices.
  int logical = 4;
};

}  // namespace rubato
