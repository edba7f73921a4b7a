// Every policy on every recorded workload set (`make bench-policies`): mean and p99 completion
// times, each as a ratio to pollux in the same run. Sets: the Pollux workloads 1-6 at four loads
// with 30 s and with 1 s per change, and the first Sia workload on three device types. Arguments:
// names of policies (default: all).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/parallel.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

struct WorkloadSet {
  std::string name;
  std::string cluster;
  std::vector<std::string> files;
  std::string profiles;
  WorkloadFormat format;
  Seconds resize_cost_s;
};

std::vector<WorkloadSet> workload_sets(const std::string& data) {
  std::vector<WorkloadSet> sets;
  for (const double cost : {30.0, 1.0}) {
    for (const char* load : {"0.5", "1.0", "1.5", "2.0"}) {
      WorkloadSet set{
          .name = fmt::format("Pollux workloads 1-6, load {}, {} s per change", load, cost),
          .cluster = "16x4",
          .files = {},
          .profiles = data + "/pollux/profiles",
          .format = WorkloadFormat::kPollux,
          .resize_cost_s = cost};
      for (int i = 1; i <= 6; ++i) {
        set.files.push_back(fmt::format("{}/pollux/workloads-{}/workload-{}.csv", data, load, i));
      }
      sets.push_back(std::move(set));
    }
  }
  sets.push_back({.name = "Sia workload 1, 6x4:t4,3x8:rtx,2x8:a100, 30 s per change",
                  .cluster = "6x4:t4,3x8:rtx,2x8:a100",
                  .files = {data + "/sia/workloads/workload-1.csv"},
                  .profiles = data + "/sia/profiles",
                  .format = WorkloadFormat::kSia,
                  .resize_cost_s = 30});
  return sets;
}

struct Line {
  double mean = 0, p99 = 0, queue = 0, resizes = 0, decision_ms = 0;
};

void run_set(const WorkloadSet& set, const std::vector<PolicyChoice>& policies) {
  const Cluster cluster = or_die(Cluster::parse(set.cluster));
  const Applications applications = or_die(read_profiles(set.profiles, cluster));
  RunMatrix matrix;
  matrix.policies = policies;
  matrix.seeds = {1};
  matrix.threads = hardware_threads();
  matrix.options.round_s = 60;
  matrix.options.resize.stop_s = set.resize_cost_s;
  const bool artifact = set.format == WorkloadFormat::kPollux;
  for (const std::string& file : set.files) {
    matrix.workloads.push_back(
        or_die(read_workload(file, cluster, applications, {.format = set.format})));
    matrix.quirks.push_back({.whole_second_epochs = artifact, .whole_epoch_remaining = artifact});
  }
  const auto runs = or_die(run_matrix(cluster, matrix, {}));
  std::vector<Line> lines(policies.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Line& line = lines[i % policies.size()];
    const SimSummary& s = runs[i].summary;
    const auto share = 1.0 / static_cast<double>(set.files.size());
    line.mean += s.mean_jct_s * share;
    line.p99 += s.p99_jct_s * share;
    line.queue += s.mean_queue_s * share;
    line.resizes += static_cast<double>(s.resizes) * share;
    line.decision_ms += s.decisions.total_ms_mean * share;
  }
  const auto reference = std::find_if(policies.begin(), policies.end(), [](const PolicyChoice& p) {
    return p.info->name == "pollux";
  });
  const Line& base =
      lines[reference == policies.end() ? 0
                                        : static_cast<std::size_t>(reference - policies.begin())];
  fmt::print("\n{}\n{:<18} {:>10} {:>8} {:>10} {:>8} {:>9} {:>9} {:>12}\n", set.name, "policy",
             "mean JCT s", "ratio", "p99 JCT s", "ratio", "queue s", "resizes", "decision ms");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const Line& line = lines[i];
    fmt::print("{:<18} {:>10.0f} {:>7.2f}x {:>10.0f} {:>7.2f}x {:>9.0f} {:>9.0f} {:>12.3f}\n",
               policies[i].info->name, line.mean, line.mean / base.mean, line.p99,
               line.p99 / base.p99, line.queue, line.resizes, line.decision_ms);
  }
}

int run(int argc, char** argv) {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  std::vector<PolicyChoice> policies;
  for (int i = 1; i < argc; ++i) {
    policies.push_back({.info = or_die(find_policy(argv[i])), .settings = {}});
  }
  if (policies.empty()) {
    for (const PolicyInfo& info : policy_table()) {
      // A program over several periods at every round takes hours here: its exact one-period form.
      const Settings settings = info.name == "mip" ? Settings{{"periods", "1"}} : Settings{};
      policies.push_back({.info = &info, .settings = settings});
    }
  }
  fmt::print("Ratios are to pollux in the same run. mip plans one period here.\n");
  for (const WorkloadSet& set : workload_sets(data)) {
    run_set(set, policies);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
