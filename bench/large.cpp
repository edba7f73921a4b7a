// One day of a large cluster under `rubato` (`make bench-large`): 20,000 generated jobs (bundled
// profiles, diurnal arrivals, seed 1) over 24 h on 10,000 devices. Runs the built-in mix of jobs,
// and a mix with three times as many of the longest jobs, on one device type, deciding every minute
// and at every event; and on three types, deciding every minute. One thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/check.h"
#include "recorded.h"
#include "sched/scheduler.h"
#include "sim/generate.h"

namespace rubato::bench {
namespace {

constexpr int kJobs = 20'000;
constexpr double kHours = 24;
constexpr double kWantedWall = 600;
constexpr double kWantedDecisionMs = 300;

// Seconds of all jobs on one device of the first type at the initial batch, relative to what the
// devices of the cluster offer in a day.
double offered_load(const Workload& workload, const Cluster& cluster) {
  std::map<const Application*, double> seconds;
  double sum = 0;
  for (const WorkloadJob& job : workload.jobs) {
    auto [at, fresh] = seconds.try_emplace(job.application.get(), 0.0);
    if (fresh) {
      const Application& app = *job.application;
      const DeviceTypeId type(0);
      const BatchShape shape = split_batch(app.batch().initial, 1, app.batch());
      const Placement one = Placement::packed(type, 1, cluster.node_size(type));
      at->second = app.progress_after(app.epochs()) *
                   app.speed(type)->step_time(one, shape.local).update_s(shape);
    }
    sum += at->second;
  }
  return sum / (kHours * 3600 * cluster.devices());
}

void write_or_die(const std::string& path, std::string_view content) {
  const Status written = write_file(path, content);
  if (written) return;
  fmt::print(stderr, "{}\n", written.error().message);
  std::exit(1);
}

std::string make_workload(bool heavy) {
  constexpr std::string_view kUsual = R"("resnet-large", "weight": 2)";
  constexpr std::string_view kHeavy = R"("resnet-large", "weight": 6)";
  std::string mix(default_mix());
  const std::size_t at = mix.find(kUsual);
  RUBATO_CHECK(at != std::string::npos, "the built-in mix has changed");
  if (heavy) mix.replace(at, kUsual.size(), kHeavy);
  write_or_die("build/large-mix.json", mix);
  std::string file = heavy ? "build/large-heavy.jsonl" : "build/large.jsonl";
  write_or_die(file, or_die(generate_workload({.jobs = kJobs,
                                               .arrival = Arrival::kDiurnal,
                                               .hours = kHours,
                                               .mix_file = "build/large-mix.json",
                                               .seed = 1})));
  return file;
}

struct Case {
  const char* cluster;
  bool heavy;
};

int run() {
  fmt::print(
      "rubato, {} jobs over {:.0f} h, 10,000 devices, 30 s per change, one thread. Load: seconds "
      "of all jobs on one device of\nthe first type / devices x {:.0f} h. Target: {:.0f} s, "
      "decisions p99 {:.0f} ms.\n{:<30} {:<8} {:>4} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10} "
      "{:>10} {:>8}\n",
      kJobs, kHours, kHours, kWantedWall, kWantedDecisionMs, "cluster", "mix", "load", "decide",
      "decisions", "mean ms", "p99 ms", "max jobs", "alloc.", "mean JCT s", "p99 JCT s", "wall s");
  bool held = true;
  for (const Case& c : {Case{"1250x8:t4", false}, Case{"1250x8:t4", true},
                        Case{"500x8:t4,500x8:rtx,250x8:a100", true}}) {
    const Cluster cluster = or_die(Cluster::parse(c.cluster));
    const std::string file = make_workload(c.heavy);
    const Applications applications = or_die(read_profiles("share/profiles", cluster));
    const Workload workload =
        or_die(read_workload(file, cluster, applications, {.format = WorkloadFormat::kNative}));
    for (const bool rounds : {true, false}) {
      if (!rounds && cluster.type_count() > 1) continue;
      SimOptions options;
      if (rounds) options.round_s = 60;
      std::size_t most = 0;
      options.on_round = [&](const Scheduler& s) { most = std::max(most, s.jobs().size()); };
      const SimSummary s =
          or_die(simulate(cluster, workload, *or_die(find_policy("rubato")), options)).summary;
      held = held && s.wall_s < kWantedWall && s.decisions.total_ms_p99 < kWantedDecisionMs &&
             s.jobs_finished == kJobs;
      fmt::print(
          "{:<30} {:<8} {:>4.2f} {:>6} {:>10} {:>9.2f} {:>9.2f} {:>9} {:>8.0f}% {:>10.0f} "
          "{:>10.0f} "
          "{:>8.1f}\n",
          c.cluster, c.heavy ? "heavy" : "built-in", offered_load(workload, cluster),
          rounds ? "60 s" : "event", s.decisions.rounds, s.decisions.total_ms_mean,
          s.decisions.total_ms_p99, most, 100 * s.allocated_ratio, s.mean_jct_s, s.p99_jct_s,
          s.wall_s);
      std::fflush(stdout);
    }
  }
  fmt::print("{}\n", held ? "Holds." : "DOES NOT HOLD.");
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
