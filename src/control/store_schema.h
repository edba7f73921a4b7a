// The tables of the store and the migration of older databases.
#pragma once

#include <cstdint>
#include <string>

#include "control/sqlite.h"

namespace rubato::control {

// Increases by one with every migration in the source.
std::int64_t current_schema_version();

// 0 for an empty database. An error for a database that is not ours or is newer than this program.
Result<std::int64_t> schema_version(Database& database, const std::string& path);

// Migrates an empty or older database to the current version, in one transaction.
Status migrate(Database& database, std::int64_t from);

}  // namespace rubato::control
