// What `rubato plan` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rubato::cli {

// The daemon's plan in sentences, one per line.
std::string plan_text(const nlohmann::json& plan);

}  // namespace rubato::cli
