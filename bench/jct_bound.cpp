// How short could the mean completion time be at best (`make bench-bound`)? Estimates a lower bound
// for the workloads of the Pollux artifact: a scheduler that knows the future and all speeds,
// changes devices at any moment without cost, and divides devices like a fluid. Arguments: load
// (1.0), numbers of workloads (1 to 6).
//
// A job is a chain of up to eight phases: parts of its epochs that scale in the same way. In each
// phase it has a rate on k devices, packed, with the best batch in every epoch. The capacity is
// relaxed with a price per device and half minute. At given prices, the cheapest way of doing a
// phase between two moments is known up to one multiplier, and a dynamic program over phases and
// moments gives the least sum of completion time and price for every job. The total minus the value
// of the capacity is a bound for any prices; they are improved by subgradient steps. It is only an
// estimate, because a phase is assumed to scale in one way and to end at a multiple of half a
// minute.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "model/goodput.h"
#include "recorded.h"

namespace rubato::bench {
namespace {

constexpr double kStep = 30;            // seconds
constexpr double kShortestPhase = 240;  // seconds at the best size
constexpr int kBatches = 50;
constexpr std::size_t kMostPhases = 8;
constexpr std::size_t kMultipliers = 80;
constexpr int kIterations = 150;

// Share of a phase completed per second, by number of devices.
struct Curve {
  std::vector<int> devices;
  std::vector<double> rate;
};

struct BoundJob {
  std::size_t app = 0;
  double submit_s = 0;
};

// Seconds of every epoch on k devices; empty if no batch fits them.
std::vector<double> epoch_seconds(const Application& app, int k, const Cluster& cluster) {
  const DeviceTypeId type(0);
  const Placement placement = Placement::packed(type, k, cluster.node_size(type));
  const auto low = static_cast<double>(std::max(app.batch().initial, app.batch().min_local * k));
  const auto high = static_cast<double>(app.batch().max);
  std::vector<double> seconds;
  for (int epoch = 0; epoch < app.epochs() && low <= high; ++epoch) {
    double best = 0;
    for (int i = 0; i < kBatches; ++i) {
      const auto total =
          static_cast<std::int64_t>(low * std::exp(std::log(high / low) * i / (kBatches - 1)));
      const BatchShape shape = split_batch(total, k, app.batch());
      if (shape.local < app.batch().min_local || shape.local > app.batch().max_local) continue;
      const double update = app.speed(type)->step_time(placement, shape.local).update_s(shape);
      const auto batch = static_cast<double>(shape.total(k));
      const double gain =
          update_gain(app.noise(batch, epoch), batch / static_cast<double>(app.batch().initial));
      best = std::max(best, gain / update);
    }
    if (best <= 0) return {};
    seconds.push_back((app.progress_after(epoch + 1) - app.progress_after(epoch)) / best);
  }
  return seconds;
}

// Keeps only the sizes on the concave majorant: no other size is best at any price.
Curve majorant(const Curve& curve) {
  Curve hull;
  double rate = 0;
  int devices = 0;
  while (true) {
    double steepest = 0;
    std::size_t best = 0;
    for (std::size_t i = 0; i < curve.devices.size(); ++i) {
      if (curve.devices[i] <= devices) continue;
      const double slope = (curve.rate[i] - rate) / (curve.devices[i] - devices);
      if (slope < steepest || slope <= 0) continue;
      steepest = slope;
      best = i;
    }
    if (steepest <= 0) return hull;
    rate = curve.rate[best];
    devices = curve.devices[best];
    hull.devices.push_back(devices);
    hull.rate.push_back(rate);
  }
}

std::vector<Curve> measure(const Application& app, int most, const Cluster& cluster) {
  std::map<int, std::vector<double>> seconds;
  double shortest = std::numeric_limits<double>::infinity();
  for (int k = 1; k <= most; ++k) {
    std::vector<double> of = epoch_seconds(app, k, cluster);
    if (of.empty()) continue;
    shortest = std::min(shortest, std::accumulate(of.begin(), of.end(), 0.0));
    seconds.emplace(k, std::move(of));
  }
  const auto epochs = static_cast<std::size_t>(app.epochs());
  const std::size_t phases = std::clamp(static_cast<std::size_t>(shortest / kShortestPhase),
                                        std::size_t{1}, std::min(kMostPhases, epochs));
  std::vector<Curve> chain;
  for (std::size_t p = 0; p < phases; ++p) {
    Curve curve;
    for (const auto& [k, of] : seconds) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(epochs * p / phases);
      const auto last = of.begin() + static_cast<std::ptrdiff_t>(epochs * (p + 1) / phases);
      curve.devices.push_back(k);
      curve.rate.push_back(1 / std::accumulate(first, last, 0.0));
    }
    chain.push_back(majorant(curve));
  }
  return chain;
}

// Prices of a device in every step, and what jobs do at these prices.
class Relaxation {
 public:
  Relaxation(const std::vector<std::vector<Curve>>& apps, const std::vector<BoundJob>& jobs,
             int devices, std::size_t steps)
      : apps_(apps), jobs_(jobs), devices_(devices), price_(steps, 0.3), used_(steps) {}

