// The environment variables that affect the bits of a training step. Libraries read them while they
// load, so they must be set before the program starts. A launcher sets them for its workers; a
// program started by hand executes itself again with them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

enum class Consistency {
  kD1,  // as fast as the machine allows; workers must have equal fingerprints
  kD2,  // common subset of 64-bit x86 processors: different ones give the same bits
};
Result<Consistency> parse_consistency(const std::string& text);  // "d1", "d2"

// Names and values. D2 forces one instruction-set level on ATen, oneDNN, OpenBLAS, MKL and the C
// library's math functions.
std::vector<std::pair<std::string, std::string>> pinned_variables(Consistency consistency);

// Returns if all pinned variables have their values. Otherwise sets them and executes the program
// again with the same arguments; returns an error if that fails. `argv` must end with a null
// pointer, as in main.
Status pin_environment(char** argv, Consistency consistency);

}  // namespace rubato::elastic
