// Every policy on every recorded workload set (`make bench-policies`): mean and p99 completion
// times, each as a ratio to pollux in the same run. Sets: the Pollux workloads 1-6 at four loads
// with 30 s and with 1 s per change, and each Sia workload on three device types, where ratios to
// sia are printed too. Arguments: names of policies (default: all); `--only TEXT` leaves out the
// sets whose names do not contain this text.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

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
  for (int i = 1;; ++i) {
    const std::string file = fmt::format("{}/sia/workloads/workload-{}.csv", data, i);
    if (!is_file(file)) break;
    sets.push_back(
        {.name = fmt::format("Sia workload {}, 6x4:t4,3x8:rtx,2x8:a100, 30 s per change", i),
         .cluster = "6x4:t4,3x8:rtx,2x8:a100",
         .files = {file},
         .profiles = data + "/sia/profiles",
         .format = WorkloadFormat::kSia,
         .resize_cost_s = 30});
  }
  return sets;
}

// Means over the workloads of a set; the decision times are those of the slowest workload.
struct Line {
  double mean = 0, p99 = 0, queue = 0, resizes = 0;
  double decision_ms = 0, decision_p50_ms = 0, decision_p99_ms = 0;
  long limited = 0;  // decisions where a solver hit its limit

  void add(const Line& other, double share) {
    mean += other.mean * share;
    p99 += other.p99 * share;
    queue += other.queue * share;
    resizes += other.resizes * share;
    decision_ms = std::max(decision_ms, other.decision_ms);
    decision_p50_ms = std::max(decision_p50_ms, other.decision_p50_ms);
    decision_p99_ms = std::max(decision_p99_ms, other.decision_p99_ms);
    limited += other.limited;
  }
};

Line to_line(const SimSummary& s) {
  return {.mean = s.mean_jct_s,
          .p99 = s.p99_jct_s,
          .queue = s.mean_queue_s,
          .resizes = static_cast<double>(s.resizes),
          .decision_ms = s.decisions.total_ms_mean,
          .decision_p50_ms = s.decisions.total_ms_p50,
          .decision_p99_ms = s.decisions.total_ms_p99,
          .limited = s.decisions.noted};
}

// One line per policy.
std::vector<Line> run_set(const WorkloadSet& set, const std::vector<PolicyChoice>& policies) {
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
    lines[i % policies.size()].add(to_line(runs[i].summary),
                                   1.0 / static_cast<double>(set.files.size()));
  }
  return lines;
}

// Null when that policy is not there.
const Line* find_line(const std::vector<Line>& lines, const std::vector<PolicyChoice>& policies,
                      std::string_view name) {
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (policies[i].info->name == name) return &lines[i];
  }
  return nullptr;
}

void print(const std::string& name, const std::vector<Line>& lines,
           const std::vector<PolicyChoice>& policies, bool against_sia) {
  const Line* pollux = find_line(lines, policies, "pollux");
  const Line& base = pollux == nullptr ? lines.front() : *pollux;
  const Line* sia = against_sia ? find_line(lines, policies, "sia") : nullptr;
  fmt::print("\n{}\n{:<18} {:>10} {:>8} {:>10} {:>8} {:>9} {:>9} {:>12} {:>8} {:>8}{}\n", name,
             "policy", "mean JCT s", "ratio", "p99 JCT s", "ratio", "queue s", "resizes",
             "decision ms", "p50", "p99", sia == nullptr ? "" : "  mean/sia   p99/sia");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const Line& line = lines[i];
    fmt::print(
        "{:<18} {:>10.0f} {:>7.2f}x {:>10.0f} {:>7.2f}x {:>9.0f} {:>9.0f} {:>12.3f} {:>8.3f} "
        "{:>8.3f}",
        policies[i].info->name, line.mean, line.mean / base.mean, line.p99, line.p99 / base.p99,
        line.queue, line.resizes, line.decision_ms, line.decision_p50_ms, line.decision_p99_ms);
    if (sia != nullptr)
      fmt::print(" {:>8.3f}x {:>8.3f}x", line.mean / sia->mean, line.p99 / sia->p99);
    if (line.limited > 0) fmt::print("  ({} decisions at a limit)", line.limited);
    fmt::print("\n");
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  std::vector<PolicyChoice> policies;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("--only") && i + 1 < argc) {
      only = argv[++i];
      continue;
    }
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
  std::vector<std::vector<Line>> sia;
  for (const WorkloadSet& set : workload_sets(data)) {
    if (set.name.find(only) == std::string::npos) continue;
    const std::vector<Line> lines = run_set(set, policies);
    const bool mixed = set.format == WorkloadFormat::kSia;
    print(set.name, lines, policies, mixed);
    if (mixed) sia.push_back(lines);
  }
  if (sia.size() > 1) {
    std::vector<Line> mean(policies.size());
    for (const std::vector<Line>& lines : sia) {
      for (std::size_t i = 0; i < lines.size(); ++i) {
        mean[i].add(lines[i], 1.0 / static_cast<double>(sia.size()));
      }
    }
    print(fmt::format("Mean of the {} Sia workloads (decision times: of the slowest)", sia.size()),
          mean, policies, true);
  }
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
