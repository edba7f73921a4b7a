// The environment variables that decide the bits of a training step and are read by libraries
// while they load: they must be right before the program starts. A launcher sets them for its
// workers; a program started by hand executes itself anew with them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

enum class Consistency {
  kD1,  // as fast as the machine can; workers must have equal fingerprints
  kD2,  // the common denominator of 64-bit x86 processors: unlike workers give the same bits
};
Result<Consistency> parse_consistency(const std::string& text);  // "d1", "d2"

// Name and value. D2 forces one instruction-set level on ATen, oneDNN, OpenBLAS, MKL and the C
// library's mathematical functions.
std::vector<std::pair<std::string, std::string>> pinned_variables(Consistency consistency);

// Returns when all pinned variables have their values. Otherwise sets them and executes the
// program anew with the same arguments; returns an error when that is not possible. `argv` ends
// with a null pointer, as main's does.
Status pin_environment(char** argv, Consistency consistency);

}  // namespace rubato::elastic
