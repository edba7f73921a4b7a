#include "sim/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace rubato {

namespace {

// Length in bytes of the valid UTF-8 sequence at the start of `text`; 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool too_high = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_high ? 0 : length;
}

bool is_control(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (lead < 0x20 || lead == 0x7F) return true;
  return lead == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

std::string cut(std::string_view text, std::size_t width) {
  if (code_points(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t bytes = 0;
  for (std::size_t i = 0; i + 1 < width; ++i) {
    bytes += std::max<std::size_t>(sequence_length(text.substr(bytes)), 1);
  }
  return std::string(text.substr(0, bytes)) + "…";
}

}  // namespace

std::vector<RunGroup> group_runs(std::span<const SimResult> runs) {
  std::map<std::string, std::set<std::uint64_t>> seeds;
  for (const SimResult& run : runs) seeds[run.summary.workload].insert(run.summary.seed);

  std::vector<RunGroup> groups;
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> group_of;
  for (const SimResult& run : runs) {
    const SimSummary& summary = run.summary;
    const auto [found, is_new] =
        group_of.try_emplace({summary.workload, summary.seed}, groups.size());
    if (is_new) {
      RunGroup group;
      group.title = seeds[summary.workload].size() > 1
                        ? fmt::format("{} (seed {})", summary.workload, summary.seed)
                        : summary.workload;
      groups.push_back(std::move(group));
    }
    RunGroup& group = groups[found->second];
    const auto earlier = std::count_if(
        group.runs.begin(), group.runs.end(),
        [&](const SimResult* other) { return other->summary.policy == summary.policy; });
    group.runs.push_back(&run);
    group.labels.push_back(earlier == 0 ? summary.policy
                                        : fmt::format("{} ({})", summary.policy, earlier + 1));
  }
  return groups;
}

std::optional<std::size_t> best_run(const RunGroup& group) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const SimSummary& run = group.runs[i]->summary;
    if (run.jobs_finished == 0) continue;
    if (best) {
      const SimSummary& leader = group.runs[*best]->summary;
      if (run.jobs_finished < leader.jobs_finished) continue;
      if (run.jobs_finished == leader.jobs_finished && run.mean_jct_s >= leader.mean_jct_s)
        continue;
    }
    best = i;
  }
  return best;
}

nlohmann::ordered_json summary_object(const SimSummary& summary) {
  nlohmann::ordered_json object;
  object["policy"] = summary.policy;
  object["workload"] = summary.workload;
  object["seed"] = summary.seed;
  visit_summary(summary, [&](const char* name, const auto& value) { object[name] = value; });
  return object;
}

std::string human_duration(Seconds seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds == 0) return "0s";
  if (seconds >= 86400e5) return ">99999d";
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  // Round before choosing the unit, so that 59.7 s becomes "1m00s" and not "60s".
  const long s = std::lround(seconds);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  const long m = std::lround(seconds / 60);
  if (m < 24 * 60) return fmt::format("{}h{:02}m", m / 60, m % 60);
  const long h = std::lround(seconds / 3600);
  return fmt::format("{}d{:02}h", h / 24, h % 24);
}

std::string human_milliseconds(double ms) {
  if (!std::isfinite(ms) || ms < 0) return "-";
  if (ms < 0.0995) return fmt::format("{:.0f}us", ms * 1000);
  if (ms < 0.995) return fmt::format("{:.2f}ms", ms);
  if (ms < 99.95) return fmt::format("{:.1f}ms", ms);
  if (ms < 999.5) return fmt::format("{:.0f}ms", ms);
  return human_duration(ms / 1000);
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || is_control(sequence)) {
      result += '?';
    } else {
      result += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return result;
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string fit_left(std::string_view text, std::size_t width) {
  std::string result = cut(text, width);
  result.append(width - code_points(result), ' ');
  return result;
}

std::string fit_right(std::string_view text, std::size_t width) {
  const std::string result = cut(text, width);
  return std::string(width - code_points(result), ' ') + result;
}

std::vector<TimelineBucket> bucket_timeline(std::span<const TimelinePoint> timeline,
                                            Seconds begin_s, Seconds end_s, std::size_t count) {
  const double width = (end_s - begin_s) / static_cast<double>(count);
  std::vector<TimelineBucket> buckets(count);
  for (std::size_t b = 0; b < count; ++b) {
    buckets[b].begin_s = begin_s + static_cast<double>(b) * width;
  }
  if (!(width > 0)) return buckets;

  std::size_t first = 0;
  for (std::size_t i = 0; i + 1 < timeline.size(); ++i) {
    const TimelinePoint& point = timeline[i];
    const Seconds until_s = std::min(timeline[i + 1].time_s, end_s);
    const auto bucket_end = [&](std::size_t b) {
      return b + 1 < count ? buckets[b + 1].begin_s : end_s;
    };
    while (first < count && bucket_end(first) <= point.time_s) ++first;
    for (std::size_t b = first; b < count && buckets[b].begin_s < until_s; ++b) {
      TimelineBucket& bucket = buckets[b];
      const double share =
          std::min(until_s, bucket_end(b)) - std::max(point.time_s, bucket.begin_s);
      if (share <= 0) continue;
      if (bucket.covered_s == 0) {
        bucket.allocated_low = bucket.allocated_high = point.allocated;
        bucket.waiting_low = bucket.waiting_high = point.waiting;
      }
      bucket.covered_s += share;
      bucket.usable += share * point.usable;
      bucket.allocated += share * point.allocated;
      bucket.useful += share * point.useful;
      bucket.running += share * point.running;
      bucket.waiting += share * point.waiting;
      bucket.allocated_low = std::min(bucket.allocated_low, point.allocated);
      bucket.allocated_high = std::max(bucket.allocated_high, point.allocated);
      bucket.waiting_low = std::min(bucket.waiting_low, point.waiting);
      bucket.waiting_high = std::max(bucket.waiting_high, point.waiting);
    }
  }
  for (TimelineBucket& bucket : buckets) {
    if (bucket.covered_s == 0) continue;
    bucket.usable /= bucket.covered_s;
    bucket.allocated /= bucket.covered_s;
    bucket.useful /= bucket.covered_s;
    bucket.running /= bucket.covered_s;
    bucket.waiting /= bucket.covered_s;
  }
  return buckets;
}

}  // namespace rubato
