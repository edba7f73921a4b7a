// Where recorded workloads and profiles of other groups lie, when they are on this machine (they
// are not part of the project): the folder named by RUBATO_DATA, else shared/data beside the source
// tree.
#pragma once

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "test_paths.h"

namespace rubato {

inline std::string recorded_data() {
  const char* named = std::getenv("RUBATO_DATA");
  return named != nullptr ? named : test_paths::in_source_tree("../shared/data");
}

inline bool have_recorded_data() { return is_directory(recorded_data() + "/pollux"); }

}  // namespace rubato
