// What each idea of the policy `rubato` contributes (`make bench-ablation`): results with one idea
// switched off, compared with the full policy, on the Pollux workloads 1-6 at load 1.0 and on the
// first Sia workload. Prints a section of docs/policies.md.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "base/parallel.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

struct Variant {
  std::string_view idea;
  std::string_view setting;
  std::string_view value;
  bool ranks = false;  // in addition to `without=plan`
};

constexpr std::array kVariants{
    Variant{"all of it", "without", "none"},
    Variant{"goodput: learned speeds at the best batch, instead of k^0.9 for every job", "without",
            "goodput"},
    Variant{"correction of the fitted speed by nearby measurements", "without", "correction"},
    Variant{"sharing what is learned among the jobs of an application", "without", "sharing"},
    Variant{"remaining work from epochs and progress, instead of age", "without", "remaining"},
    Variant{"benefit of the doubt for unmeasured batches", "without", "trials"},
    Variant{"noise of the application by stage and batch, instead of the last report", "without",
            "noise"},
    Variant{"phases of a job that scale differently, instead of its current scaling", "without",
            "parts"},
    Variant{"plan of the future (off, and always with several types: ranks)", "without", "plan"},
    Variant{"ranks: short jobs first", "exponent", "0", true},
    Variant{"ranks: further devices of a job count less", "concavity", "1", true},
    Variant{"charge for the cost of a change", "without", "charge"},
    Variant{"bound on starvation", "starvation", "1e9"},
    Variant{"exact solver, instead of the largest gain per device first", "without", "exact"},
    Variant{"consolidation on few nodes, moving small jobs", "without", "consolidation"},
    Variant{"types: prices as a starting point (off: only what jobs have)", "without", "prices"},
    Variant{"types: division in turn (off: each job on its best type)", "without", "types"},
    Variant{"types: every application is measured once on every type", "without", "exploration"},
};

struct Set {
  std::string_view cluster;
  std::string profiles;
  std::vector<std::string> files;
  WorkloadFormat format;
  Seconds resize_cost_s;
};

struct Figures {
  double mean = 0, p99 = 0;
};

std::vector<Figures> run_set(const Set& set) {
  const Cluster cluster = or_die(Cluster::parse(set.cluster));
  const Applications applications = or_die(read_profiles(set.profiles, cluster));
  RunMatrix matrix;
  for (const Variant& variant : kVariants) {
    Settings settings{{std::string(variant.setting), std::string(variant.value)}};
    if (variant.ranks) settings.emplace("without", "plan");
    const PolicyInfo* info = or_die(find_policy("rubato"));
    matrix.policies.push_back(
        {.info = info, .settings = std::move(settings), .at_events = info->at_events});
  }
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
  std::vector<Figures> figures(kVariants.size());
  const auto runs = or_die(run_matrix(cluster, matrix, {}));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto share = 1.0 / static_cast<double>(set.files.size());
    figures[i % kVariants.size()].mean += runs[i].summary.mean_jct_s * share;
    figures[i % kVariants.size()].p99 += runs[i].summary.p99_jct_s * share;
  }
  return figures;
}

int run() {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  need_recorded_data(data + "/sia");
  Set pollux{.cluster = "16x4",
             .profiles = data + "/pollux/profiles",
             .files = {},
             .format = WorkloadFormat::kPollux,
             .resize_cost_s = 30};
  for (int i = 1; i <= 6; ++i) {
    pollux.files.push_back(fmt::format("{}/pollux/workloads-1.0/workload-{}.csv", data, i));
  }
  Set stop_free = pollux;
  stop_free.resize_cost_s = 1;
  const Set sia{.cluster = "6x4:t4,3x8:rtx,2x8:a100",
                .profiles = data + "/sia/profiles",
                .files = {data + "/sia/workloads/workload-1.csv"},
                .format = WorkloadFormat::kSia,
                .resize_cost_s = 30};
  const std::array<std::vector<Figures>, 3> sets{run_set(pollux), run_set(stop_free), run_set(sia)};
  fmt::print(
      "\n### What each idea of `rubato` contributes\n\nWritten by `make bench-ablation`: mean "
      "(p99) completion time in seconds with one idea switched off, and the change of the\nmean. A "
      "positive change is what the idea contributes. Pollux: workloads 1-6, load 1.0, 16x4. Mixed: "
      "Sia workload 1,\n6x4:t4,3x8:rtx,2x8:a100, 30 s per change. Decisions at events and after 60 "
      "s.\n\n| without | setting | Pollux, 30 s per change | | Pollux, 1 s | | mixed | "
      "|\n|---|---|---:|---:|---:|---:|---:|---:|\n");
  for (std::size_t v = 0; v < kVariants.size(); ++v) {
    const bool all = v == 0;
    fmt::print("| {} | {} |", all ? "nothing (the full policy)" : kVariants[v].idea,
               all ? std::string("(defaults)")
                   : fmt::format("{}`{}={}`", kVariants[v].ranks ? "`without=plan` " : "",
                                 kVariants[v].setting, kVariants[v].value));
    for (const std::vector<Figures>& figures : sets) {
      fmt::print(" {:.0f} ({:.0f}) | {} |", figures[v].mean, figures[v].p99,
                 all ? std::string()
                     : fmt::format("{:+.1f} %", 100 * (figures[v].mean / figures[0].mean - 1)));
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
