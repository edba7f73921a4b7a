#include "api/metrics.h"

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <string_view>

#include "base/stats.h"

namespace rubato::api {

namespace {

class Text {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   type);
  }
  template <typename Value>
  void value(Value number, std::string_view labels = {}, std::string_view suffix = {}) {
    fmt::format_to(std::back_inserter(out_), "{}{}{}{}{} {}\n", name_, suffix,
                   labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}", number);
  }
  template <typename Value>
  void one(std::string_view name, std::string_view type, std::string_view help, Value number) {
    family(name, type, help);
    value(number);
  }
  void by_label(std::string_view name, std::string_view type, std::string_view help,
                std::string_view label, const std::map<std::string, std::int64_t>& values) {
    family(name, type, help);
    for (const auto& [key, number] : values) value(number, fmt::format("{}=\"{}\"", label, key));
  }
  void quantiles(std::span<const double> values, std::string_view label = {}) {
    const std::vector<double> sorted = sorted_copy(values);
    if (sorted.empty()) return;
    for (const double quantile : {0.5, 0.9, 0.99, 1.0}) {
      value(percentile_sorted(sorted, 100 * quantile),
            fmt::format("{}{}quantile=\"{}\"", label, label.empty() ? "" : ",", quantile));
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
  std::string name_;
};

}  // namespace

std::string metrics_text(const control::ControllerMetrics& m) {
  Text text;
  text.by_label("rubato_jobs", "gauge", "Jobs by phase.", "phase", m.jobs_by_phase);
  text.one("rubato_jobs_stalled", "gauge", "Running jobs that make no progress.", m.jobs_stalled);
  text.by_label("rubato_jobs_ended_total", "counter", "Jobs that ended, by final phase.", "phase",
                m.ended_by_phase);
  text.by_label("rubato_resizes_total", "counter", "Changes of a job's devices, by reason code.",
                "reason", m.resizes_by_reason);
  text.one("rubato_rounds_total", "counter", "Scheduling rounds.", m.rounds);
  text.one("rubato_invalid_plans_total", "counter",
           "Plans of a policy that broke a rule and were not executed.", m.invalid_plans);
  text.one("rubato_stale_plans_total", "counter",
           "Plans that were dropped because jobs or devices had changed meanwhile.", m.stale_plans);
  text.one("rubato_stale_grants_total", "counter",
           "Jobs that were left out of a plan because they had changed meanwhile.", m.stale_grants);
  text.one("rubato_late_decisions_total", "counter",
           "Decisions that took longer than they may; waiting jobs started in order meanwhile.",
           m.late_decisions);
  text.family("rubato_decision_seconds", "summary",
              "Time from the question to a policy to its answer, over the last 1,000.");
  text.quantiles(m.decision_s);
  text.family("rubato_round_seconds", "summary",
              "Duration of a scheduling round by part, over the last 1,000 rounds.");
  text.quantiles(m.round_algorithm_s, "part=\"algorithm\"");
  text.quantiles(m.round_solver_s, "part=\"solver\"");
  text.quantiles(m.round_total_s, "part=\"total\"");
  text.family(
      "rubato_stall_seconds", "summary",
      "How long a view change kept the surviving workers from computing, over the last 1,000.");
  text.quantiles(m.stall_s);
  text.family("rubato_queue_wait_seconds", "summary",
              "Time from submission to the first devices, over the last 1,000 jobs.");
  text.quantiles(m.queue_wait_s);
  text.family("rubato_reach_seconds", "summary",
              "Time from a decision to the first step of the new worker, over the last 1,000.");
  text.quantiles(m.reach_s);
  text.family("rubatod_loop_turn_seconds", "summary",
              "Time that a turn of the daemon's loop worked, over the last 1,000.");
  text.quantiles(m.turn_s);
  text.one("rubatod_loop_turn_seconds_max", "gauge", "The longest turn since the daemon started.",
           m.longest_turn_s);
  text.one("rubato_devices", "gauge", "Devices in the cluster.", m.devices);
  text.one("rubato_devices_reserved", "gauge", "Devices taken by reservations.", m.reserved);
  text.one("rubato_devices_allocated", "gauge", "Devices granted to jobs.", m.allocated);
  text.one("rubato_devices_held", "gauge", "Devices occupied by the processes of jobs.", m.held);
  text.one("rubato_devices_utilised", "gauge",
           "Devices whose worker is training, neither starting nor leaving.", m.utilised);
  text.one("rubato_events_total", "counter", "Events in the log.", m.events);
  text.one("rubato_store_writable", "gauge",
           "1: the log can be written. 0: it cannot (full disk); the daemon is read-only.",
           m.store_writable ? 1 : 0);
  return text.take();
}

std::string tenant_metrics_text(const control::ControllerMetrics& m,
                                const std::string& only_tenant) {
  constexpr std::size_t kMostTenants = 100;
  const std::string others = "_other";
  std::map<std::string, control::TenantMetrics> tenants;
  std::map<std::string, std::string> shown_as;
  for (const auto& [name, own] : m.tenants) {
    if (!only_tenant.empty() && name != only_tenant) continue;
    const std::string& shown = shown_as[name] = tenants.size() < kMostTenants ? name : others;
    control::TenantMetrics& sum = tenants[shown];
    sum.running += own.running;
    sum.queued += own.queued;
    sum.held += own.held;
    sum.time += own.time;
    sum.quota = shown == others ? 0 : own.quota;
  }
  std::map<std::pair<std::string, std::string>, std::int64_t> refused;
  for (const auto& [key, count] : m.refused) {
    const auto& [name, reason] = key;
    if (!only_tenant.empty() && name != only_tenant) continue;
    const auto shown = shown_as.find(name);
    refused[{shown == shown_as.end() ? others : shown->second, reason}] += count;
  }
  const auto label = [](const std::string& name) { return fmt::format("tenant=\"{}\"", name); };
  Text text;
  text.family("rubato_tenant_jobs", "gauge", "Active jobs of a tenant, by phase.");
  for (const auto& [name, own] : tenants) {
    text.value(own.queued, label(name) + ",phase=\"queued\"");
    text.value(own.running, label(name) + ",phase=\"running\"");
  }
  text.family("rubato_tenant_devices_held", "gauge",
              "Devices occupied by the processes of a tenant's jobs.");
  for (const auto& [name, own] : tenants) text.value(own.held, label(name));
  text.family("rubato_tenant_devices_quota", "gauge", "Most devices that a tenant may have.");
  for (const auto& [name, own] : tenants) {
    if (own.quota > 0) text.value(own.quota, label(name));
  }
  text.family("rubato_tenant_held_device_seconds_total", "counter",
              "Device time that a tenant's jobs have held.");
  for (const auto& [name, own] : tenants) text.value(own.time.held_s, label(name));
  text.family("rubato_tenant_trained_device_seconds_total", "counter",
              "Of the device time held, what was spent training.");
  for (const auto& [name, own] : tenants) text.value(own.time.trained_s, label(name));
  text.family("rubato_tenant_submissions_refused_total", "counter",
              "Submissions refused since the daemon started, by reason.");
  for (const auto& [key, count] : refused) {
    text.value(count, fmt::format("{},reason=\"{}\"", label(key.first), key.second));
  }
  return text.take();
}

void RequestMetrics::count(const std::string& method, const std::string& route, int status,
                           double seconds) {
  const MutexLock lock(mutex_);
  ++requests_[{method, route, status}];
  std::size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  ++by_time_[bucket];
  seconds_ += seconds;
}

void RequestMetrics::limited(const std::string& by) {
  const MutexLock lock(mutex_);
  ++limited_[by];
}

std::string RequestMetrics::text(const FrontCounts& front, int streams) const {
  const MutexLock lock(mutex_);
  Text text;
  text.family("rubato_http_requests_total", "counter",
              "Requests answered, by method, route and status.");
  for (const auto& [key, number] : requests_) {
    const auto& [method, route, status] = key;
    text.value(number,
               fmt::format("method=\"{}\",route=\"{}\",code=\"{}\"", method, route, status));
  }
  text.family("rubato_http_request_seconds", "histogram",
              "Time from a complete request to its response (for a stream: to its start).");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < by_time_.size(); ++i) {
    sum += by_time_[i];
    text.value(sum, i < kBounds.size() ? fmt::format("le=\"{}\"", kBounds[i]) : "le=\"+Inf\"",
               "_bucket");
  }
  text.value(seconds_, {}, "_sum");
  text.value(sum, {}, "_count");
  text.by_label("rubato_http_limited_total", "counter",
                "Requests refused by a rate limit (429), per token or per address.", "by",
                limited_);
  text.one("rubato_http_malformed_total", "counter", "Malformed requests refused.", front.refused);
  text.one("rubato_http_connections", "gauge", "Open connections.", front.open);
  text.one("rubato_http_connections_total", "counter", "Connections accepted.", front.accepted);
  text.one("rubato_http_connections_pushed_out_total", "counter",
           "Slow or idle connections closed to make room for others.", front.pushed_out);
  text.one("rubato_http_connections_turned_away_total", "counter",
           "Connections closed immediately for lack of room.", front.turned_away);
  text.one("rubato_http_streams", "gauge", "Open event and log streams.", streams);
  return text.take();
}

}  // namespace rubato::api
