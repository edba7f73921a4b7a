// Compares Elastic Tiresias (the scheduling policy of EDL) with Tiresias on the Pollux workloads,
// as a Markdown section. Part of `make bench-papers`. Deterministic.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

constexpr std::array<const char*, 4> kLoads{"0.5", "1.0", "1.5", "2.0"};
constexpr int kWorkloads = 6;

// Both policies on the workloads of one load: tiresias, elastic-tiresias, tiresias, ...
std::vector<SimResult> measure(const std::string& data, const char* load, const char* placement,
                               const ResizeModel& resize) {
  const Cluster cluster = or_die(Cluster::parse("16x4"));
  const Applications applications = or_die(read_profiles(data + "/pollux/profiles", cluster));
  RunMatrix matrix;
  const Seconds cost = resize.stop_free_s.value_or(resize.stop_s);
  matrix.policies = {
      {.info = or_die(find_policy("tiresias")), .settings = {{"placement", placement}}},
      {.info = or_die(find_policy("elastic-tiresias")),
       .settings = {{"resize_cost", fmt::format("{}", cost)}}}};
  matrix.seeds = {1};
  matrix.threads = hardware_threads();
  matrix.options.round_s = 60;
  matrix.options.resize = resize;
  matrix.quirks.assign(kWorkloads, {.whole_second_epochs = true, .whole_epoch_remaining = true});
  for (int i = 1; i <= kWorkloads; ++i) {
    matrix.workloads.push_back(
        or_die(read_workload(fmt::format("{}/pollux/workloads-{}/workload-{}.csv", data, load, i),
                             cluster, applications, {.format = WorkloadFormat::kPollux})));
  }
  return or_die(run_matrix(cluster, matrix, {}));
}

// Prints a table. Returns the number of workloads on which elastic-tiresias has the lower mean.
int print(const std::string& data, const char* placement, const ResizeModel& resize) {
  fmt::print(
      "| load | workload | tiresias s | elastic-tiresias s | ratio | p99 ratio | resizes |\n"
      "|---|---|---|---|---|---|---|\n");
  int won = 0;
  for (const char* load : kLoads) {
    const std::vector<SimResult> runs = measure(data, load, placement, resize);
    double plain_sum = 0;
    double elastic_sum = 0;
    for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
      const SimSummary& plain = runs[i].summary;
      const SimSummary& elastic = runs[i + 1].summary;
      plain_sum += plain.mean_jct_s;
      elastic_sum += elastic.mean_jct_s;
      won += elastic.mean_jct_s < plain.mean_jct_s ? 1 : 0;
      fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} | {} -> {} |\n", load,
                 plain.workload, plain.mean_jct_s, elastic.mean_jct_s,
                 elastic.mean_jct_s / plain.mean_jct_s, elastic.p99_jct_s / plain.p99_jct_s,
                 plain.resizes, elastic.resizes);
    }
    fmt::print("| {} | mean | {:.0f} | {:.0f} | {:.3f} | | |\n", load, plain_sum / kWorkloads,
               elastic_sum / kWorkloads, elastic_sum / plain_sum);
  }
  fmt::print("\n");
  return won;
}

void report(const char* heading, const std::string& data, const char* placement,
            const ResizeModel& resize) {
  constexpr auto kAll = static_cast<int>(kLoads.size()) * kWorkloads;
  fmt::print("### {}\n\n", heading);
  const int won = print(data, placement, resize);
  fmt::print("Lower than tiresias on {} of {} workloads: {}.\n\n", won, kAll,
             won == kAll ? "holds" : "does not hold everywhere");
}

int run() {
  const std::string data = recorded_data();
  fmt::print("## Elastic Tiresias (section 2, EDL)\n\n");
  need_recorded_data(data + "/pollux");
  fmt::print(
      "Claim: resizing jobs (compaction if more than 10 wait, expansion into idle devices) lowers "
      "the mean completion time of Tiresias.\n\nScenario: Pollux workloads 1-6 at four loads (80 "
      "to 320 jobs over 8 h), 16x4 devices, 60 s rounds, the same queues for both. Command: "
      "`build/bin/paper_elastic_tiresias`, seed 1.\n\n");
  report(
      "Mean completion time, 30 s for every start and resize; tiresias as in the Pollux artifact",
      data, "most-free", {.stop_s = 30});
  report("The same; tiresias with best-fit placement", data, "best-fit", {.stop_s = 30});
  report("Stop-free resizes (1 s, as in EDL), starts 30 s; tiresias as in the Pollux artifact",
         data, "most-free", {.stop_s = 30, .stop_free_s = 1});
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
