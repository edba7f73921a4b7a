// Compares published mean JCTs of the Pollux artifact with ours: 16x4 devices, 60 s rounds, 30 s
// per resize, workloads 1-6 at four loads. `make bench-fidelity` exits with 1 if a bound is broken
// (1 % per workload for the deterministic policies, 5 % per load for pollux).
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/parallel.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

constexpr std::array<const char*, 4> kLoads{"0.5", "1.0", "1.5", "2.0"};
constexpr int kWorkloads = 6;

struct Row {
  double published = 0;
  double ours = 0;
  double off() const { return ours / published - 1; }
};

using Key = std::tuple<std::string, std::string, std::string>;  // policy, load, workload

std::map<Key, double> read_published(const std::string& data) {
  const auto table = or_die(CsvTable::read(data + "/pollux/published_mean_jct.csv",
                                           {"policy", "load", "workload", "mean_jct_s"}));
  std::map<Key, double> published;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto cell = [&](const char* name) {
      return std::string(table.cell(row, table.column(name)));
    };
    published[{cell("policy"), cell("load"), cell("workload")}] =
        or_die(table.number(row, table.column("mean_jct_s"), {0, 1e9}));
  }
  return published;
}

int run() {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  const auto published = read_published(data);
  const Cluster cluster = or_die(Cluster::parse("16x4"));
  const Applications applications = or_die(read_profiles(data + "/pollux/profiles", cluster));
  RunMatrix matrix;
  for (const char* policy : {"tiresias", "optimus", "pollux"}) {
    matrix.policies.push_back({.info = or_die(find_policy(policy)), .settings = {}});
  }
  matrix.seeds = {1};
  matrix.threads = hardware_threads();
  matrix.options.round_s = 60;
  matrix.options.resize.stop_s = 30;

  bool kept = true;
  fmt::print("{:<10} {:<5} {:<11} {:>11} {:>11} {:>9}\n", "policy", "load", "workload",
             "published s", "ours s", "off");
  for (const char* load : kLoads) {
    matrix.workloads.clear();
    matrix.quirks.assign(kWorkloads, {.whole_second_epochs = true, .whole_epoch_remaining = true});
    for (int i = 1; i <= kWorkloads; ++i) {
      const std::string path = fmt::format("{}/pollux/workloads-{}/workload-{}.csv", data, load, i);
      matrix.workloads.push_back(
          or_die(read_workload(path, cluster, applications, {.format = WorkloadFormat::kPollux})));
    }
    const auto runs = or_die(run_matrix(cluster, matrix, {}));
    for (const PolicyChoice& policy : matrix.policies) {
      Row mean;
      for (const SimResult& run : runs) {
        if (run.summary.policy != policy.info->name) continue;
        const Row row{published.at({run.summary.policy, load, run.summary.workload}),
                      run.summary.mean_jct_s};
        mean.published += row.published / kWorkloads;
        mean.ours += row.ours / kWorkloads;
        if (run.summary.policy != "pollux") kept = kept && std::abs(row.off()) <= 0.01;
        fmt::print("{:<10} {:<5} {:<11} {:>11.1f} {:>11.1f} {:>+8.2f} %\n", run.summary.policy,
                   load, run.summary.workload, row.published, row.ours, row.off() * 100);
      }
      fmt::print("{:<10} {:<5} {:<11} {:>11.1f} {:>11.1f} {:>+8.2f} %\n\n", policy.info->name, load,
                 "mean", mean.published, mean.ours, mean.off() * 100);
      kept = kept && std::abs(mean.off()) <= (policy.info->name == "pollux" ? 0.05 : 0.01);
    }
  }
  fmt::print("{}\n",
             kept ? "all within bounds: 1 % per workload (tiresias, optimus), 5 % per load (pollux)"
                  : "A BOUND IS BROKEN");
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
