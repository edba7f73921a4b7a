// The tables of a SeriesStore. A file of an earlier version is brought up to date; one that is
// damaged, or of another version, is begun anew.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/sqlite.h"

namespace rubato::control {

Result<Database> open_series_tables(const std::string& path);

// Columns such as kSeriesColumns in a form such as "{name} REAL", joined by commas.
std::string columns_with(std::span<const std::string_view> columns, std::string_view form);

}  // namespace rubato::control