  double best_bound() {
    double best = 0;
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      best = std::max(best, bound() / static_cast<double>(jobs_.size()));
      const double pace = 0.2 / (1 + 0.02 * iteration);
      for (std::size_t t = 0; t < price_.size(); ++t) {
        const double excess = std::clamp((used_[t] - devices_) / devices_, -0.9, 2.0);
        price_[t] = std::max(0.0, price_[t] * (1 + pace * excess) + (excess > 0 ? 1e-4 * pace : 0));
      }
    }
    return best;
  }

 private:
  // From a phase and a moment on: the least cost, when the phase then ends, and its multiplier.
  struct Course {
    double cost = std::numeric_limits<double>::infinity();
    std::size_t end = 0;
    std::size_t m = 0;
  };

  // The value of a whole phase, in seconds: a grid of multipliers.
  static double worth(std::size_t m) {
    return 3 * std::exp(std::log(2e7) * static_cast<double>(m) / (kMultipliers - 1));
  }

  // What a job gains per second at this price and value, and the best size.
  static std::pair<double, std::size_t> choose(const Curve& curve, double worth, double price) {
    std::pair<double, std::size_t> best{0, curve.devices.size()};
    for (std::size_t i = 0; i < curve.devices.size(); ++i) {
      const double gain = worth * curve.rate[i] - price * curve.devices[i];
      if (gain > best.first) best = {gain, i};
    }
    return best;
  }

  double bound() {
    std::vector<std::vector<std::vector<Course>>> courses;
    for (const std::vector<Curve>& phases : apps_) courses.push_back(plan(phases));
    std::fill(used_.begin(), used_.end(), 0.0);
    double value = 0;
    for (const BoundJob& job : jobs_) {
      const std::vector<Course>& start = courses[job.app].front();
      const auto before = static_cast<std::size_t>(job.submit_s / kStep);
      const double share = job.submit_s / kStep - static_cast<double>(before);
      value += (1 - share) * start[before].cost + share * start[before + 1].cost - job.submit_s;
      std::size_t t = before + (share > 0.5 ? 1 : 0);
      for (std::size_t p = 0; p < courses[job.app].size(); ++p) {
        const Course& course = courses[job.app][p][t];
        note_use(apps_[job.app][p], t, course);
        t = course.end;
      }
    }
    for (const double price : price_) value -= price * devices_ * kStep;
    return value;
  }

  // By phase and step. A job that is done at step t has the cost t.
  std::vector<std::vector<Course>> plan(const std::vector<Curve>& phases) const {
    const std::size_t steps = price_.size();
    std::vector<std::vector<Course>> result(phases.size(), std::vector<Course>(steps));
    for (std::size_t p = phases.size(); p-- > 0;) {
      std::vector<std::vector<double>> gain(kMultipliers, std::vector<double>(steps + 1, 0.0));
      for (std::size_t m = 0; m < kMultipliers; ++m) {
        for (std::size_t t = 0; t < steps; ++t) {
          gain[m][t + 1] = gain[m][t] + kStep * choose(phases[p], worth(m), price_[t]).first;
        }
      }
      for (std::size_t t = 0; t + 1 < steps; ++t) {
        Course& best = result[p][t];
        std::size_t m = kMultipliers - 1;
        for (std::size_t end = t + 1; end < steps; ++end) {
          if (static_cast<double>(end) * kStep > best.cost) break;
          const auto cost = [&](std::size_t n) { return worth(n) - (gain[n][end] - gain[n][t]); };
          while (m > 0 && cost(m - 1) >= cost(m)) --m;
          const double rest =
              p + 1 < phases.size() ? result[p + 1][end].cost : static_cast<double>(end) * kStep;
          const double total = std::max(0.0, cost(m)) + rest;
          if (total < best.cost) best = {.cost = total, .end = end, .m = m};
        }
      }
    }
    return result;
  }

