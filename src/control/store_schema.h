// The tables of the store, and how an older database becomes one of today.
#pragma once

#include <cstdint>
#include <string>

#include "control/sqlite.h"

namespace rubato::control {

// Grows by one with every entry of the migrations in the source.
std::int64_t current_schema_version();

// 0 for an empty database. An error for one that is not ours or newer than this program.
Result<std::int64_t> schema_version(Database& database, const std::string& path);

// Brings an empty or older database to the current version, in one transaction.
Status migrate(Database& database, std::int64_t from);

}  // namespace rubato::control
