// What the benchmarks share: where recorded data is, and how to load it.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "sim/simulator.h"

namespace rubato::bench {

// The folder named by RUBATO_DATA, otherwise shared/data beside the current directory.
inline std::string recorded_data() {
  const char* named = std::getenv("RUBATO_DATA");
  return named != nullptr ? named : "../shared/data";
}

// Ends the program with a visible message if the data is missing: it is not part of the project.
inline void need_recorded_data(const std::string& path) {
  if (is_directory(path) || is_file(path)) return;
  fmt::print("skipped: {} not found (set RUBATO_DATA to the folder with recorded workloads)\n",
             path);
  std::exit(0);
}

template <typename T>
T or_die(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(1);
}

}  // namespace rubato::bench
