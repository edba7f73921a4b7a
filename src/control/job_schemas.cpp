#include "control/job_schemas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "control/job_files.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/metrics.h"
#include "elastic/memory/board.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using enum FileFieldKind;

constexpr double kLargest = 9'007'199'254'740'992;  // 2^53: exact as whole number and as double
constexpr double kLargestBatch = 1LL << 40;
constexpr double kLargestId = 1'000'000'000;
constexpr double kYears = 1e10;  // seconds
constexpr double kReason = 4096;

constexpr std::array kStarted{
    FileField{"step", kWhole, 0, kLargest},
    FileField{"total_steps", kWhole, 0, kLargest},
    FileField{"total_samples", kWhole, 0, kLargest},
    FileField{"steps_per_epoch", kWhole, 0, kLargest},
    FileField{"batch", kWhole, 0, kLargestBatch},
    FileField{"samples", kWhole, 0, kLargest},
    FileField{"logical_workers", kWhole, 0, elastic::kMostLogicalWorkers, true},
};
constexpr std::array kView{
    FileField{"at", kNumber, 0, kYears},
    FileField{"view", kWhole, 1, kLargest, true},
    FileField{"cause", kText, 0, 200, true},
    FileField{"workers", kWhole, 0, elastic::kMaxWorkers, true},
    FileField{"members", kList, 0, elastic::kMaxWorkers},
    FileField{"hosts", kList, 0, elastic::kMaxWorkers},
    FileField{"logical_workers", kWhole, 0, elastic::kMostLogicalWorkers},
    FileField{"batch", kWhole, 0, kLargestBatch},
    FileField{"leader", kWhole, -1, kLargestId},
    FileField{"step", kWhole, 0, kLargest},
    FileField{"prepare_s", kNumber, 0, kYears},
    FileField{"stall_ms", kNumber, -1, 1000 * kYears},
    FileField{"steps_redone", kWhole, -1, kLargest},
};
constexpr std::array kMessage{
    FileField{"message", kText, 0, kReason, true},
    FileField{"view", kWhole, 0, kLargest},
};
constexpr std::array kMetrics{
    FileField{"at", kNumber, 0, kYears},
    FileField{"step", kWhole, 0, kLargest, true},
    FileField{"values", kNumbers, 0, elastic::kMostMetrics, true},
};
constexpr std::array kAudit{
    FileField{"at", kNumber, 0, kYears},
    FileField{"step", kWhole, 0, kLargest, true},
    FileField{"workers", kWhole, 0, elastic::kMaxWorkers},
    FileField{"logical", kWhole, -1, elastic::kMostLogicalWorkers},
    FileField{"message", kText, 0, kReason},
};
constexpr std::array kAboutWorker{
    FileField{"worker", kWhole, 0, kLargestId}, FileField{"view", kWhole, 0, kLargest},
    FileField{"step", kWhole, 0, kLargest},     FileField{"slowdown", kNumber, 0, kLargest},
    FileField{"reason", kText, 0, kReason},
};
constexpr std::array kLines{
    FileSchema{"started", kStarted},       FileSchema{"view", kView},
    FileSchema{"warning", kMessage},       FileSchema{"error", kMessage},
    FileSchema{"failed", kAboutWorker},    FileSchema{"lost", kAboutWorker},
    FileSchema{"refused", kAboutWorker},   FileSchema{"checkpoint_refused", kAboutWorker},
    FileSchema{"straggler", kAboutWorker}, FileSchema{"recovered", kAboutWorker},
    FileSchema{"metrics", kMetrics},       FileSchema{"audit", kAudit},
};

constexpr std::array kStatus{
    FileField{"state", kText, 1, 50, true},
    FileField{"message", kText, 0, kReason},
    FileField{"target", kWhole, 0, kLargest},
    FileField{"devices", kList, 0, elastic::kMaxWorkers},
    FileField{"workers", kList, 0, 4 * elastic::kMaxWorkers},
};
constexpr std::array kResult{
    FileField{"name", kText, 0, kReason},
    FileField{"state_sha256", kText, 0, 64},
    FileField{"steps", kWhole, 0, kLargest},
    FileField{"epochs", kNumber, 0, kLargest},
    FileField{"mode", kText, 0, 50},
    FileField{"logical_workers", kWhole, 0, elastic::kMostLogicalWorkers},
    FileField{"batch", kWhole, 0, kLargestBatch},
    FileField{"samples", kWhole, 0, kLargest},
    FileField{"views", kWhole, 0, kLargest},
};
constexpr std::array kViewRecordFields{
    FileField{"view", kWhole, 1, kLargest, true},
    FileField{"first_step", kWhole, 0, kLargest, true},
    FileField{"cause", kText, 0, 200, true},
    FileField{"leader", kWhole, -1, kLargestId, true},
    FileField{"board", kText, 0, 200, true},
    FileField{"members", kList, 0, elastic::kMaxWorkers, true},
    FileField{"batch", kWhole, 0, kLargestBatch, true},
    FileField{"prepare_s", kNumber, 0, kYears, true},
};
constexpr std::array kTargetRecordFields{
    FileField{"workers", kWhole, 0, elastic::kMaxWorkers, true},
    FileField{"batch", kWhole, 0, kLargestBatch},
    FileField{"migrate", kList, 0, elastic::kMaxWorkers, true},
    FileField{"at", kNumber, 0, kYears, true},
    FileField{"devices", kList, 0, elastic::kMaxWorkers},
};

