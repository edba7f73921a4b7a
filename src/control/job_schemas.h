// What a job's files may contain: one small table per kind of line and file. Everything that the
// daemon uses of a job's JSON has passed one of these checks, so code behind them need not be
// careful with types and ranges. Fields that a table does not name are allowed, and nobody uses
// them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace rubato::control {

enum class FileFieldKind {
  kWhole,    // whole number from `least` to `most`
  kNumber,   // finite number from `least` to `most`
  kText,     // at most `most` bytes
  kList,     // at most `most` entries
  kNumbers,  // object of at most `most` numbers, or "nan", "inf", "-inf", with short plain names
};

struct FileField {
  std::string_view name;
  FileFieldKind kind = FileFieldKind::kWhole;
  double least = 0;
  double most = 0;
  bool required = false;
};

struct FileSchema {
  std::string_view name;  // the `type` of a line, or the name of a file
  std::span<const FileField> fields;
};

// The lines that the runtime writes to events.jsonl.
std::span<const FileSchema> line_schemas();

// Each returns "" or what is wrong: "view: `cause` is 5; expected text of at most 200 bytes".
std::string line_problem(const nlohmann::json& line);
std::string status_problem(const nlohmann::json& status);
std::string result_problem(const nlohmann::json& result);
// A version of the registry's record `view` or `target`.
std::string record_problem(std::string_view name, const nlohmann::json& record);

}  // namespace rubato::control
