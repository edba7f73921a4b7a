// What an owner writes about a job (YAML in a file, JSON over HTTP). Everything is optional but
// `run`. One table of fields makes the parser, the JSON schema and the page docs/jobs.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"

namespace rubato::control {

enum class LearningRateRule { kLinear, kSqrt, kNone };

struct JobDocument {
  std::string name{};              // empty: the program's name
  std::vector<std::string> run{};  // the program and its arguments; no shell in between
  std::string dir{};  // where it runs; empty: the submitter's folder (the CLI fills it in)
  std::map<std::string, std::string> env{};
  std::string tenant{};  // empty: the tenant of the token
  int priority = 0;      // larger is more urgent
  ElasticMode mode = ElasticMode::kConsistent;
  int min_devices = 1;  // `devices: 2..16`; a single number is both; rigid jobs have min == max
  int max_devices = 8;
  bool power_of_two_sizes = false;  // `sizes: any | power_of_two`
  int logical_workers = 0;          // 0: the program's own number (of consistent and rigid jobs)
  std::int64_t min_batch = 0;       // `batch: 128..4096`, of an adaptive job; 0: not said
  std::int64_t max_batch = 0;
  LearningRateRule lr_rule = LearningRateRule::kLinear;
  int epochs = 0;                  // how long the owner wants to train, for estimates; 0: not said
  double min_runtime_s = 0;        // once started, it keeps its devices at least this long
  double checkpoint_every_s = 30;  // `checkpoint: {every: 30s, keep: 2}`
  int checkpoint_keep = 2;
  std::string device_type{};  // empty: any

  bool operator==(const JobDocument&) const = default;
};

// An error says file:line:column, the field, what is there, what was expected, and the nearest
// valid field for an unknown one. `file` is only for messages.
Result<JobDocument> parse_job_yaml(std::string_view text, const std::string& file);
// The same fields as a JSON object; an error names the path (/checkpoint/every).
Result<JobDocument> parse_job_json(const nlohmann::json& object);
// Canonical: parse_job_json(to_json(d)) == d.
nlohmann::json to_json(const JobDocument& document);
// Why a job cannot be called this; empty: it can. A name is a part of paths and stands where ids
// stand: no '/', no '.' at its beginning, and not an id such as j12.
std::string_view job_name_problem(std::string_view name);
// The fields that may be changed while the job lives.
inline constexpr std::array<std::string_view, 2> kChangeableFields{"name", "priority"};
// The document with `fields` (a part of a job document) changed. An error names the field, and the
// changeable ones when it is another.
Result<JobDocument> with_changes(const JobDocument& document, const nlohmann::json& fields);
// What people see as the job's name: `name`, or the program's file name.
std::string job_title(const JobDocument& document);
// JSON Schema (draft 2020-12) of the document.
nlohmann::json job_schema();
// Durations as people write them: 90, "90s", "15m", "2h", "1d".
Result<double> parse_duration(std::string_view text);

}  // namespace rubato::control
