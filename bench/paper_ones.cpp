// ONES (SC'21) against Tiresias and Optimus on a mix like its own: 64 devices, CV and NLP training
// on data sets of many sizes, a contended cluster. Prints a Markdown section (`make bench-papers`).
// Arguments NAME=VALUE are settings of `ones`, for experiments.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "base/parallel.h"
#include "base/stats.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

constexpr int kJobs = 160;
constexpr std::array<double, 3> kLoads{0.7, 1.0, 1.4};
constexpr std::array<std::uint64_t, 3> kSeeds{1, 2, 3};

// A program on a part of its data set, for a number of epochs.
struct Kind {
  const char* application;
  double weight;
  std::array<int, 3> epochs;
  std::array<double, 3> data;      // relative to the whole data set
  std::array<int, 3> devices;      // what owners request, by the size of the data
};

constexpr std::array<Kind, 4> kMix{{
    {"resnet-small", 35, {30, 60, 100}, {0.4, 0.7, 1.0}, {1, 1, 2}},
    {"resnet-large", 25, {30, 60, 90}, {0.02, 0.05, 0.1}, {2, 4, 8}},
    {"detector", 15, {20, 40, 80}, {0.02, 0.05, 0.15}, {2, 4, 8}},
    {"bert-tune", 25, {3, 4, 8}, {0.03, 0.15, 0.6}, {1, 2, 4}},
}};

// The same program on another amount of data: epochs and updates per epoch change, the speed and
// the course of the gradient noise from the first to the last epoch do not.
std::shared_ptr<const Application> resized(const std::shared_ptr<const Application>& base,
                                           const Cluster& cluster, int epochs, double data) {
  Application::Description d{.name = fmt::format("{}-{}e-{}", base->name(), epochs, data)};
  d.batch = base->batch();
  d.epochs = epochs;
  const double updates = base->progress_after(1) * data;
  for (std::int64_t batch = d.batch.initial;; batch = std::min(2 * batch, d.batch.max)) {
    BatchRecord record;
    const auto size = static_cast<double>(batch);
    const double scale = size / static_cast<double>(d.batch.initial);
    double iterations = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const GradientNoise noise = base->noise(size, epoch * base->epochs() / epochs);
      iterations += updates / update_gain(noise, scale);
      record.progress.push_back(updates * (epoch + 1));
      record.iteration.push_back(iterations);
      record.noise.push_back(noise);
    }
    d.records.emplace(batch, std::move(record));
    if (batch == d.batch.max) break;
  }
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    d.speed.emplace_back(base, base->speed(DeviceTypeId(type)));
  }
  return std::make_shared<const Application>(std::move(d));
}

// Device-seconds of a job as requested.
double service_of(const WorkloadJob& job, const Cluster& cluster) {
  const SimJob alone(job, cluster, job.application->speed(DeviceTypeId(0)), {}, {});
  return alone.isolated_s(job.spec.requested_devices) * job.spec.requested_devices;
}

