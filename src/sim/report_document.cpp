#include "sim/report_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "model/cluster.h"
#include "sim/report_parts.h"
#include "sim/waits.h"

namespace rubato {

namespace {

using Json = nlohmann::ordered_json;

// A page of one command stays below 8 MB: it can be mailed. All runs share these budgets, down to
// what a single run needs.
constexpr std::size_t kAllTimelinePoints = 15000, kMostTimelinePoints = 1000;
constexpr std::size_t kAllCdfPoints = 12000, kMostCdfPoints = 400;
constexpr std::size_t kAllWaitPoints = 6000, kMostWaitPoints = 300;
constexpr std::size_t kFewestPoints = 50;
constexpr std::size_t kAllJobs = 40000, kFewestJobs = 20;
constexpr std::size_t kAllChanges = 100000, kFewestChanges = 100;

std::size_t per_run(std::size_t all, std::size_t fewest, std::size_t most, std::size_t runs) {
  return std::clamp(all / std::max<std::size_t>(runs, 1), fewest, most);
}

// Drops digits that a plot cannot show; they would only make the page larger.
double rounded(double value, double per_unit) { return std::round(value * per_unit) / per_unit; }
double tenths(double value) { return rounded(value, 10); }

double significant(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double per_unit = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return rounded(value, per_unit);
}

template <typename Items, typename Value>
Json column(const Items& items, Value value) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(value(item));
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
  object["end"] = tenths(end_s);
  if (timeline.size() <= most_points) {
    using Point = TimelinePoint;
    object["t"] = column(timeline, [](const Point& p) { return tenths(p.time_s); });
    object["usable"] = column(timeline, [](const Point& p) { return p.usable; });
    object["allocated"] = column(timeline, [](const Point& p) { return p.allocated; });
    object["useful"] = column(timeline, [](const Point& p) { return tenths(p.useful); });
    object["running"] = column(timeline, [](const Point& p) { return p.running; });
    object["waiting"] = column(timeline, [](const Point& p) { return p.waiting; });
    return object;
  }
  using Bucket = TimelineBucket;
  const std::vector<Bucket> buckets = bucket_timeline(timeline, begin_s, end_s, most_points);
  object["averaged_over_s"] = (end_s - begin_s) / static_cast<double>(most_points);
  object["t"] = column(buckets, [](const Bucket& b) { return tenths(b.begin_s); });
  object["usable"] = column(buckets, [](const Bucket& b) { return tenths(b.usable); });
  object["allocated"] = column(buckets, [](const Bucket& b) { return tenths(b.allocated); });
  object["useful"] = column(buckets, [](const Bucket& b) { return tenths(b.useful); });
  object["running"] = column(buckets, [](const Bucket& b) { return tenths(b.running); });
  object["waiting"] = column(buckets, [](const Bucket& b) { return tenths(b.waiting); });
  object["allocated_low"] = column(buckets, [](const Bucket& b) { return b.allocated_low; });
  object["allocated_high"] = column(buckets, [](const Bucket& b) { return b.allocated_high; });
  object["waiting_low"] = column(buckets, [](const Bucket& b) { return b.waiting_low; });
  object["waiting_high"] = column(buckets, [](const Bucket& b) { return b.waiting_high; });
  return object;
}

Json waits_object(const SimResult& run, std::size_t points) {
  const std::vector<WaitSample> samples = sample_waits(run, points);
  if (samples.empty()) return nullptr;
  const auto known = [](const std::optional<Seconds>& wait_s) {
    return wait_s ? Json(tenths(*wait_s)) : Json(nullptr);
  };
  return {{"t", column(samples, [](const WaitSample& s) { return tenths(s.time_s); })},
          {"median", column(samples, [&](const WaitSample& s) { return known(s.median_s); })},
          {"p90", column(samples, [&](const WaitSample& s) { return known(s.p90_s); })}};
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

Json jobs_object(std::span<const JobResult> jobs) {
  const auto known = [](Seconds time_s) {
    return time_s < 0 ? Json(nullptr) : Json(tenths(time_s));
  };
  using Job = JobResult;
  return {{"name", column(jobs, [](const Job& j) { return j.name; })},
          {"application", column(jobs, [](const Job& j) { return j.application; })},
          {"tenant", column(jobs, [](const Job& j) { return j.tenant; })},
          {"requested", column(jobs, [](const Job& j) { return j.requested_devices; })},
          {"submit", column(jobs, [](const Job& j) { return tenths(j.submit_s); })},
          {"start", column(jobs, [&](const Job& j) { return known(j.start_s); })},
          {"finish", column(jobs, [&](const Job& j) { return known(j.finish_s); })},
          {"dropped", column(jobs, [](const Job& j) { return j.dropped ? 1 : 0; })},
          {"queue_s", column(jobs, [](const Job& j) { return tenths(j.queue_s); })},
          {"device_s", column(jobs, [](const Job& j) { return std::round(j.device_s); })},
          {"lost_device_s", column(jobs, [](const Job& j) { return std::round(j.lost_device_s); })},
          {"resizes", column(jobs, [](const Job& j) { return j.resizes; })},
          {"fairness", column(jobs, [](const Job& j) { return significant(j.fairness, 3); })}};
}

// Who held which devices, until the first moment that the page does not know: of a job whose row
// was cut, or beyond `most` changes.
Json devices_object(const SimResult& run, std::size_t shown_jobs, std::size_t most) {
  if (run.changes.empty() || run.timeline.empty()) return nullptr;
  Seconds until_s = run.timeline.back().time_s;
  for (std::size_t i = shown_jobs; i < run.jobs.size(); ++i) {
    if (!run.jobs[i].name.empty()) until_s = std::min(until_s, run.jobs[i].submit_s);
  }
  if (run.changes.size() > most) until_s = std::min(until_s, run.changes[most].time_s);
  Json t = Json::array(), job = Json::array(), nodes = Json::array();
  for (const DeviceChange& change : run.changes) {
    if (change.time_s > until_s || change.job >= shown_jobs || t.size() == most) break;
    t.push_back(tenths(change.time_s));
    job.push_back(change.job);
    Json shares = Json::array();
    for (const NodeShare& share : change.shares) {
      shares.push_back(share.node.index());
      shares.push_back(share.devices);
    }
    nodes.push_back(std::move(shares));
  }
  using Event = NodeEvent;
  const std::vector<Event>& events = run.node_events;
  return {{"until", tenths(until_s)},
          {"t", std::move(t)},
          {"job", std::move(job)},
          {"nodes", std::move(nodes)},
          {"node_events",
           {{"t", column(events, [](const Event& e) { return tenths(e.time_s); })},
            {"node", column(events, [](const Event& e) { return e.node.index(); })},
            {"down", column(events, [](const Event& e) { return e.down ? 1 : 0; })}}}};
}

Json run_object(const SimResult& run, std::size_t runs) {
  const std::size_t jobs =
      std::min(run.jobs.size(), per_run(kAllJobs, kFewestJobs, kAllJobs, runs));
  Json object;
  object["summary"] = summary_object(run.summary);
  object["timeline"] =
      timeline_object(lasting_states(run.timeline),
                      per_run(kAllTimelinePoints, kFewestPoints, kMostTimelinePoints, runs));
  object["waits"] =
      waits_object(run, per_run(kAllWaitPoints, kFewestPoints, kMostWaitPoints, runs));
  object["cdf"] = cdf_object(run.jobs, per_run(kAllCdfPoints, kFewestPoints, kMostCdfPoints, runs));
  object["jobs"] = jobs_object(std::span(run.jobs).first(jobs));
  object["devices"] =
      devices_object(run, jobs, per_run(kAllChanges, kFewestChanges, kAllChanges, runs));
  return object;
}

Json nodes_object(const std::string& cluster) {
  Json nodes = Json::array();
  const auto parsed = Cluster::parse(cluster);
  if (!parsed) return nodes;
  for (const Node& node : parsed->nodes()) {
    nodes.push_back({parsed->type_name(node.type), node.devices});
  }
  return nodes;
}

}  // namespace

ReportDocument report_document(std::span<const SimResult> runs, const ReportContext& context) {
  Json document;
  document["version"] = 1;
  document["tool"] = "rubato";
  document["command"] = context.command;
  document["cluster"] = context.cluster;
  document["round"] = context.round;
  document["resize_cost_s"] = context.resize_cost_s;
  document["nodes"] = nodes_object(context.cluster);
  document["runs"] =
      column(runs, [&](const SimResult& run) { return run_object(run, runs.size()); });
  ReportDocument made{.folder = "", .context = context, .runs = {}, .json = {}};
  for (const SimResult& run : runs) made.runs.emplace_back().summary = run.summary;
  // Names come from files. Broken UTF-8 in them must not make dump() throw.
  made.json = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  return made;
}

std::vector<SimResult> all_runs(std::span<const ReportDocument> documents) {
  using Key = std::tuple<std::string, std::string, std::uint64_t>;
  const auto key = [](const SimSummary& s) { return Key(s.policy, s.workload, s.seed); };
  std::map<Key, std::set<const ReportDocument*>> where;
  for (const ReportDocument& document : documents) {
    for (const SimResult& run : document.runs) where[key(run.summary)].insert(&document);
  }
  std::vector<SimResult> runs;
  for (const ReportDocument& document : documents) {
    const auto path = std::filesystem::path(document.folder).lexically_normal();
    const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
    for (SimResult run : document.runs) {
      if (where[key(run.summary)].size() > 1) {
        run.summary.policy = fmt::format("{} ({})", run.summary.policy, name.string());
      }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace rubato
