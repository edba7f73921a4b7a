// The files of a job that its owner may fetch (docs/outputs.md), by the names under which people
// know them:
//
//   outputs/...      the folder `outputs` of its document, wherever it lies below the job's folder
//   logs/...  checkpoints/...  work/...
//   result.json  events.jsonl  tensors.json
//   model.pt         what the runtime wrote, unless the outputs have a file of this name
//
// A path that begins with none of these names is one of the outputs. Everything else in the job's
// folder (its secret, its environment) is not served. The job can change all of it at any time, so
// it is read with job_files.h: links are shown but never followed. Call these functions with the
// rights of the job's user (as_user.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/job_files.h"

namespace rubato::control {

inline constexpr std::string_view kOutputs = "outputs";
// Why this is not a path below a folder ("a/b.txt"); empty if it is one. Refuses empty parts, '.'
// and '..', absolute paths and NUL.
std::string_view relative_path_problem(std::string_view path);
// Why a job cannot keep its outputs in this folder below its own; empty if it can.
std::string_view outputs_problem(std::string_view path);

// Where the files of a job are.
struct ResultPlace {
  std::string folder;   // of the job
  std::string outputs;  // relative to it
};

struct ResultEntry {
  enum class Kind { kFile, kFolder, kLink, kOther };
  std::string name;
  Kind kind = Kind::kFile;
  std::int64_t size = 0;  // of a file, in bytes
  double modified = 0;    // seconds since 1970
  bool executable = false;
};
std::string_view to_string(ResultEntry::Kind kind);

struct ResultList {
  std::string path;                    // in the words above; "" for the list of those names
  bool is_file = false;                // `entries` has the file itself
  std::vector<ResultEntry> entries{};  // in order of their names
  bool more = false;
  std::int64_t unnamed =
      0;  // entries left out: their names are not UTF-8 or have control characters
};
// At most `most` entries with names after `after`. A folder with more than a million is refused.
Result<ResultList> list_results(const ResultPlace& job, std::string_view path,
                                const std::string& after, std::size_t most);
Result<OpenFile> open_result(const ResultPlace& job, std::string_view path);

}  // namespace rubato::control
