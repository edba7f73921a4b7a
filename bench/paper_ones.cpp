// Compares ONES (SC'21) with Tiresias and Optimus on a mix like that of its paper: 64 devices, CV
// and NLP training on data sets of many sizes, a contended cluster. Prints a Markdown section
// (`make bench-papers`). Arguments NAME=VALUE are settings of `ones`, for experiments.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "base/parallel.h"
#include "base/stats.h"
#include "ones_mix.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

constexpr std::array<double, 4> kLoads{0.7, 1.0, 1.4, 2.0};
// The defaults of ones (score, exponent, interval) were chosen on seeds 1 to 3 of this mix. These
// seeds were held out.
constexpr std::uint64_t kFirstSeed = 11;
constexpr int kSeeds = 3;

struct Entry {
  std::string label;
  double mean_jct_s = 0, p99_jct_s = 0, queue_s = 0, useful = 0, decision_ms = 0;
};

// Means over the workloads for each setting.
std::vector<Entry> measure(const Cluster& cluster, const std::vector<Workload>& workloads,
                           const std::vector<PolicyChoice>& choices, bool stop_free) {
  RunMatrix matrix;
  matrix.policies = choices;
  matrix.workloads = workloads;
  matrix.quirks.resize(workloads.size());
  matrix.seeds = {1};
  matrix.threads = hardware_threads();
  matrix.options.resize.stop_s = 30;
  if (stop_free) matrix.options.resize.stop_free_s = 1;
  const auto runs = or_die(run_matrix(cluster, matrix, {}));
  std::vector<Entry> entries(choices.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Entry& entry = entries[i % choices.size()];
    const SimSummary& s = runs[i].summary;
    const auto share = 1.0 / static_cast<double>(workloads.size());
    entry.mean_jct_s += s.mean_jct_s * share;
    entry.p99_jct_s += s.p99_jct_s * share;
    entry.queue_s += s.mean_queue_s * share;
    entry.useful += s.useful_ratio * share;
    entry.decision_ms += s.decisions.algorithm_ms_mean * share;
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    entries[i].label = choices[i].info->name;
    for (const auto& [name, value] : choices[i].settings) {
      entries[i].label += fmt::format(" {}={}", name, value);
    }
  }
  return entries;
}

Entry best(const std::vector<Entry>& entries, std::string_view policy) {
  Entry found;
  for (const Entry& entry : entries) {
    if (!entry.label.starts_with(policy)) continue;
    if (found.label.empty() || entry.mean_jct_s < found.mean_jct_s) found = entry;
  }
  return found;
}

std::vector<PolicyChoice> baselines() {
  std::vector<PolicyChoice> choices;
  for (const char* placement : {"best-fit", "most-free"}) {
    for (const char* threshold : {"500", "1000", "2000", "3250", "3600", "7200", "57600"}) {
      choices.push_back({.info = or_die(find_policy("tiresias")),
                         .settings = {{"threshold", threshold}, {"placement", placement}}});
    }
    choices.push_back(
        {.info = or_die(find_policy("tiresias")),
         .settings = {{"threshold", "3250"}, {"threshold2", "7200"}, {"placement", placement}}});
    choices.push_back(
        {.info = or_die(find_policy("optimus")), .settings = {{"placement", placement}}});
  }
  return choices;
}

// Prints one line of a table. Returns whether both baselines are beaten by the target of 30 %.
bool print_row(const std::string& where, const std::vector<Entry>& rivals, const Entry& ours) {
  const Entry tiresias = best(rivals, "tiresias");
  const Entry optimus = best(rivals, "optimus");
  const auto shorter = [&](const Entry& rival) {
    return (1 - ours.mean_jct_s / rival.mean_jct_s) * 100;
  };
  fmt::print(
      "| {} | {:.0f} | {:.0f} | {:.0f} | **{:.1f} %** | **{:.1f} %** | {:.0f} / {:.0f} / {:.0f} | "
      "{} |\n",
      where, ours.mean_jct_s, tiresias.mean_jct_s, optimus.mean_jct_s, shorter(tiresias),
      shorter(optimus), ours.p99_jct_s, tiresias.p99_jct_s, optimus.p99_jct_s,
      tiresias.label.substr(tiresias.label.find(' ') + 1));
  return shorter(tiresias) >= 30 && shorter(optimus) >= 30;
}

void print_header() {
  fmt::print(
      "| workloads | ones | tiresias | optimus | shorter than tiresias | than optimus | p99 of the "
      "three | best tiresias |\n|---|---|---|---|---|---|---|---|\n");
}

enum class ResizeCosts { kAsPublished, kStopFree, kCheckpoint };

// `ours` receives the results of ones on each group.
bool print_table(const Cluster& cluster, const std::vector<std::vector<Workload>>& groups,
                 const std::vector<Entry>& ours, ResizeCosts costs) {
  print_header();
  bool holds = true;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto rivals = measure(cluster, groups[i], baselines(), costs == ResizeCosts::kStopFree);
    const std::string& name = groups[i].front().name;
    holds = print_row(name.substr(0, name.find(',')), rivals, ours[i]) && holds;
  }
  fmt::print("\n");
  std::fflush(stdout);
  return holds;
}

std::vector<Entry> measure_ones(const Cluster& cluster,
                                const std::vector<std::vector<Workload>>& groups, PolicyChoice ones,
                                ResizeCosts costs) {
  if (costs == ResizeCosts::kCheckpoint) ones.settings.emplace("pause", "30");
  std::vector<Entry> entries;
  for (const auto& workloads : groups) {
    entries.push_back(
        measure(cluster, workloads, {ones}, costs != ResizeCosts::kCheckpoint).front());
  }
  return entries;
}

