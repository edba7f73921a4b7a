#include "api/job_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "api/reply.h"

namespace rubato::api {

namespace {

using control::JobRecord;

bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

void append_name(std::string& out, std::string_view name) {
  out += out.back() == '{' ? "\"" : ",\"";
  out += name;
  out += "\":";
}

void append(std::string& out, std::string_view name, std::string_view text) {
  append_name(out, name);
  append_quoted(out, text);
}

void append(std::string& out, std::string_view name, std::int64_t value) {
  append_name(out, name);
  fmt::format_to(std::back_inserter(out), "{}", value);
}

void append(std::string& out, std::string_view name, double value) {
  append_name(out, name);
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "{}", value);
  } else {
    out += "null";
  }
}

void append(std::string& out, std::string_view name, const control::JobPlacement& placement) {
  append_name(out, name);
  out += placement.empty() ? "[]" : to_text(control::placement_json(placement));
}

void append(std::string& out, const JobRecord& job) {
  out += '{';
  append(out, "number", job.number);
  append(out, "id", control::job_name_of(job.number));
  append(out, "name", control::job_title(job.document));
  append(out, "tenant", job.tenant);
  append(out, "phase", control::to_string(job.phase));
  append(out, "submitted_at", job.submitted_at);
  append(out, "started_at", job.started_at);
  append(out, "ended_at", job.ended_at);
  append(out, "granted", std::int64_t{job.granted});
  append(out, "nodes", job.nodes);
  append(out, "min_devices", std::int64_t{control::device_range(job).low});
  append(out, "max_devices", std::int64_t{control::device_range(job).high});
  append(out, "batch", job.batch);
  append(out, "held", std::int64_t{job.held});
  append(out, "held_nodes", job.held_nodes);
  append(out, "reason", job.reason);
  append(out, "message", job.message);
  append(out, "scale", std::int64_t{job.scale});
  append(out, "logical_workers", std::int64_t{control::logical_workers_of(job)});
  append(out, "max_useful", std::int64_t{job.max_useful});
  append(out, "resizes", std::int64_t{job.resizes});
  append(out, "restarts", std::int64_t{job.restarts});
  append(out, "device_s", job.device_s);
  append(out, "held_at", job.held_at);
  append(out, "held_s", job.held_s);
  append(out, "stalled_since", job.stalled_since);
  append_name(out, "progress");
  out += job.progress.empty() ? "{}" : to_text(job.progress);
  append_name(out, "labels");
  out += job.document.labels.empty() ? "{}" : to_text(nlohmann::json(job.document.labels));
  append_name(out, "waits_for");
  out += job.waits_for.empty() ? "{}" : to_text(control::waits_json(job.waits_for));
  append_name(out, "array");
  out += job.array.first == 0 ? "null" : to_text(control::array_json(job.array));
  out += '}';
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += to_text(text);
  }
}

std::string job_text(const JobRecord& job) { return to_text(control::to_json(job)); }

std::string job_list_text(std::span<const JobRecord> jobs, int limit) {
  std::string out;
  out.reserve(jobs.size() * 600 + 64);
  out += "{\"jobs\":[";
  for (const JobRecord& job : jobs) {
    if (&job != jobs.data()) out += ',';
    append(out, job);
  }
  out += "],\"next\":";
  const bool more = !jobs.empty() && std::ssize(jobs) == limit;
  out += more ? std::to_string(jobs.back().number) : "null";
  out += '}';
  return out;
}

}  // namespace rubato::api
