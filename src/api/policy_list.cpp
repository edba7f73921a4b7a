#include "api/policy_list.h"

#include "sched/policy.h"

namespace rubato::api {

nlohmann::ordered_json policy_list() {
  nlohmann::ordered_json policies = nlohmann::ordered_json::array();
  for (const PolicyInfo& info : policy_table()) {
    nlohmann::ordered_json params = nlohmann::ordered_json::array();
    for (const ParamSpec& param : info.params) {
      params.push_back({{"name", param.name},
                        {"default", to_string(param.default_value)},
                        {"allowed", allowed_values(param)},
                        {"help", param.help}});
    }
    nlohmann::ordered_json needs = nlohmann::ordered_json::array();
    for (const Knowledge knowledge : info.needs) needs.push_back(to_string(knowledge));
    policies.push_back({{"name", info.name},
                        {"summary", info.summary},
                        {"source", info.source},
                        {"needs", needs},
                        {"params", params}});
  }
  return policies;
}

}  // namespace rubato::api
