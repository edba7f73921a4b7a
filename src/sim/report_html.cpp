#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report.h"
#include "sim/report_page.h"
#include "sim/report_parts.h"

namespace rubato {

namespace {

using Json = nlohmann::ordered_json;

// A page stays below 2 MB. All runs share these budgets, up to what a single curve needs.
constexpr std::size_t kAllTimelinePoints = 18000, kMostTimelinePoints = 1000;
constexpr std::size_t kAllCdfPoints = 16000, kMostCdfPoints = 400;
constexpr std::size_t kFewestPoints = 60;

std::size_t points_per_run(std::size_t all, std::size_t most, std::size_t runs) {
  return std::clamp(all / std::max<std::size_t>(runs, 1), kFewestPoints, most);
}

// Drops digits that a plot cannot show; they would only make the page larger.
double rounded(double value, double per_unit) { return std::round(value * per_unit) / per_unit; }

double significant(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double per_unit = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return rounded(value, per_unit);
}

template <typename Item, typename Value>
Json column(const std::vector<Item>& items, Value value) {
  Json array = Json::array();
  for (const Item& item : items) array.push_back(value(item));
  return array;
}

// Drops states of zero duration. They would draw spikes that nobody could have observed.
std::vector<TimelinePoint> lasting_states(const std::vector<TimelinePoint>& timeline) {
  std::vector<TimelinePoint> kept;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const bool last = i + 1 == timeline.size();
    if (last || timeline[i + 1].time_s > timeline[i].time_s) kept.push_back(timeline[i]);
  }
  return kept;
}

// Each state holds from t[i] to t[i + 1], the last one until `end`. Long timelines are averaged and
// then include the extremes.
Json timeline_object(const std::vector<TimelinePoint>& timeline, std::size_t most_points) {
  if (timeline.empty()) return nullptr;
  const Seconds begin_s = timeline.front().time_s;
  const Seconds end_s = timeline.back().time_s;
  Json object;
  object["end"] = rounded(end_s, 10);
  if (timeline.size() <= most_points) {
    using Point = TimelinePoint;
    object["t"] = column(timeline, [](const Point& p) { return rounded(p.time_s, 10); });
    object["usable"] = column(timeline, [](const Point& p) { return p.usable; });
    object["allocated"] = column(timeline, [](const Point& p) { return p.allocated; });
    object["useful"] = column(timeline, [](const Point& p) { return rounded(p.useful, 10); });
    object["running"] = column(timeline, [](const Point& p) { return p.running; });
    object["waiting"] = column(timeline, [](const Point& p) { return p.waiting; });
    return object;
  }
  using Bucket = TimelineBucket;
  const std::vector<Bucket> buckets = bucket_timeline(timeline, begin_s, end_s, most_points);
  object["averaged_over_s"] = (end_s - begin_s) / static_cast<double>(most_points);
  object["t"] = column(buckets, [](const Bucket& b) { return rounded(b.begin_s, 10); });
  object["usable"] = column(buckets, [](const Bucket& b) { return rounded(b.usable, 10); });
  object["allocated"] = column(buckets, [](const Bucket& b) { return rounded(b.allocated, 10); });
  object["useful"] = column(buckets, [](const Bucket& b) { return rounded(b.useful, 10); });
  object["running"] = column(buckets, [](const Bucket& b) { return rounded(b.running, 10); });
  object["waiting"] = column(buckets, [](const Bucket& b) { return rounded(b.waiting, 10); });
  object["allocated_low"] = column(buckets, [](const Bucket& b) { return b.allocated_low; });
  object["allocated_high"] = column(buckets, [](const Bucket& b) { return b.allocated_high; });
  object["waiting_low"] = column(buckets, [](const Bucket& b) { return b.waiting_low; });
  object["waiting_high"] = column(buckets, [](const Bucket& b) { return b.waiting_high; });
  return object;
}

// Points (x, y): a share y of all jobs, finished or not, took at most x seconds.
Json cdf_object(const std::vector<JobResult>& jobs, std::size_t most_points) {
  std::vector<double> jct;
  for (const JobResult& job : jobs) {
    if (job.finished()) jct.push_back(job.jct_s());
  }
  std::sort(jct.begin(), jct.end());
  const std::size_t points = std::min(jct.size(), most_points);
  Json x = Json::array(), y = Json::array();
  for (std::size_t k = 0; k < points; ++k) {
    const std::size_t i = points == 1 ? 0 : k * (jct.size() - 1) / (points - 1);
    x.push_back(significant(jct[i], 5));
    y.push_back(rounded(static_cast<double>(i + 1) / static_cast<double>(jobs.size()), 1e4));
  }
  return {{"x", std::move(x)}, {"y", std::move(y)}};
}

Json page_data(std::span<const SimResult> runs, const ReportContext& context) {
  const std::size_t timeline_points =
      points_per_run(kAllTimelinePoints, kMostTimelinePoints, runs.size());
  const std::size_t cdf_points = points_per_run(kAllCdfPoints, kMostCdfPoints, runs.size());

  std::vector<std::string> policies;
  Json groups = Json::array();
  for (const RunGroup& group : group_runs(runs)) {
    Json group_object = {{"title", group.title}, {"runs", Json::array()}};
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const SimResult& run = *group.runs[i];
      auto policy = std::find(policies.begin(), policies.end(), group.labels[i]);
      if (policy == policies.end()) policy = policies.insert(policy, group.labels[i]);
      Json run_object;
      run_object["policy"] = policy - policies.begin();
      run_object["summary"] = summary_object(run.summary);
      run_object["timeline"] = timeline_object(lasting_states(run.timeline), timeline_points);
      run_object["cdf"] = cdf_object(run.jobs, cdf_points);
      group_object["runs"].push_back(std::move(run_object));
    }
    const auto best = best_run(group);
    group_object["best"] = best ? Json(*best) : Json(nullptr);
    groups.push_back(std::move(group_object));
  }
  Json data;
  data["command"] = context.command;
  data["cluster"] = context.cluster;
  data["round"] = context.round;
  data["resize_cost_s"] = context.resize_cost_s;
  data["policies"] = policies;
  data["groups"] = std::move(groups);
  return data;
}

// JSON that is safe inside a script element. Markup characters occur only in strings, where an
// escape means the same.
std::string script_json(const Json& data) {
  const std::string plain = data.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(plain.size());
  for (const char c : plain) {
    switch (c) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string html_report(std::span<const SimResult> runs, const ReportContext& context) {
  std::string page(page_before_data());
  page += script_json(page_data(runs, context));
  page += page_after_data();
  page += page_script_tools();
  page += page_script_charts();
  page += page_end();
  return page;
}

}  // namespace rubato
