// The claims of the MIP allocator (Hu et al., ModelArts, 2021) against its greedy baseline; part of
// `make bench-papers`. Prints a Markdown section. Needs no recorded data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/parallel.h"
#include "base/stats.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

constexpr int kNodes = 32;
constexpr int kNodeSize = 8;
constexpr int kJobs = 120;
constexpr std::array<std::uint64_t, 4> kSeeds{1, 2, 3, 4};

// A training program: seconds of an update on one node, how much of it more nodes do not shorten,
// and what each doubling adds. Shares of the seconds on one node.
struct Model {
  const char* name;
  Seconds update_s;
  double serial;
  double per_doubling;
  double median_h;  // of the whole training on one node

  Seconds on(double nodes) const {
    return update_s * ((1 - serial) / nodes + serial + per_doubling * std::log2(nodes));
  }
};
constexpr std::array<Model, 6> kModels{{
    {"resnet50", 1.2, 0.010, 0.004, 10},
    {"bert-base", 2.0, 0.015, 0.006, 16},
    {"yolov3", 1.5, 0.030, 0.010, 8},
    {"lstm", 0.8, 0.080, 0.020, 3},
    {"mobilenet", 0.6, 0.050, 0.015, 2},
    {"gpt-small", 4.0, 0.005, 0.003, 30},
}};
constexpr double kUpdatesPerEpoch = 100;
constexpr std::int64_t kBatch = 1024;

class NodeSpeed final : public SpeedModel {
 public:
  explicit NodeSpeed(const Model& model) : model_(model) {}
  StepTime step_time(const Placement& placement, std::int64_t) const override {
    const double nodes = static_cast<double>(placement.devices()) / kNodeSize;
    const Seconds step = model_.on(nodes);
    return {.step_s = step,
            .sync_s = std::max(0.0, step - model_.on(1) / nodes),
            .confidence = Confidence::kMeasured};
  }

 private:
  Model model_;
};

std::shared_ptr<const Application> make_application(const Model& model, int epochs) {
  Application::Description d{.name = model.name};
  d.batch = {.initial = kBatch, .max = kBatch, .min_local = 1, .max_local = kBatch};
  d.epochs = epochs;
  d.fixed_batch = true;
  d.max_devices = kNodes * kNodeSize;
  BatchRecord record;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    record.progress.push_back(kUpdatesPerEpoch * epoch);
    record.iteration.push_back(kUpdatesPerEpoch * epoch);
    record.noise.push_back({.squared_norm = 1, .variance = 0});
  }
  d.records.emplace(kBatch, std::move(record));
  d.speed.push_back(std::make_shared<NodeSpeed>(model));
  return std::make_shared<const Application>(std::move(d));
}

struct Regime {
  const char* name;
  double load;  // node-hours (at one node per job) that arrive per node-hour of the cluster
  bool bursts;  // all arrivals in bursts of 15 instead of one by one
  bool wide;    // half of the jobs need 2 or 4 nodes at least
};

constexpr std::array<Regime, 8> kRegimes{{
    {"one by one, from 1 node, load 0.7", 0.7, false, false},
    {"one by one, from 1 node, load 0.9", 0.9, false, false},
    {"one by one, from 1 node, load 1.1", 1.1, false, false},
    {"bursts, from 1 node, load 0.7", 0.7, true, false},
    {"bursts, from 1 node, load 0.9", 0.9, true, false},
    {"one by one, from 1-4 nodes, load 0.7", 0.7, false, true},
    {"one by one, from 1-4 nodes, load 0.9", 0.9, false, true},
    {"bursts, from 1-4 nodes, load 0.7", 0.7, true, true},
}};

struct Scene {
  Workload workload;
  std::vector<Seconds> one_node_s;  // by job
  std::vector<Seconds> fastest_s;   // alone at its largest size
};

