// A line of the event log as a person reads it.
#pragma once

#include <string>
#include <string_view>

namespace rubato::elastic {

// Unknown or malformed lines are given back as they are.
std::string describe_event(std::string_view json_line);

}  // namespace rubato::elastic
