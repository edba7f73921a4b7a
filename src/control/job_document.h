// A job as its owner describes it (YAML in a file, JSON over HTTP). Everything is optional except
// `run`. One table of fields defines the parser, the JSON schema and the page docs/jobs.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "elastic/job/program_kind.h"
#include "model/job.h"

namespace rubato::control {

enum class LearningRateRule { kLinear, kSqrt, kNone };

// How another job must have ended before a job may start (control/dependencies.h).
enum class When { kFinished, kFailed, kEnded };
std::string_view to_string(When when);
std::optional<When> parse_when(std::string_view text);
struct After {
  std::string job{};  // id or name
  When when = When::kFinished;

  bool operator==(const After&) const = default;
};

// `array: 0-99%10`: one job for every index, of which at most `at_once` run at the same time
// (control/arrays.h).
struct ArrayRange {
  int low = 0;
  int high = -1;    // below `low`: no array
  int at_once = 0;  // 0: no limit

  int size() const { return high - low + 1; }
  bool operator==(const ArrayRange&) const = default;
};

struct JobDocument {
  std::string name{};              // empty: the program's name
  std::vector<std::string> run{};  // the program and its arguments; no shell is involved
  std::string dir{};  // working directory; empty: the submitter's (the CLI fills it in)
  // Files that came with the submission: the SHA-256 of their list or, of an accepted job,
  // "STORE/SHA-256" (upload_unpack.h). They are its working directory. Empty: none
  std::string upload{};
  // Folder below the job's folder for what the owner wants to keep; empty: "outputs"
  std::string outputs{};
  std::map<std::string, std::string> env{};
  std::string tenant{};  // empty: the tenant of the token
  int priority = 0;      // larger is more urgent
  // `mode: consistent | adaptive | rigid | opaque`. An opaque job is rigid for the scheduler.
  // Without `mode` the job is consistent, and it is unknown whether its program uses the runtime.
  ElasticMode mode = ElasticMode::kConsistent;
  elastic::ProgramKind program = elastic::ProgramKind::kUnknown;
  int min_devices = 1;  // `devices: 2..16`; a single number sets both; rigid jobs have min == max
  int max_devices = 8;
  bool power_of_two_sizes = false;  // `sizes: any | power_of_two`
  int logical_workers = 0;          // 0: the program's own number (of consistent and rigid jobs)
  std::int64_t min_batch = 0;       // `batch: 128..4096` of an adaptive job; 0: unspecified
  std::int64_t max_batch = 0;
  LearningRateRule lr_rule = LearningRateRule::kLinear;
  int epochs = 0;                  // expected number of epochs, for estimates; 0: unspecified
  double min_runtime_s = 0;        // once started, the job keeps its devices at least this long
  double time_limit_s = 0;         // how long the job may hold devices, in all; 0: no limit
  int retries = 0;                 // of an opaque job: further tries after a failed one
  double grace_s = 30;             // of an opaque job: from SIGTERM to SIGKILL
  std::optional<bool> encrypt{};   // what workers send each other between nodes
  double checkpoint_every_s = 30;  // `checkpoint: {every: 30s, keep: 2, to: file:/path}`
  int checkpoint_keep = 2;
  std::string checkpoint_to{};  // a URL (elastic/job/checkpoint_place.h); empty: the job's folder
  std::string device_type{};    // empty: any
  std::string profile{};  // jobs of a tenant that name the same share measurements; empty: those
                          // with the same program (control/profile.h)
  // `env_from: {NAME: file:/path}`: variables whose values are read when the job starts
  std::map<std::string, std::string> env_from{};
  std::string user{};             // unix user that runs it; empty: the daemon's (isolation.h)
  std::int64_t memory_bytes = 0;  // `memory: 4GB`, of all its processes; 0: no limit
  double cpus = 0;                // processors' worth of time; 0: no limit
  std::map<std::string, std::string> labels{};  // for people, to find jobs (control/labels.h)
  std::vector<After> after{};                   // jobs that must have ended before it starts
  ArrayRange array{};                           // of a submission; jobs themselves have none

  bool operator==(const JobDocument&) const = default;
};

// An error names file:line:column, the field, the value found and what was expected. For an unknown
// field it suggests the nearest valid name. `file` is used only in messages.
Result<JobDocument> parse_job_yaml(std::string_view text, const std::string& file);
// Reads the same fields from a JSON object. An error names the path (/checkpoint/every).
Result<JobDocument> parse_job_json(const nlohmann::json& object);
// Canonical: parse_job_json(to_json(d)) == d.
nlohmann::json to_json(const JobDocument& document);
// Why this name is not valid for a job; empty if it is valid. A name is part of paths and is used
// in place of ids: it has no '/', does not start with '.', and is not an id such as j12.
std::string_view job_name_problem(std::string_view name);
// The fields that may change while the job is active.
inline constexpr std::array<std::string_view, 2> kChangeableFields{"name", "priority"};
// The document with `fields` (a part of a job document) changed. An error names the field. If that
// field cannot be changed, it also lists those that can.
Result<JobDocument> with_changes(const JobDocument& document, const nlohmann::json& fields);
// The folder of the job's outputs, below the job's folder.
std::string outputs_of(const JobDocument& document);
// The job's name as shown to people: `name`, or the file name of the program.
std::string job_title(const JobDocument& document);
// The job's mode as its owner writes it.
std::string_view mode_name(const JobDocument& document);
// JSON Schema (draft 2020-12) of the document.
nlohmann::json job_schema();
// Durations as people write them: 90, "90s", "15m", "2h", "1d".
Result<double> parse_duration(std::string_view text);

}  // namespace rubato::control
