#include "sim/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <vector>

#include "base/file.h"
#include "base/ids.h"
#include "sim/mix.h"
#include "sim/workload_readers.h"

namespace rubato {

namespace {

constexpr Seconds kHour = 3600;

// Draws all arrivals independently from a density over [0, span) and sorts them. This is the
// distribution of a Poisson process with that rate, given the number of arrivals.
template <typename Rate>
std::vector<Seconds> draw_arrivals(int count, Seconds span, Rate relative_rate, Random& random) {
  std::vector<Seconds> times;
  times.reserve(static_cast<std::size_t>(count));
  while (times.size() < static_cast<std::size_t>(count)) {
    const Seconds time = random.uniform() * span;
    if (random.chance(relative_rate(time))) times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Rate of the quiet periods relative to the bursts.
constexpr double kQuietRate = 1.0 / 20;

// Times at which the state changes, starting with a quiet period at 0.
std::vector<Seconds> draw_bursts(Seconds span, Random& random) {
  constexpr Seconds kMeanQuiet = 25 * 60;
  constexpr Seconds kMeanBurst = 5 * 60;
  std::vector<Seconds> changes;
  bool quiet = true;
  for (Seconds time = 0; time < span; quiet = !quiet) {
    time += random.exponential(quiet ? kMeanQuiet : kMeanBurst);
    changes.push_back(time);
  }
  return changes;
}

std::vector<Seconds> arrival_times(const GenerateOptions& options, Random random) {
  const Seconds span = options.hours * kHour;
  switch (options.arrival) {
    case Arrival::kPoisson:
      break;
    case Arrival::kDiurnal: {
      constexpr double kSwing = 0.75;
      return draw_arrivals(
          options.jobs, span,
          [](Seconds time) {
            const double day = 2 * std::numbers::pi * time / (24 * kHour);
            return (1 - kSwing * std::cos(day)) / (1 + kSwing);
          },
          random);
    }
    case Arrival::kBursty: {
      const std::vector<Seconds> changes = draw_bursts(span, random);
      return draw_arrivals(
          options.jobs, span,
          [&](Seconds time) {
            const auto next = std::upper_bound(changes.begin(), changes.end(), time);
            return (next - changes.begin()) % 2 == 0 ? kQuietRate : 1.0;
          },
          random);
    }
  }
  return draw_arrivals(
      options.jobs, span, [](Seconds) { return 1.0; }, random);
}

void append_job(const JobKind& kind, std::size_t number, Seconds submit, Random& random,
                std::string& lines) {
  const auto out = std::back_inserter(lines);
  const int devices = kind.devices.draw(random);
  if (kind.application.empty()) {
    constexpr Seconds kLongest = 1e9;
    const Seconds duration =
        std::clamp(kind.median_s * std::exp(kind.sigma * random.normal()), 1.0, kLongest);
    fmt::format_to(out,
                   "{{\"id\": \"job-{}\", \"submit_s\": {:.1f}, \"duration_s\": {:.0f}, "
                   "\"devices\": {}}}\n",
                   number, submit, duration, devices);
    return;
  }
  fmt::format_to(out,
                 "{{\"id\": \"{0}-{1}\", \"submit_s\": {2:.1f}, \"application\": \"{0}\", "
                 "\"devices\": {3}",
                 kind.application, number, submit, devices);
  if (kind.batch_per_device > 0) {
    fmt::format_to(out, ", \"batch\": {}", kind.batch_per_device * devices);
  }
  fmt::format_to(out, "}}\n");
}

// Every kind occurs in proportion to its weight, to within one job, in random order. With
// independent draws, the load of a small workload would be a matter of luck, because most of it
// comes from a few large jobs.
std::vector<const JobKind*> draw_kinds(const JobMix& mix, int count, Random& random) {
  std::vector<const JobKind*> kinds;
  kinds.reserve(static_cast<std::size_t>(count));
  const double offset = random.uniform();
  for (int i = 0; i < count; ++i) kinds.push_back(&mix.at((i + offset) / count));
  for (std::size_t i = kinds.size(); i > 1; --i) {
    std::swap(kinds[i - 1], kinds[random.below(static_cast<std::uint32_t>(i))]);
  }
  return kinds;
}

}  // namespace

Result<std::string> generate_workload(const GenerateOptions& options) {
  constexpr int kMostJobs = 10'000'000;
  constexpr double kMostHours = 1'000'000;
  if (options.jobs < 1 || options.jobs > kMostJobs) {
    return invalid_input(
        fmt::format("{} jobs: expected a number from 1 to {}", options.jobs, kMostJobs));
  }
  if (!(options.hours > 0 && options.hours <= kMostHours)) {
    return invalid_input(
        fmt::format("{} hours: expected a number above 0 and up to {}", options.hours, kMostHours));
  }
  std::string mix_name = "built-in mix";
  std::string mix_text(default_mix());
  if (!options.mix_file.empty()) {
    auto read = read_file(options.mix_file);
    if (!read) return read.error();
    mix_name = options.mix_file;
    mix_text = std::move(*read);
  }
  const auto mix = parse_mix(mix_name, mix_text);
  if (!mix) return printable(mix.error(), mix_name);

  Random random(options.seed);
  Random job_random = random.fork();
  const std::vector<Seconds> times = arrival_times(options, random.fork());
  const std::vector<const JobKind*> kinds = draw_kinds(*mix, options.jobs, job_random);
  std::string lines;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    append_job(*kinds[i], i, times[i], job_random, lines);
  }
  return lines;
}

}  // namespace rubato
