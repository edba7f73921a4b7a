// A line of the event log in human-readable form.
#pragma once

#include <string>
#include <string_view>

namespace rubato::elastic {

// Returns unknown or malformed lines unchanged.
std::string describe_event(std::string_view json_line);

}  // namespace rubato::elastic