Scene make_scene(const Regime& regime, std::uint64_t seed) {
  Random random(seed);
  Scene scene;
  scene.workload.name = fmt::format("{}, seed {}", regime.name, seed);
  double total_s = 0;
  for (int i = 0; i < kJobs; ++i) {
    const Model& model = kModels[random.below(kModels.size())];
    const double hours = model.median_h * std::exp(0.8 * random.normal());
    const double epoch_s = kUpdatesPerEpoch * model.on(1);
    const int epochs = std::max(2, static_cast<int>(std::lround(hours * 3600 / epoch_s)));
    WorkloadJob job;
    job.application = make_application(model, epochs);
    JobSpec& spec = job.spec;
    spec.id = JobId(static_cast<std::size_t>(i));
    spec.name = fmt::format("{}-{}", model.name, i);
    spec.application = model.name;
    spec.mode = ElasticMode::kConsistent;
    spec.batch = job.application->batch();
    spec.requested_batch = kBatch;
    spec.epochs = epochs;
    const int low = regime.wide ? 1 << random.below(3) : 1;
    const int high = random.chance(0.5) ? 8 : 16;
    spec.min_devices = low * kNodeSize;
    spec.max_devices = high * kNodeSize;
    spec.requested_devices = spec.min_devices;
    scene.one_node_s.push_back(epochs * epoch_s);
    scene.fastest_s.push_back(epochs * kUpdatesPerEpoch * model.on(high));
    total_s += scene.one_node_s.back();
    scene.workload.jobs.push_back(std::move(job));
  }
  const Seconds gap = total_s / kNodes / regime.load / kJobs;
  Seconds now = 0;
  for (int i = 0; i < kJobs; ++i) {
    if (!regime.bursts) {
      now += random.exponential(gap);
    } else if (i % 15 == 0 && i > 0) {
      now += random.exponential(15 * gap);
    }
    scene.workload.jobs[static_cast<std::size_t>(i)].spec.submit_s = std::floor(now);
  }
  return scene;
}

// Means over the seeds.
struct Figures {
  double queue_s = 0, p99_queue_s = 0, jct_s = 0;
  double rate = 0;      // mean over jobs of: time alone at the largest size / completion time
  double running = 0;   // the same, over the time with devices only
  double per_node = 0;  // work in one-node seconds / node-seconds held
  double makespan_s = 0;
  double resizes = 0;
  double decision_ms = 0, decision_p99_ms = 0;
  double rounds = 0, noted = 0;
};

void add(const Scene& scene, const SimResult& run, Figures& sum) {
  const double share = 1.0 / kSeeds.size();
  double rate = 0, running = 0, work = 0, held = 0;
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    const JobResult& job = run.jobs[i];
    rate += scene.fastest_s[i] / job.jct_s();
    running += scene.fastest_s[i] / (job.jct_s() - job.queue_s);
    work += scene.one_node_s[i];
    held += job.device_s / kNodeSize;
  }
  const SimSummary& s = run.summary;
  sum.queue_s += share * s.mean_queue_s;
  sum.p99_queue_s += share * s.p99_queue_s;
  sum.jct_s += share * s.mean_jct_s;
  sum.rate += share * rate / kJobs;
  sum.running += share * running / kJobs;
  sum.per_node += share * work / held;
  sum.makespan_s += share * s.makespan_s;
  sum.resizes += share * static_cast<double>(s.resizes) / kJobs;
  sum.decision_ms += share * s.decisions.algorithm_ms_mean;
  sum.decision_p99_ms = std::max(sum.decision_p99_ms, s.decisions.algorithm_ms_p99);
  sum.rounds += static_cast<double>(s.decisions.rounds);
  sum.noted += static_cast<double>(s.decisions.noted);
}

struct Variant {
  const char* name;
  const char* policy;
  Settings settings;
};

