// The policy table as JSON, for the API and `rubato policies --json`.
#pragma once

#include <nlohmann/json.hpp>

namespace rubato::api {

// [{name, summary, source, needs, params: [{name, default, allowed, help}]}]
nlohmann::ordered_json policy_list();

}  // namespace rubato::api
