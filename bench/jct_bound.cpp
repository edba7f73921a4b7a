// How short could the mean completion time be at all? A lower bound for a workload of the Pollux
// artifact on one device type, for a scheduler that knows the future, changes devices for nothing
// and at any moment, and divides devices like a fluid. `jct_bound [LOAD] [NUMBER]...`
//
// Every job is known by one curve: its seconds alone on k devices throughout, packed, with the best
// batch in every epoch (so a job that is better kept small early and large late could beat its
// curve a little). The capacity is relaxed with a price per device and minute; given prices, the
// cheapest way of finishing a job at a given time is known in closed form up to one multiplier, so
// that every vector of prices gives a bound. Prices are improved by subgradient steps.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "model/goodput.h"
#include "recorded.h"

namespace rubato::bench {
namespace {

constexpr double kStep = 60;  // seconds
constexpr int kMultipliers = 96;
constexpr int kIterations = 600;

// Seconds alone on k devices, the rate of work (1 / that), on the concave majorant's sizes.
struct Curve {
  std::vector<int> devices;
  std::vector<double> rate;
};

Curve measure(const rubato::Application& app, int most, const Cluster& cluster) {
  Curve curve;
  const DeviceTypeId type(0);
  const int node = cluster.node_size(type);
  for (int k = 1; k <= most; k = k < node ? 2 * k : k + node) {
    const Placement placement = Placement::packed(type, k, node);
    double seconds = 0;
    for (int epoch = 0; epoch < app.epochs(); ++epoch) {
      double best = 0;
      const auto low = std::max<double>(static_cast<double>(app.batch().initial),
                                        static_cast<double>(app.batch().min_local * k));
      const auto high = static_cast<double>(app.batch().max);
      for (int i = 0; i < 50 && low <= high; ++i) {
        const auto total = static_cast<std::int64_t>(low * std::exp(std::log(high / low) * i / 49));
        const BatchShape shape = split_batch(total, k, app.batch());
        if (shape.local < app.batch().min_local || shape.local > app.batch().max_local) continue;
        const double update = app.speed(type)->step_time(placement, shape.local).update_s(shape);
        const auto batch = static_cast<double>(shape.total(k));
        const double gain =
            update_gain(app.noise(batch, epoch), batch / static_cast<double>(app.batch().initial));
        best = std::max(best, gain / update);
      }
      if (best <= 0) return curve;
      seconds += (app.progress_after(epoch + 1) - app.progress_after(epoch)) / best;
    }
    curve.devices.push_back(k);
    curve.rate.push_back(1 / seconds);
  }
  return curve;
}

struct BoundJob {
  std::size_t app = 0;
  double submit_s = 0;
};

// Only sizes on the concave majorant can be the best at any price.
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

double bound(const std::vector<Curve>& apps, const std::vector<BoundJob>& jobs, int devices,
             std::size_t steps) {
  std::vector<double> price(steps, 0.0);
  // A start that is not far off: as many jobs as are waiting would gain from a device.
  for (std::size_t t = 0; t < steps; ++t) price[t] = 0.3;
  double best = 0;
  std::vector<std::vector<std::vector<double>>> gain(apps.size());  // app, multiplier, prefix
  for (auto& g : gain) g.assign(kMultipliers, std::vector<double>(steps + 1, 0.0));
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    // Multipliers are the worth of a whole job, in seconds.
    const auto worth = [](int m) { return std::exp(std::log(2e7) * m / (kMultipliers - 1)) * 10; };
    for (std::size_t a = 0; a < apps.size(); ++a) {
      for (int m = 0; m < kMultipliers; ++m) {
        auto& prefix = gain[a][static_cast<std::size_t>(m)];
        for (std::size_t t = 0; t < steps; ++t) {
          double most = 0;
          for (std::size_t i = 0; i < apps[a].devices.size(); ++i) {
            most = std::max(most, worth(m) * apps[a].rate[i] - price[t] * apps[a].devices[i]);
          }
          prefix[t + 1] = prefix[t] + most * kStep;
        }
      }
    }
    double value = 0;
    std::vector<double> used(steps, 0.0);
    for (const BoundJob& job : jobs) {
      const auto first = static_cast<std::size_t>(job.submit_s / kStep);
      const double offset = job.submit_s / kStep - static_cast<double>(first);
      double cheapest = 1e300;
      int best_m = 0;
      std::size_t best_end = 0;
      // For an end, the cost is the maximum over multipliers of a concave function.
      int m = 0;
      for (std::size_t end = first; end < steps; ++end) {
        const auto cost = [&](int mm) {
          const auto& g = gain[job.app][static_cast<std::size_t>(mm)];
          return worth(mm) - (g[end + 1] - g[first] - offset * (g[first + 1] - g[first]));
        };
        if (end == first) {
          for (int mm = 1; mm < kMultipliers; ++mm) {
            if (cost(mm) > cost(m)) m = mm;
          }
        } else {
          while (m > 0 && cost(m - 1) >= cost(m)) --m;
          while (m + 1 < kMultipliers && cost(m + 1) > cost(m)) ++m;
        }
        // Ended half-way through the last step, on average.
        const double jct = std::max(0.0, (static_cast<double>(end) + 0.5) * kStep - job.submit_s);
        const double total = jct + std::max(0.0, cost(m));
        if (total < cheapest) {
          cheapest = total;
          best_m = m;
          best_end = end;
        }
        if (jct > cheapest) break;
      }
      value += cheapest;
      const Curve& curve = apps[job.app];
      double done = 0;
      for (std::size_t t = first; t <= best_end; ++t) {
        double most = 0;
        double size = 0;
        double rate = 0;
        for (std::size_t i = 0; i < curve.devices.size(); ++i) {
          const double w = worth(best_m) * curve.rate[i] - price[t] * curve.devices[i];
          if (w <= most) continue;
          most = w;
          size = curve.devices[i];
          rate = curve.rate[i];
        }
        done += rate * kStep;
        used[t] += size;
      }
      // The multipliers are a grid: scaled to the work of the job.
      if (done > 0) {
        for (std::size_t t = first; t <= best_end; ++t) {
          double most = 0;
          double size = 0;
          for (std::size_t i = 0; i < curve.devices.size(); ++i) {
            const double w = worth(best_m) * curve.rate[i] - price[t] * curve.devices[i];
            if (w <= most) continue;
            most = w;
            size = curve.devices[i];
          }
          used[t] += size * (1 / done - 1);
        }
      }
    }
    for (std::size_t t = 0; t < steps; ++t) value -= price[t] * devices * kStep;
    best = std::max(best, value / static_cast<double>(jobs.size()));
    const double pace = 0.2 / (1 + 0.02 * iteration);
    for (std::size_t t = 0; t < steps; ++t) {
      price[t] = std::max(
          0.0, price[t] * (1 + pace * std::clamp((used[t] - devices) / devices, -0.9, 2.0)) +
                   (used[t] > devices ? 1e-4 * pace : 0));
    }
  }
  return best;
}

int run(int argc, char** argv) {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  const std::string load = argc > 1 ? argv[1] : "1.0";
  std::vector<std::string> numbers(argv + std::min(argc, 2), argv + argc);
  if (numbers.empty()) numbers = {"1", "2", "3", "4", "5", "6"};
  const Cluster cluster = or_die(Cluster::parse("16x4"));
  const Applications applications = or_die(read_profiles(data + "/pollux/profiles", cluster));
  double sum = 0;
  for (const std::string& number : numbers) {
    const Workload workload = or_die(
        read_workload(fmt::format("{}/pollux/workloads-{}/workload-{}.csv", data, load, number),
                      cluster, applications, {.format = WorkloadFormat::kPollux}));
    std::vector<Curve> curves;
    std::map<std::string, std::size_t> index;
    std::vector<BoundJob> jobs;
    double area = 0;
    double alone = 0;
    for (const WorkloadJob& job : workload.jobs) {
      const auto [at, fresh] = index.try_emplace(job.application->name(), curves.size());
      if (fresh) curves.push_back(measure(*job.application, job.spec.max_devices, cluster));
      jobs.push_back({.app = at->second, .submit_s = job.spec.submit_s});
      const Curve& c = curves[at->second];
      area += 1 / c.rate.front();
      alone += 1 / *std::max_element(c.rate.begin(), c.rate.end());
    }
    if (number == numbers.front()) {
      for (const auto& [name, i] : index) {
        fmt::print("{:<12}", name);
        for (std::size_t s = 0; s < curves[i].devices.size(); ++s) {
          if (curves[i].devices[s] <= 8 || curves[i].devices[s] % 8 == 0)
            fmt::print(" {}:{:.0f}s({:.2f})", curves[i].devices[s], 1 / curves[i].rate[s],
                       curves[i].rate[s] / curves[i].rate[0] / curves[i].devices[s]);
        }
        fmt::print("\n");
      }
    }
    const double last = jobs.back().submit_s;
    const auto steps =
        static_cast<std::size_t>((last + 2.5 * area / cluster.devices() + 40000) / kStep);
    std::vector<Curve> hulls;
    for (const Curve& curve : curves) hulls.push_back(majorant(curve));
    const double b = bound(hulls, jobs, cluster.devices(), steps);
    sum += b / static_cast<double>(numbers.size());
    fmt::print(
        "workload {} load {}: {} jobs, {:.0f} device hours on one device, mean alone {:.0f} s, "
        "mean completion at least {:.0f} s\n",
        number, load, jobs.size(), area / 3600, alone / static_cast<double>(jobs.size()), b);
  }
  fmt::print("mean over workloads: at least {:.0f} s\n", sum);
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