  // Multipliers are on a grid, so the work that they imply is scaled to what the job has.
  void note_use(const Curve& curve, std::size_t first, const Course& course) {
    std::vector<int> size;
    double done = 0;
    for (std::size_t t = first; t < course.end; ++t) {
      const std::size_t i = choose(curve, worth(course.m), price_[t]).second;
      size.push_back(i < curve.devices.size() ? curve.devices[i] : 0);
      done += i < curve.devices.size() ? curve.rate[i] * kStep : 0;
    }
    if (done <= 0) return;
    for (std::size_t t = first; t < course.end; ++t) used_[t] += size[t - first] / done;
  }

  const std::vector<std::vector<Curve>>& apps_;
  const std::vector<BoundJob>& jobs_;
  double devices_;
  std::vector<double> price_;
  std::vector<double> used_;
};

double bound(const Workload& workload, const Cluster& cluster) {
  std::vector<std::vector<Curve>> apps;
  std::map<std::string, std::size_t> index;
  std::vector<BoundJob> jobs;
  double area = 0;
  for (const WorkloadJob& job : workload.jobs) {
    const auto [at, fresh] = index.try_emplace(job.application->name(), apps.size());
    if (fresh) apps.push_back(measure(*job.application, job.spec.max_devices, cluster));
    jobs.push_back({.app = at->second, .submit_s = job.spec.submit_s});
    for (const Curve& c : apps[at->second]) area += c.devices.front() / c.rate.front();
  }
  const double horizon = jobs.back().submit_s + 1.5 * area / cluster.devices() + 30'000;
  return Relaxation(apps, jobs, cluster.devices(), static_cast<std::size_t>(horizon / kStep))
      .best_bound();
}

// Mean completion time with 1 s per change. The policy decides every minute or, if it asks for it,
// at events.
double simulated(const Workload& workload, const Cluster& cluster, std::string_view policy) {
  SimOptions options;
  if (!or_die(find_policy(policy))->at_events) options.round_s = 60;
  options.resize.stop_s = 1;
  options.quirks = {.whole_second_epochs = true, .whole_epoch_remaining = true};
  return or_die(simulate(cluster, workload, *or_die(find_policy(policy)), options))
      .summary.mean_jct_s;
}

int run(int argc, char** argv) {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  const std::string load = argc > 1 ? argv[1] : "1.0";
  std::vector<std::string> numbers(argv + std::min(argc, 2), argv + argc);
  if (numbers.empty()) numbers = {"1", "2", "3", "4", "5", "6"};
  const Cluster cluster = or_die(Cluster::parse("16x4"));
  const Applications applications = or_die(read_profiles(data + "/pollux/profiles", cluster));
  struct Line {
    double bound = 0, rubato = 0, pollux = 0;
  };
  std::vector<Line> lines(numbers.size());
  parallel_for(numbers.size(), hardware_threads(), [&](std::size_t i) {
    const Workload workload = or_die(
        read_workload(fmt::format("{}/pollux/workloads-{}/workload-{}.csv", data, load, numbers[i]),
                      cluster, applications, {.format = WorkloadFormat::kPollux}));
    lines[i] = {.bound = bound(workload, cluster),
                .rubato = simulated(workload, cluster, "rubato"),
                .pollux = simulated(workload, cluster, "pollux")};
  });
  fmt::print(
      "Mean completion time in seconds, Pollux workloads, load {}, 16x4, 1 s per change. The "
      "estimate is\nwhat a scheduler that knows everything in advance could hardly beat.\n{:<10} "
      "{:>10} {:>10} {:>10} {:>14} {:>16}\n",
      load, "workload", "estimate", "rubato", "pollux", "rubato/pollux", "estimate/pollux");
  const auto print = [](std::string_view name, const Line& line) {
    fmt::print("{:<10} {:>10.0f} {:>10.0f} {:>10.0f} {:>13.2f}x {:>15.2f}x\n", name, line.bound,
               line.rubato, line.pollux, line.rubato / line.pollux, line.bound / line.pollux);
  };
  Line mean;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    print(numbers[i], lines[i]);
    const double share = 1.0 / static_cast<double>(lines.size());
    mean.bound += lines[i].bound * share;
    mean.rubato += lines[i].rubato * share;
    mean.pollux += lines[i].pollux * share;
  }
  print("mean", mean);
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
