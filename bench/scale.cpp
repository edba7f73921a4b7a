// How fast the simulator is and how it scales (`make bench-scale`):
//  - the Philly trace on 310x8 devices, 10k to 82k jobs: the cost per event must not grow with the
//    number of finished jobs;
//  - one 160-job workload of the Pollux artifact, compared with the time that the artifact's own
//    simulator needs for it;
//  - one pollux decision with 100 elastic jobs on 1,024 devices.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "recorded.h"

namespace rubato::bench {
namespace {

double peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

SimResult run_policy(const Cluster& cluster, const Workload& workload, std::string_view policy,
                     const SimOptions& options) {
  return or_die(simulate(cluster, workload, *or_die(find_policy(policy)), options));
}

void philly(const std::string& data) {
  const Cluster cluster = or_die(Cluster::parse("310x8"));
  const Workload all = or_die(
      read_workload(data + "/pollux/philly.csv", cluster, {}, {.format = WorkloadFormat::kPhilly}));
  fmt::print("Philly trace, 310x8 devices, one thread\n{:<10} {:>7} {:>8} {:>9} {:>14} {:>10}\n",
             "policy", "jobs", "wall s", "rounds", "us per round", "peak MiB");
  for (const char* policy : {"fifo", "srtf", "tiresias"}) {
    for (const std::size_t count :
         {std::size_t{10'000}, std::size_t{20'000}, std::size_t{40'000}, all.jobs.size()}) {
      Workload part{.name = "philly", .format = all.format};
      part.jobs.assign(all.jobs.begin(), all.jobs.begin() + static_cast<std::ptrdiff_t>(count));
      const SimSummary s = run_policy(cluster, part, policy, {}).summary;
      const auto rounds = static_cast<double>(s.decisions.rounds);
      fmt::print("{:<10} {:>7} {:>8.2f} {:>9} {:>14.2f} {:>10.0f}\n", policy, count, s.wall_s,
                 s.decisions.rounds, s.wall_s / rounds * 1e6, peak_memory_mib());
    }
  }
}

void against_artifact(const std::string& data) {
  // Wall time in seconds that the artifact's simulator needs for one 160-job workload on a machine
  // of this size.
  struct Reference {
    const char* policy;
    double low_s, high_s;
    double wanted_ratio;
  };
  constexpr std::array<Reference, 3> kReferences{
      {{"tiresias", 13, 21, 500}, {"optimus", 67, 67, 500}, {"pollux", 300, 900, 50}}};
  const Cluster cluster = or_die(Cluster::parse("16x4"));
  const Applications applications = or_die(read_profiles(data + "/pollux/profiles", cluster));
  SimOptions options;
  options.round_s = 60;
  options.quirks = {.whole_second_epochs = true, .whole_epoch_remaining = true};
  fmt::print(
      "\nOne 160-job workload of the Pollux artifact (median of workloads 1-6, load 1.0)\n"
      "{:<10} {:>12} {:>14} {:>16} {:>8}\n",
      "policy", "ours s", "artifact s", "times faster", "target");
  for (const Reference& reference : kReferences) {
    std::vector<double> walls;
    for (int i = 1; i <= 6; ++i) {
      const Workload workload =
          or_die(read_workload(fmt::format("{}/pollux/workloads-1.0/workload-{}.csv", data, i),
                               cluster, applications, {.format = WorkloadFormat::kPollux}));
      walls.push_back(run_policy(cluster, workload, reference.policy, options).summary.wall_s);
    }
    std::sort(walls.begin(), walls.end());
    const double wall = (walls[2] + walls[3]) / 2;
    fmt::print("{:<10} {:>12.4f} {:>7.0f}-{:<6.0f} {:>7.0f}-{:<8.0f} {:>8.0f}\n", reference.policy,
               wall, reference.low_s, reference.high_s, reference.low_s / wall,
               reference.high_s / wall, reference.wanted_ratio);
  }
}

void large_decision(const std::string& data) {
  const Cluster cluster = or_die(Cluster::parse("256x4"));
  const Applications applications = or_die(read_profiles(data + "/pollux/profiles", cluster));
  // 100 long elastic jobs at once, with a decision every minute until all have ended.
  Workload workload{.name = "100 jobs"};
  constexpr std::array<const char*, 3> kNames{"imagenet", "yolov3", "deepspeech2"};
  for (std::size_t i = 0; i < 100; ++i) {
    const auto app = applications.at(kNames[i % kNames.size()]);
    WorkloadJob job{.application = app};
    job.spec = {.id = JobId(i), .name = fmt::format("job{}", i), .mode = ElasticMode::kAdaptive};
    job.spec.batch = app->batch();
    job.spec.requested_batch = app->batch().initial;
    job.spec.max_devices =
        static_cast<int>(std::min<std::int64_t>(1024, app->batch().max / app->batch().min_local));
    job.spec.application = app->name();
    workload.jobs.push_back(std::move(job));
  }
  SimOptions options;
  options.round_s = 60;
  const SimSummary s = run_policy(cluster, workload, "pollux", options).summary;
  fmt::print(
      "\npollux decisions, 100 elastic jobs on 1,024 devices: mean {:.0f} ms, p99 {:.0f} ms over "
      "{} rounds (target: under 1000 ms)\n",
      s.decisions.total_ms_mean, s.decisions.total_ms_p99, s.decisions.rounds);
}

int run() {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux/philly.csv");
  philly(data);
  against_artifact(data);
  large_decision(data);
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