// Poisson arrivals; a load of 1 brings as much requested service as the cluster has devices.
Workload make_workload(const Cluster& cluster, const Applications& bases, double load,
                       std::uint64_t seed) {
  Random random(seed);
  std::map<std::string, std::shared_ptr<const Application>> made;
  Workload workload{.name = fmt::format("load {}, seed {}", load, seed)};
  double weights = 0;
  for (const Kind& kind : kMix) weights += kind.weight;
  double service = 0;
  for (int i = 0; i < kJobs; ++i) {
    double draw = random.uniform() * weights;
    std::size_t k = 0;
    while (k + 1 < kMix.size() && draw >= kMix[k].weight) draw -= kMix[k++].weight;
    const Kind& kind = kMix[k];
    const int epochs = kind.epochs[random.below(3)];
    const std::size_t part = random.below(3);
    auto& app = made[fmt::format("{} {} {}", kind.application, epochs, part)];
    if (!app) app = resized(bases.at(kind.application), cluster, epochs, kind.data[part]);
    WorkloadJob job{.application = app};
    job.spec.id = JobId(static_cast<std::size_t>(i));
    job.spec.name = fmt::format("{}-{}", kind.application, i);
    job.spec.mode = ElasticMode::kAdaptive;
    job.spec.application = kind.application;
    job.spec.epochs = epochs;
    job.spec.batch = app->batch();
    job.spec.requested_devices = kind.devices[part];
    job.spec.requested_batch =
        std::min(app->batch().max, app->batch().initial * job.spec.requested_devices);
    job.spec.max_devices = static_cast<int>(
        std::min<std::int64_t>(cluster.devices(), app->batch().max / app->batch().min_local));
    service += service_of(job, cluster);
    workload.jobs.push_back(std::move(job));
  }
  const Seconds gap_s = service / kJobs / (load * cluster.devices());
  Seconds now_s = 0;
  for (WorkloadJob& job : workload.jobs) {
    job.spec.submit_s = now_s;
    now_s += random.exponential(gap_s);
  }
  return workload;
}

struct Costs {
  const char* what;
  bool cheap_for_all;
};

struct Entry {
  std::string label;
  double mean_jct_s = 0, p99_jct_s = 0, queue_s = 0, useful = 0, decision_ms = 0;
};

// Means over the workloads, per setting; the policies run with the best of their settings.
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

const Entry& best(const std::vector<Entry>& entries, std::string_view policy) {
  const Entry* found = nullptr;
  for (const Entry& entry : entries) {
    if (!entry.label.starts_with(policy)) continue;
    if (found == nullptr || entry.mean_jct_s < found->mean_jct_s) found = &entry;
  }
  return *found;
}

std::vector<PolicyChoice> baselines() {
  std::vector<PolicyChoice> choices;
  for (const char* placement : {"best-fit", "most-free"}) {
    for (const char* threshold : {"3250", "3600", "7200", "57600"}) {
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

void print_rows(const std::string& where, const std::vector<Entry>& rivals, const Entry& ours,
                bool& holds) {
  const Entry& tiresias = best(rivals, "tiresias");
  const Entry& optimus = best(rivals, "optimus");
  const auto shorter = [&](const Entry& rival) {
    return (1 - ours.mean_jct_s / rival.mean_jct_s) * 100;
  };
  fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} % | {:.1f} % | {:.0f} / {:.0f} / {:.0f} | {:.1f} |\n",
             where, ours.mean_jct_s, tiresias.mean_jct_s, optimus.mean_jct_s, shorter(tiresias),
             shorter(optimus), ours.p99_jct_s, tiresias.p99_jct_s, optimus.p99_jct_s,
             ours.decision_ms);
  holds = holds && shorter(tiresias) >= 30 && shorter(optimus) >= 30;
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
  const auto header = [] {
    fmt::print("| workload | ones s | tiresias s | optimus s | vs tiresias | vs optimus | p99 (three) | ms per decision |\n"
               "|---|---|---|---|---|---|---|---|\n");
  };
  for (const bool cheap_for_all : {false, true}) {
    fmt::print("\n{}\n\n", cheap_for_all ? "every policy resizes stop-free (1 s)"
                                         : "baselines restart from checkpoints (30 s)");
    header();
    bool holds = true;
    for (const double load : kLoads) {
      std::vector<Workload> workloads;
      for (const std::uint64_t seed : kSeeds) {
        workloads.push_back(make_workload(cluster, bases, load, seed));
      }
      const auto rivals = measure(cluster, workloads, baselines(), cheap_for_all);
      const auto ours = measure(cluster, workloads, {ones}, true);
      print_rows(fmt::format("load {}", load), rivals, ours.front(), holds);
      fmt::print("  best: {}; {}\n", best(rivals, "tiresias").label, best(rivals, "optimus").label);
    }
    if (argc > 1) break;
  }
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
