// Reads report.json. A page of it must not fail later, so everything that the page relies on is
// checked here: types, ranges, and columns of equal length.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/json_text.h"
#include "base/located_json.h"
#include "sim/report_document.h"
#include "sim/report_parts.h"

namespace rubato {

namespace {

using nlohmann::json;

constexpr NumberRange kAny{-1e300, 1e300};
constexpr NumberRange kPositive{0, 1e300};
constexpr NumberRange kCounts{0, 2e9};

// Takes fields apart. Remembers the first problem; what is read after it means nothing.
class Fields {
 public:
  explicit Fields(const LocatedJson& file) : file_(file) {}

  const std::optional<Error>& problem() const { return problem_; }
  void fail(const std::string& path, const std::string& what) {
    if (!problem_) problem_ = file_.error_at(path, what);
  }

  // The field of an object; null if it is missing.
  const json& at(const json& object, const std::string& path, const char* name) {
    static const json kNothing;
    if (!object.is_object()) {
      fail(path, "expected an object");
      return kNothing;
    }
    const auto found = object.find(name);
    if (found == object.end()) fail(path, fmt::format("the field '{}' is missing", name));
    return found == object.end() ? kNothing : *found;
  }
  double number(const json& value, const std::string& path, NumberRange range) {
    const auto number = file_.number(value, path, range);
    if (!number && !problem_) problem_ = number.error();
    return number ? *number : 0;
  }
  std::string text(const json& value, const std::string& path) {
    const auto text = file_.text(value, path);
    if (!text && !problem_) problem_ = text.error();
    return text ? *text : "";
  }
  // Checks the column `name` of a table: as many cells as `size`, which the first column sets.
  template <typename Check>
  void column(const json& table, const std::string& path, const char* name,
              std::optional<std::size_t>& size, const Check& check) {
    const json& cells = at(table, path, name);
    const std::string own = fmt::format("{}.{}", path, name);
    if (problem_) return;
    if (!cells.is_array()) return fail(own, "expected a list");
    if (size && cells.size() != *size) {
      return fail(own, fmt::format("expected {} values, as the other columns have; found {}", *size,
                                   cells.size()));
    }
    size = cells.size();
    for (std::size_t i = 0; i < cells.size() && !problem_; ++i) {
      if (!check(cells[i])) fail(fmt::format("{}[{}]", own, i), "unexpected " + shown(cells[i]));
    }
  }

