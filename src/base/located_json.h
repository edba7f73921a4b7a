// Strict JSON parsing, with errors that name file, line, column and what was expected.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "base/result.h"

namespace rubato {

// A JSON text and the positions of its parts. A part is addressed by its path: "devices",
// "devices.max", "applications[2].weight"; the whole document is "".
class LocatedJson {
 public:
  // `file` and `first_line` say where the text comes from. Refuses invalid JSON, duplicate names in
  // an object, and nesting deeper than any of our formats uses.
  static Result<LocatedJson> parse(std::string file, std::string_view text,
                                   std::size_t first_line = 1);

  const nlohmann::json& root() const { return root_; }

  // "FILE:LINE:COLUMN: PATH: problem". The position is that of the field's name.
  Error error_at(std::string_view path, const std::string& problem) const;

  // Refuses fields of `object` (at `path`) that are not in `valid`. The error suggests the nearest
  // valid name.
  Status only_fields(const nlohmann::json& object, const std::string& path,
                     std::span<const std::string> valid) const;
  // Checks and converts a value. `path` is its position in the document.
  Result<double> number(const nlohmann::json& value, std::string_view path,
                        NumberRange range) const;
  Result<std::int64_t> integer(const nlohmann::json& value, std::string_view path,
                               NumberRange range) const;
  Result<std::string> text(const nlohmann::json& value, std::string_view path) const;

 private:
  LocatedJson(std::string file, std::string_view text, std::size_t first_line)
      : file_(std::move(file)), text_(text), first_line_(first_line) {}

  void find_places();
  Error error_at_offset(std::size_t offset, const std::string& problem) const;

  std::string file_;
  std::string_view text_;  // only valid during parse()
  std::size_t first_line_;
  nlohmann::json root_;
  std::vector<std::pair<std::string, std::size_t>> places_;  // path, offset
  std::vector<std::size_t> line_starts_;
};

// A value as shown in an error message: on one line, cut if long.
std::string shown(const nlohmann::json& value);

}  // namespace rubato
