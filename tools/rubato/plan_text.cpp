#include "plan_text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

// "in 5m00s"; otherwise how far the plan looked.
std::string when(const json& plan, const char* name) {
  if (const json at = plan.value(name, json()); at.is_number()) {
    return "in " + duration_text(at.get<double>());
  }
  if (const json looked = plan.value("horizon_s", json()); looked.is_number()) {
    return fmt::format("later than in {}, which is how far the plan looked ahead",
                       duration_text(looked.get<double>()));
  }
  return "at a time that cannot be predicted";
}

}  // namespace

std::string plan_text(const json& plan) {
  std::string text;
  if (plan.value("placed", false)) {
    const json nodes = plan.value("nodes", json::array());
    text += fmt::format("would start now on {}{}\n", counted(plan.value("devices", 0), "device"),
                        nodes.size() > 1 ? ", on " + nodes_text(nodes) : "");
  } else {
    text += fmt::format("cannot be placed now ({}: {})\nwould start {}\n", plan.value("reason", ""),
                        plan.value("text", ""), when(plan, "start_in_s"));
  }
  text += fmt::format("would end {}{}\n", when(plan, "eta_s"),
                      plan.value("guessed", false) && plan.value("eta_s", json()).is_number()
                          ? " (a guess, because its length is unknown)"
                          : "");
  for (const json& change : plan.value("changes", json::array())) {
    text += fmt::format("{} would go from {} to {} ({})\n", change.value("job", ""),
                        change.value("from", 0), counted(change.value("to", 0), "device"),
                        change.value("reason", ""));
  }
  const json others = plan.value("others", json::object());
  if (const int changed = others.value("changed", 0); changed > 0) {
    const int given = -others.value("devices", 0);
    text +=
        fmt::format("{} of other tenants would change ({} {} in total)\n", counted(changed, "job"),
                    given >= 0 ? "losing" : "gaining", counted(std::abs(given), "device"));
  }
  return text;
}

}  // namespace rubato::cli