 private:
  const LocatedJson& file_;
  std::optional<Error> problem_;
};

bool in(const json& value, NumberRange range) {
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return number >= range.low && number <= range.high;
}
bool is_time(const json& value) { return in(value, kAny); }
bool is_known_time(const json& value) { return value.is_null() || in(value, kAny); }
bool is_amount(const json& value) { return in(value, kPositive); }
bool is_text(const json& value) { return value.is_string(); }

void check_timeline(Fields& fields, const json& timeline, const std::string& path) {
  if (timeline.is_null()) return;
  std::optional<std::size_t> size;
  fields.number(fields.at(timeline, path, "end"), path + ".end", kAny);
  fields.column(timeline, path, "t", size, is_time);
  if (size == 0U) fields.fail(path + ".t", "expected at least one value");
  for (const char* name : {"usable", "allocated", "useful", "running", "waiting"}) {
    fields.column(timeline, path, name, size, is_amount);
  }
  if (!timeline.is_object() || !timeline.contains("averaged_over_s")) return;
  fields.number(timeline["averaged_over_s"], path + ".averaged_over_s", kPositive);
  for (const char* name : {"allocated_low", "allocated_high", "waiting_low", "waiting_high"}) {
    fields.column(timeline, path, name, size, is_amount);
  }
}

void check_waits(Fields& fields, const json& waits, const std::string& path) {
  if (waits.is_null()) return;
  std::optional<std::size_t> size;
  fields.column(waits, path, "t", size, is_time);
  for (const char* name : {"median", "p90"}) {
    fields.column(waits, path, name, size, is_known_time);
  }
}

void check_cdf(Fields& fields, const json& cdf, const std::string& path) {
  std::optional<std::size_t> size;
  for (const char* name : {"x", "y"}) fields.column(cdf, path, name, size, is_amount);
}

// Returns the number of jobs.
std::size_t check_jobs(Fields& fields, const json& jobs, const std::string& path) {
  std::optional<std::size_t> size;
  for (const char* name : {"name", "application", "tenant"}) {
    fields.column(jobs, path, name, size, is_text);
  }
  fields.column(jobs, path, "submit", size, is_time);
  for (const char* name : {"start", "finish"}) {
    fields.column(jobs, path, name, size, is_known_time);
  }
  for (const char* name :
       {"requested", "dropped", "queue_s", "device_s", "lost_device_s", "resizes", "fairness"}) {
    fields.column(jobs, path, name, size, is_amount);
  }
  return size.value_or(0);
}

void check_devices(Fields& fields, const json& devices, const std::string& path, std::size_t jobs,
                   std::size_t nodes) {
  if (devices.is_null()) return;
  std::optional<std::size_t> size;
  const auto below = [](const json& value, std::size_t limit) {
    return value.is_number_unsigned() && value.get<std::size_t>() < limit;
  };
  fields.number(fields.at(devices, path, "until"), path + ".until", kAny);
  fields.column(devices, path, "t", size, is_time);
  fields.column(devices, path, "job", size, [&](const json& job) { return below(job, jobs); });
  fields.column(devices, path, "nodes", size, [&](const json& shares) {
    if (!shares.is_array() || shares.size() % 2 != 0) return false;
    for (std::size_t i = 0; i < shares.size(); i += 2) {
      if (!below(shares[i], nodes) || !in(shares[i + 1], {1, 1e6})) return false;
    }
    return true;
  });
  const json& events = fields.at(devices, path, "node_events");
  const std::string own = path + ".node_events";
  std::optional<std::size_t> count;
  fields.column(events, own, "t", count, is_time);
  fields.column(events, own, "node", count, [&](const json& node) { return below(node, nodes); });
  fields.column(events, own, "down", count, is_amount);
}

SimSummary read_summary(Fields& fields, const json& object, const std::string& path) {
  SimSummary summary;
  summary.policy = fields.text(fields.at(object, path, "policy"), path + ".policy");
  summary.workload = fields.text(fields.at(object, path, "workload"), path + ".workload");
  const json& seed = fields.at(object, path, "seed");
  if (!seed.is_number_unsigned()) fields.fail(path + ".seed", "expected a whole number");
  summary.seed = seed.is_number_unsigned() ? seed.get<std::uint64_t>() : 0;
  visit_summary(summary, [&](const char* name, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const NumberRange range = std::is_integral_v<Value> ? kCounts : kPositive;
    value = static_cast<Value>(
        fields.number(fields.at(object, path, name), fmt::format("{}.{}", path, name), range));
  });
  return summary;
}

// Returns the number of nodes.
std::size_t check_nodes(Fields& fields, const json& nodes) {
  if (!nodes.is_array()) fields.fail("nodes", "expected a list");
  for (std::size_t i = 0; i < nodes.size() && !fields.problem(); ++i) {
    const json& node = nodes[i];
    if (!node.is_array() || node.size() != 2 || !node[0].is_string() || !in(node[1], {1, 1e6})) {
      fields.fail(fmt::format("nodes[{}]", i), "expected [TYPE, DEVICES]");
    }
  }
  return nodes.size();
}

ReportDocument read_fields(Fields& fields, const json& root) {
  ReportDocument document;
  document.context.command = fields.text(fields.at(root, "", "command"), "command");
  document.context.cluster = fields.text(fields.at(root, "", "cluster"), "cluster");
  document.context.round = fields.text(fields.at(root, "", "round"), "round");
  document.context.resize_cost_s =
      fields.number(fields.at(root, "", "resize_cost_s"), "resize_cost_s", kPositive);
  const std::size_t nodes = check_nodes(fields, fields.at(root, "", "nodes"));
  const json& runs = fields.at(root, "", "runs");
  if (!runs.is_array()) fields.fail("runs", "expected a list");
  for (std::size_t i = 0; i < runs.size() && !fields.problem(); ++i) {
    const std::string path = fmt::format("runs[{}]", i);
    const auto part = [&](const char* name) -> const json& {
      return fields.at(runs[i], path, name);
    };
    document.runs.emplace_back().summary = read_summary(fields, part("summary"), path + ".summary");
    check_timeline(fields, part("timeline"), path + ".timeline");
    check_waits(fields, part("waits"), path + ".waits");
    check_cdf(fields, part("cdf"), path + ".cdf");
    const std::size_t jobs = check_jobs(fields, part("jobs"), path + ".jobs");
    check_devices(fields, part("devices"), path + ".devices", jobs, nodes);
  }
  return document;
}

Error damaged(const Error& error) {
  return {error.code, error.message +
                          "; the file is damaged: repeat the simulation with --out, or restore the "
                          "folder from a copy"};
}

// A folder without report.json: of another kind, or written by a version before it.
Error not_there(const std::string& folder) {
  if (!is_directory(folder)) {
    return {ErrorCode::kNotFound,
            folder + ": no such folder; expected one that 'rubato sim --out DIR' wrote"};
  }
  if (!is_file(folder + "/summary.json")) {
    return {ErrorCode::kNotFound,
            folder + ": has no report.json; expected a folder that 'rubato sim --out DIR' wrote"};
  }
  std::string command = "the simulation";
  if (const auto text = read_file(folder + "/summary.json")) {
    const json summary = parse_json(*text);
    if (summary.is_object() && summary.contains("command") && summary["command"].is_string()) {
      command = printable(summary["command"].get<std::string>());
    }
  }
  return {ErrorCode::kNotFound,
          fmt::format("{}: has no report.json: an earlier version of rubato wrote the folder. Its "
                      "report.html still works; to see it beside others, repeat {}",
                      folder, command)};
}

}  // namespace

Result<ReportDocument> read_report(const std::string& folder) {
  const std::string path = folder + "/report.json";
  if (!is_file(path)) return not_there(folder);
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto file = LocatedJson::parse(path, *text);
  if (!file) return damaged(file.error());
  Fields fields(*file);
  const json& version = fields.at(file->root(), "", "version");
  if (!fields.problem() && version != 1) {
    return file->error_at("version",
                          fmt::format("is {}; this rubato reads version 1: use the version of "
                                      "rubato that wrote it",
                                      shown(version)));
  }
  ReportDocument document = read_fields(fields, file->root());
  if (fields.problem()) return damaged(*fields.problem());
  document.folder = folder;
  document.json = compact_json(file->root());
  return document;
}

}  // namespace rubato