int run(int only) {
  std::vector<Variant> variants{
      {"greedy", "greedy", {{"unit", "node"}}},
      {"greedy backfill", "greedy", {{"unit", "node"}, {"backfill", "true"}}},
      {"greedy freed=head", "greedy", {{"unit", "node"}, {"freed", "head"}}},
      {"greedy both", "greedy", {{"unit", "node"}, {"freed", "head"}, {"backfill", "true"}}},
      {"mip T=1 rv=0.01 d=300 t",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "300"},
        {"preempt", "true"},
        {"run_value", "0.01"}}},
      {"mip T=1 rv=0.01 d=300 f",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "300"},
        {"preempt", "false"},
        {"run_value", "0.01"}}},
      {"mip T=1 rv=0.01 d=1200 t",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "1200"},
        {"preempt", "true"},
        {"run_value", "0.01"}}},
      {"mip T=1 rv=0.01 d=1200 f",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "1200"},
        {"preempt", "false"},
        {"run_value", "0.01"}}},
      {"mip T=1 rv=0.1 d=300 t",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "300"},
        {"preempt", "true"},
        {"run_value", "0.1"}}},
      {"mip T=1 rv=0.1 d=300 f",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "300"},
        {"preempt", "false"},
        {"run_value", "0.1"}}},
      {"mip T=1 rv=0.1 d=1200 t",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "1200"},
        {"preempt", "true"},
        {"run_value", "0.1"}}},
      {"mip T=1 rv=0.1 d=1200 f",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "1200"},
        {"preempt", "false"},
        {"run_value", "0.1"}}},
      {"mip T=1 rv=1 d=300 t",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "300"},
        {"preempt", "true"},
        {"run_value", "1"}}},
      {"mip T=1 rv=1 d=300 f",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "300"},
        {"preempt", "false"},
        {"run_value", "1"}}},
      {"mip T=1 rv=1 d=1200 t",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "1200"},
        {"preempt", "true"},
        {"run_value", "1"}}},
      {"mip T=1 rv=1 d=1200 f",
       "mip",
       {{"unit", "node"},
        {"periods", "1"},
        {"period", "1200"},
        {"preempt", "false"},
        {"run_value", "1"}}},
      {"mip T=4 rv=0.01 d=300 t",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "300"},
        {"preempt", "true"},
        {"run_value", "0.01"}}},
      {"mip T=4 rv=0.01 d=300 f",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "300"},
        {"preempt", "false"},
        {"run_value", "0.01"}}},
      {"mip T=4 rv=0.01 d=1200 t",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "1200"},
        {"preempt", "true"},
        {"run_value", "0.01"}}},
      {"mip T=4 rv=0.01 d=1200 f",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "1200"},
        {"preempt", "false"},
        {"run_value", "0.01"}}},
      {"mip T=4 rv=0.1 d=300 t",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "300"},
        {"preempt", "true"},
        {"run_value", "0.1"}}},
      {"mip T=4 rv=0.1 d=300 f",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "300"},
        {"preempt", "false"},
        {"run_value", "0.1"}}},
      {"mip T=4 rv=0.1 d=1200 t",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "1200"},
        {"preempt", "true"},
        {"run_value", "0.1"}}},
      {"mip T=4 rv=0.1 d=1200 f",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "1200"},
        {"preempt", "false"},
        {"run_value", "0.1"}}},
      {"mip T=4 rv=1 d=300 t",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "300"},
        {"preempt", "true"},
        {"run_value", "1"}}},
      {"mip T=4 rv=1 d=300 f",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "300"},
        {"preempt", "false"},
        {"run_value", "1"}}},
      {"mip T=4 rv=1 d=1200 t",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "1200"},
        {"preempt", "true"},
        {"run_value", "1"}}},
      {"mip T=4 rv=1 d=1200 f",
       "mip",
       {{"unit", "node"},
        {"periods", "4"},
        {"period", "1200"},
        {"preempt", "false"},
        {"run_value", "1"}}},
  };
  if (const char* f = std::getenv("F"))
    std::erase_if(variants, [&](const Variant& v) {
      return std::string(v.name).find(f) == std::string::npos;
    });
  const Cluster cluster = or_die(Cluster::parse(fmt::format("{}x{}", kNodes, kNodeSize)));
  for (const Regime& regime : kRegimes) {
    if (only >= 0 && &regime != &kRegimes[static_cast<std::size_t>(only)]) continue;
    std::vector<Scene> scenes;
    RunMatrix matrix;
    for (const std::uint64_t seed : kSeeds) {
      scenes.push_back(make_scene(regime, seed));
      matrix.workloads.push_back(scenes.back().workload);
    }
    for (const Variant& variant : variants) {
      matrix.policies.push_back(
          {.info = or_die(find_policy(variant.policy)), .settings = variant.settings});
    }
    matrix.seeds = {1};
    matrix.quirks.resize(scenes.size());
    matrix.threads = hardware_threads();
    matrix.options.resize.stop_s = 30;
    const auto runs = or_die(run_matrix(cluster, matrix, {}));
    fmt::print(
        "\n{}\n{:<20} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>9} {:>8} {:>8} {:>8} {:>7} {:>6}\n",
        regime.name, "policy", "queue", "p99 q", "jct", "rate", "running", "per node", "makespan",
        "resizes", "ms", "p99 ms", "rounds", "noted");
    for (std::size_t v = 0; v < variants.size(); ++v) {
      Figures f;
      for (std::size_t w = 0; w < scenes.size(); ++w) {
        add(scenes[w], runs[w * variants.size() + v], f);
      }
      fmt::print(
          "{:<20} {:>8.0f} {:>8.0f} {:>8.0f} {:>7.3f} {:>7.3f} {:>8.3f} {:>9.0f} {:>8.2f} {:>8.2f} "
          "{:>8.2f} {:>7.0f} {:>6.0f}\n",
          variants[v].name, f.queue_s, f.p99_queue_s, f.jct_s, f.rate, f.running, f.per_node,
          f.makespan_s, f.resizes, f.decision_ms, f.decision_p99_ms, f.rounds, f.noted);
    }
  }
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc > 1 ? std::atoi(argv[1]) : -1); }
