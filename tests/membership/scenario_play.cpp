// Whether a scenario happens as it says.
#include <fmt/format.h>

#include "membership/scenario.h"

namespace rubato::elastic::membership::sim {

std::string play(const Scenario& scenario) {
  const Expectation& expected = scenario.expected;
  World world(scenario.schedule);
  std::vector<std::string> trace;
  if (!expected.trace.empty()) world.trace_to(&trace);
  const Outcome outcome = world.run(!expected.trace.empty());
  const auto differs = [](const std::string& what, const auto& wanted, const auto& is) {
    if (!wanted || *wanted == is) return std::string();
    return fmt::format("{}: expected {}, not {}", what, *wanted, is);
  };
  const bool as_expected = expected.violation
                               ? outcome.violation.find(*expected.violation) != std::string::npos
                               : outcome.violation.empty();
  if (!as_expected) {
    return fmt::format("violation: expected '{}', not '{}'", expected.violation.value_or(""),
                       outcome.violation);
  }
  for (const std::string& difference : {differs("views", expected.views, outcome.views),
                                        differs("processes", expected.processes, outcome.processes),
                                        differs("repeated", expected.repeated, outcome.repeated),
                                        differs("causes", expected.causes, outcome.causes),
                                        differs("members", expected.members, outcome.members)}) {
    if (!difference.empty()) return difference;
  }
  auto at = trace.begin();
  for (const std::string& line : expected.trace) {
    while (at != trace.end() && at->find(line) == std::string::npos) ++at;
    if (at == trace.end()) return fmt::format("trace: '{}' is not in it, or too early", line);
    ++at;
  }
  return "";
}

}  // namespace rubato::elastic::membership::sim
