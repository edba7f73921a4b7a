#include "sched/sizes.h"

#include <algorithm>
#include <bit>

namespace rubato {

namespace {

// Takes devices away.
void shrink(Grant& grant, int to, const Cluster& cluster) {
  int surplus = grant.devices.total() - to;
  if (grant.nodes) {
    for (auto share = grant.nodes->rbegin(); share != grant.nodes->rend() && surplus > 0; ++share) {
      const int less = std::min(surplus, share->devices);
      share->devices -= less;
      grant.devices[cluster.node(share->node).type] -= less;
      surplus -= less;
    }
    std::erase_if(*grant.nodes, [](const NodeShare& share) { return share.devices == 0; });
    return;
  }
  for (int& count : grant.devices.of) {
    const int less = std::min(surplus, count);
    count -= less;
    surplus -= less;
  }
}

}  // namespace

void keep_to_sizes(Plan& plan, const PolicyInput& input) {
  for (std::size_t i = 0; i < plan.grants.size() && i < input.jobs.size(); ++i) {
    const JobSpec& spec = input.jobs[i]->spec;
    Grant& grant = plan.grants[i];
    const int granted = grant.devices.total();
    if (!spec.power_of_two_sizes || spec.mode == ElasticMode::kRigid || granted < 1) continue;
    const auto size = static_cast<int>(std::bit_floor(static_cast<unsigned>(granted)));
    // A grant outside of the range is a fault, which must stay visible.
    if (size == granted || size < spec.min_devices || granted > spec.max_devices) continue;
    shrink(grant, size, input.cluster);
    grant.cut_to_size = true;
  }
}

}  // namespace rubato
