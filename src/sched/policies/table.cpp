#include "sched/policies/policies.h"

namespace rubato {

const std::vector<PolicyInfo>& policy_table() {
  // One line per policy.
  // clang-format off
  static const std::vector<PolicyInfo> table{
      fifo_policy(),
      fifo_backfill_policy(),
      srtf_policy(),
      srsf_policy(),
      tiresias_policy(),
      gittins_policy(),
      optimus_policy(),
      afs_policy(),
      pollux_policy(),
      elastic_dp_policy(),
      fixed_batch_policy(),
      elastic_tiresias_policy(),
      ones_policy(),
      mip_policy(),
      greedy_policy(),
      easyscale_policy(),
      yarn_cs_policy(),
      sia_policy(),
      rubato_policy(),
  };
  // clang-format on
  return table;
}

ParamSpec placement_param(PlacementRule default_rule) {
  return {.name = "placement",
          .default_value =
              std::string(default_rule == PlacementRule::kBestFit ? "best-fit" : "most-free"),
          .choices = {"best-fit", "most-free"},
          .help = "how nodes are chosen: the fullest that fits, or always the emptiest"};
}

PlacementRule placement_rule(const Params& params) {
  return params.choice("placement") == "best-fit" ? PlacementRule::kBestFit
                                                  : PlacementRule::kMostFree;
}

}  // namespace rubato
