// Names of jobs and tenants, in workloads and in the live system.
#pragma once

#include <string_view>

namespace rubato {

// What is wrong with the name of a job or tenant; empty: nothing. Names appear in CSV and JSON
// reports and on terminals, so only plain names are accepted.
std::string_view name_problem(std::string_view name);

}  // namespace rubato