bool is_metric(const std::string& name, const json& value) {
  const bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (name.empty() || name.size() > elastic::kLongestMetricName || !plain) return false;
  if (value.is_number()) return std::isfinite(value.get<double>());
  return value == "nan" || value == "inf" || value == "-inf";
}

bool are_metrics(const json& values) {
  for (const auto& [name, value] : values.items()) {
    if (!is_metric(name, value)) return false;
  }
  return true;
}

bool within(const json& value, const FileField& field) {
  switch (field.kind) {
    case kWhole:
      // The bounds are exact as doubles, and so is a number between them.
      return value.is_number_integer() && value.get<double>() >= field.least &&
             value.get<double>() <= field.most;
    case kNumber:
      return value.is_number() && value.get<double>() >= field.least &&
             value.get<double>() <= field.most;  // not of a NaN
    case kText:
      return value.is_string() &&
             static_cast<double>(value.get_ref<const std::string&>().size()) <= field.most;
    case kList:
      return value.is_array() && static_cast<double>(value.size()) <= field.most;
    case kNumbers:
      return value.is_object() && static_cast<double>(value.size()) <= field.most &&
             are_metrics(value);
  }
  return false;
}

std::string expected_of(const FileField& field) {
  switch (field.kind) {
    case kWhole:
      return fmt::format("a whole number from {:.0f} to {:.0f}", field.least, field.most);
    case kNumber:
      return fmt::format("a number from {:.0f} to {:.0f}", field.least, field.most);
    case kText:
      return fmt::format("text of at most {:.0f} bytes", field.most);
    case kList:
      return fmt::format("a list of at most {:.0f} entries", field.most);
    case kNumbers:
      return fmt::format("at most {:.0f} named numbers", field.most);
  }
  return "?";
}

std::string shown_short(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > 40) return "long text";
  return plain_text(compact_json(value), 60);
}

std::string problem_of(const FileSchema& schema, const json& object) {
  if (!object.is_object()) return fmt::format("{}: expected an object", schema.name);
  for (const FileField& field : schema.fields) {
    const auto found = object.find(field.name);
    if (found == object.end()) {
      if (!field.required) continue;
      return fmt::format("{}: `{}` is missing; expected {}", schema.name, field.name,
                         expected_of(field));
    }
    if (within(*found, field)) continue;
    return fmt::format("{}: `{}` is {}; expected {}", schema.name, field.name, shown_short(*found),
                       expected_of(field));
  }
  return "";
}

// The ranges of logical workers that a view's members host.
std::string hosts_problem(const json& members) {
  for (const json& member : members) {
    const auto hosts = member.is_object() ? member.find("hosts") : member.end();
    const bool sound =
        member.is_object() && hosts != member.end() && hosts->is_array() && hosts->size() == 2 &&
        std::all_of(hosts->begin(), hosts->end(), [](const json& bound) {
          return bound.is_number_integer() && bound >= 0 && bound <= elastic::kMostLogicalWorkers;
        });
    if (!sound) {
      return fmt::format("view: `hosts` of a member; expected two whole numbers from 0 to {}",
                         elastic::kMostLogicalWorkers);
    }
  }
  return "";
}

}  // namespace

std::span<const FileSchema> line_schemas() { return kLines; }

std::string line_problem(const json& line) {
  if (!line.is_object()) return "expected a JSON object";
  const auto type = line.find("type");
  if (type == line.end() || !type->is_string()) return "`type` is missing; expected text";
  const auto& name = type->get_ref<const std::string&>();
  const auto schema = std::find_if(kLines.begin(), kLines.end(),
                                   [&](const FileSchema& each) { return each.name == name; });
  if (schema == kLines.end()) {
    return fmt::format("`type` is {}, which this version does not know", shown_short(*type));
  }
  return problem_of(*schema, line);
}

std::string status_problem(const json& status) {
  return problem_of({"status.json", kStatus}, status);
}

std::string result_problem(const json& result) {
  return problem_of({"result.json", kResult}, result);
}

std::string record_problem(std::string_view name, const json& record) {
  if (name == elastic::kTargetRecord) return problem_of({"target", kTargetRecordFields}, record);
  if (name != elastic::kViewRecord) return "";
  std::string problem = problem_of({"view", kViewRecordFields}, record);
  return problem.empty() ? hosts_problem(record["members"]) : problem;
}

}  // namespace rubato::control
