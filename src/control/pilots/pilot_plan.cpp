#include "control/pilots/pilot_plan.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace rubato::control {

namespace {

bool lasts(const PilotRules& rules, const Pilot& pilot) {
  if (pilot.leaves) return false;
  return !pilot.runs || !pilot.left || *pilot.left > rules.successor;
}

}  // namespace

int wanted_pilots(const PilotRules& rules, int devices) {
  const int each = std::max(1, rules.devices);
  const int enough = devices / each + (devices % each > 0 ? 1 : 0);
  return std::clamp(enough, rules.least, rules.most);
}

int lasting_pilots(const PilotRules& rules, const std::vector<Pilot>& pilots) {
  return static_cast<int>(std::count_if(pilots.begin(), pilots.end(),
                                        [&](const Pilot& pilot) { return lasts(rules, pilot); }));
}

Seconds staggered_stay(Seconds most, int k, int count) {
  return most * (1 - 0.5 * k / std::max(1, count));
}

PilotPlan plan_pilots(const PilotRules& rules, int devices, const std::vector<Pilot>& pilots,
                      bool shrinks) {
  PilotPlan plan;
  const int wanted = wanted_pilots(rules, devices);
  int there = lasting_pilots(rules, pilots);
  plan.submit = std::max(0, wanted - there);
  if (!shrinks) return plan;
  // Those that wait go first, then those without jobs, then those that end soonest.
  std::vector<const Pilot*> order;
  for (const Pilot& pilot : pilots) {
    if (lasts(rules, pilot)) order.push_back(&pilot);
  }
  const auto rank = [](const Pilot* pilot) {
    return std::tuple(pilot->runs, pilot->jobs,
                      pilot->left.value_or(std::numeric_limits<Seconds>::infinity()));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Pilot* a, const Pilot* b) { return rank(a) < rank(b); });
  for (const Pilot* pilot : order) {
    if (there-- <= wanted) break;
    (pilot->runs ? plan.leave : plan.cancel).push_back(pilot->id);
  }
  return plan;
}

}  // namespace rubato::control
