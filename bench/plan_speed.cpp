// How long `rubato plan` takes and how far ahead it looks (`make bench-plan`), with queues of
// several lengths beside one busy thread per core: what the daemon computes for POST /api/v1/plan,
// on a snapshot as it takes one. Exit code 1: a plan took longer than the API's 2 s.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "base/random.h"
#include "control/plan.h"

namespace rubato::bench {
namespace {

using control::Snapshot;
using control::SnapshotJob;
using Clock = std::chrono::steady_clock;

constexpr int kDevices = 4;
constexpr int kRepeats = 5;
constexpr double kLimit = 2;  // seconds

control::JobDocument document(Random& random) {
  control::JobDocument made;
  made.run = {"/bin/true"};
  made.tenant = "default";
  made.min_devices = random.between(1, 2);
  made.max_devices = random.between(made.min_devices, kDevices);
  made.mode = made.min_devices == made.max_devices ? ElasticMode::kRigid : ElasticMode::kConsistent;
  made.logical_workers = kDevices;
  return made;
}

// Half of the jobs have been measured; the others' lengths are guesses.
Snapshot queue_of(int jobs, const std::string& policy) {
  Random random(1);
  Snapshot snapshot{.at = 1e9,
                    .cluster = control::Machine{.type = "cpu", .devices = kDevices},
                    .policy = {.name = policy, .settings = {}, .tenants = {}}};
  int free = kDevices;
  for (int i = 0; i < jobs; ++i) {
    SnapshotJob& job = snapshot.jobs.emplace_back();
    job.record.number = i + 1;
    job.record.document = document(random);
    job.record.document.run.push_back(fmt::format("--seed={}", i));
    job.record.tenant = "default";
    job.record.submitted_at = snapshot.at - jobs + i;
    const int needs = job.record.document.min_devices;
    if (free >= needs) {
      free -= needs;
      job.record.phase = control::Phase::kRunning;
      job.record.granted = job.record.held = needs;
      job.record.started_at = job.record.held_at = job.record.submitted_at;
    }
    if (random.chance(0.5)) {
      job.profile = control::Profile(kDevices);
      job.profile.note({.devices = needs, .batch = 64, .step_s = 0.1});
      job.record.progress = {{"step", 0}, {"total_steps", random.between(100, 100'000)}};
    }
  }
  return snapshot;
}

double cpu_s() {  // of this thread
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::string ahead(const nlohmann::json& plan) {
  if (plan["placed"].get<bool>()) return "starts now";
  if (!plan["horizon_s"].is_number()) return "to the job's end";
  return fmt::format("{:.1f} h", plan["horizon_s"].get<double>() / 3600);
}

int run() {
  std::atomic<bool> over{false};
  std::vector<std::thread> busy(std::max(1u, std::thread::hardware_concurrency()));
  for (std::thread& thread : busy) {
    thread = std::thread([&] {
      std::uint64_t sum = 0;
      while (!over) ++sum;
      static_cast<void>(sum);
    });
  }
  fmt::print(
      "plan with one busy thread on each of {} cores, {} devices; the largest of {} runs\n\n",
      busy.size(), kDevices, kRepeats);
  fmt::print("{:<16} {:>8} {:>10} {:>10}   {}\n", "policy", "jobs", "seconds", "CPU",
             "looked ahead");
  bool late = false;
  for (const char* policy : {"rubato", "fifo", "tiresias", "pollux"}) {
    for (const int jobs : {12, 20, 100, 1000}) {
      const Snapshot snapshot = queue_of(jobs, policy);
      Random random(2);
      double longest = 0;
      double most_cpu = 0;
      nlohmann::json plan;
      for (int i = 0; i < kRepeats; ++i) {
        const Clock::time_point begin = Clock::now();
        const double cpu_begin = cpu_s();
        auto made = control::plan_for(snapshot, document(random), control::Profile(), {});
        longest = std::max(longest, std::chrono::duration<double>(Clock::now() - begin).count());
        most_cpu = std::max(most_cpu, cpu_s() - cpu_begin);
        if (!made.ok()) {
          fmt::print(stderr, "plan_speed: {}\n", made.error().message);
          return 1;
        }
        plan = std::move(*made);
      }
      late = late || longest > kLimit;
      fmt::print("{:<16} {:>8} {:>10.2f} {:>10.2f}   {}\n", policy, jobs, longest, most_cpu,
                 ahead(plan));
      std::fflush(stdout);
    }
  }
  over = true;
  for (std::thread& thread : busy) thread.join();
  fmt::print("\n{}\n", late ? "FAILED: longer than 2 s" : "every plan within 2 s");
  return late ? 1 : 0;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
