// Whether the file of a store is sound, and whether its tables say what its log says.
#pragma once

#include <string>

#include "control/sqlite.h"
#include "control/store.h"

namespace rubato::control {

// Detects damage before anything is written. Reads a small file as a whole, of a large one only the
// tables that have the state without jobs at rest; `whole` reads everything.
Status check_soundness(Database& database, const std::string& path, bool whole = false);

// See Store::check. The tables must have the current schema.
Result<CheckedLog> check_log(const std::string& path);

}  // namespace rubato::control