void print_score_comparison(const Cluster& cluster, const std::vector<Workload>& workloads,
                            const PolicyInfo* info) {
  std::vector<PolicyChoice> choices{{.info = info, .settings = {}}};
  for (const char* waiting : {"1", "0.9"}) {
    choices.push_back({.info = info, .settings = {{"score", "utilization"}, {"waiting", waiting}}});
  }
  fmt::print("| setting | mean JCT s | p99 s | useful devices |\n|---|---|---|---|\n");
  for (const Entry& entry : measure(cluster, workloads, choices, true)) {
    fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} % |\n", entry.label, entry.mean_jct_s,
               entry.p99_jct_s, entry.useful * 100);
  }
  fmt::print("\n");
}

int run(int argc, char** argv) {
  const Cluster cluster = or_die(Cluster::parse("16x4"));
  const Applications bases = or_die(read_profiles("share/profiles", cluster));
  PolicyChoice ones{.info = or_die(find_policy("ones")), .settings = {}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto equals = std::min(text.find('='), text.size() - 1);
    ones.settings.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::vector<Workload>> groups;
  for (const double load : kLoads) {
    auto& group = groups.emplace_back();
    for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
      group.push_back(make_ones_workload(cluster, bases, load, seed));
    }
  }

  fmt::print(
      "## ONES: evolutionary search, elastic batches\n\nClaim: mean JCT 45.6 % shorter than "
      "Tiresias and 41.7 % shorter than Optimus on 64 GPUs (from memory, not confirmed). Target: "
      "30 % shorter than each.\n\nScenario: 16 nodes x 4 devices; {} jobs with Poisson arrivals, "
      "{} seeds per load (at load 1, requested service arrives as fast as 64 devices can provide "
      "it). The mix uses the bundled profiles on parts of their data: image classification (60 %), "
      "detection (15 %), language fine-tuning (25 %), from a minute to hours on one device; 1 to 8 "
      "devices requested. Command: `build/bin/paper_ones`. Times in seconds. Both baselines run "
      "with the best of their settings per line (tiresias: thresholds 500, 1000, 2000, 3250, 3600, "
      "7200, 57600, 3250/7200; both: two placements); optimus has its oracle for remaining work; "
      "ones and tiresias have none.\n\n",
      kOnesJobs, kSeeds);
  fmt::print(
      "`ones` runs with its default score, which is ours (completion rates), not the "
      "reconstruction of the paper's (remaining device-seconds). A table below shows both. The "
      "score, its exponent and the interval were chosen among about ten settings on seeds 1 to 3 "
      "of this mix at loads 0.7 to 1.4; the seeds here are {} to {}.\n\n",
      kFirstSeed, kFirstSeed + kSeeds - 1);
  fmt::print(
      "Costs as published: the baselines restart from a checkpoint at every change (30 s), ones "
      "resizes running jobs in 1 s (its starts and restarts cost 30 s too).\n\n");
  const auto ours = measure_ones(cluster, groups, ones, ResizeCosts::kAsPublished);
  const bool holds = print_table(cluster, groups, ours, ResizeCosts::kAsPublished);
  if (argc > 1) return 0;
  fmt::print("The same costs for all, 1 s per resize of a running job:\n\n");
  const bool stop_free = print_table(cluster, groups, ours, ResizeCosts::kStopFree);
  fmt::print("The same costs for all, 30 s for every change (ones knows this: pause=30):\n\n");
  const bool checkpoint =
      print_table(cluster, groups, measure_ones(cluster, groups, ones, ResizeCosts::kCheckpoint),
                  ResizeCosts::kCheckpoint);

  fmt::print("What the score contributes (load 1):\n\n");
  print_score_comparison(cluster, groups[1], ones.info);

  const std::string recorded = recorded_data() + "/pollux";
  bool on_recorded = true;
  if (is_directory(recorded)) {
    fmt::print(
        "Recorded profiles: workloads 1 to 6 of the Pollux artifact at load 1.0 (epochs of up to "
        "an hour, so batch limits that double per epoch grow slowly), costs as published:\n\n");
    const Applications applications = or_die(read_profiles(recorded + "/profiles", cluster));
    std::vector<Workload> workloads;
    for (int i = 1; i <= 6; ++i) {
      workloads.push_back(
          or_die(read_workload(fmt::format("{}/workloads-1.0/workload-{}.csv", recorded, i),
                               cluster, applications, {.format = WorkloadFormat::kPollux})));
    }
    workloads.front().name = "pollux 1-6";
    on_recorded = print_table(cluster, {workloads},
                              measure_ones(cluster, {workloads}, ones, ResizeCosts::kAsPublished),
                              ResizeCosts::kAsPublished);
  } else {
    fmt::print("skipped: recorded profiles, {} not found\n\n", recorded);
  }
  const auto verdict = [](bool kept) { return kept ? "holds" : "DOES NOT HOLD everywhere"; };
  fmt::print(
      "At least 30 % shorter than both: {} with the published costs, {} with stop-free resizing "
      "for all, {} with checkpoints for all{}.\n",
      verdict(holds), verdict(stop_free), verdict(checkpoint),
      is_directory(recorded) ? fmt::format(", {} on the recorded profiles", verdict(on_recorded))
                             : "");
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
