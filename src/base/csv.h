// Strict reader for comma-separated files with a header line. Every error names file, line, column
// and what was expected. Quoting is not supported: none of our formats uses it, and a quote is
// refused rather than misread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato {

// The range a number must be in; both bounds are inclusive.
struct NumberRange {
  double low;
  double high;
};

class CsvTable {
 public:
  // Reads the whole file. Checks that every required column exists and that every row has all
  // cells.
  static Result<CsvTable> read(const std::string& path, const std::vector<std::string>& required);

  std::size_t rows() const { return cells_.size() / columns_.size(); }
  bool has_column(std::string_view name) const { return column(name) >= 0; }
  // -1 if there is no such column.
  int column(std::string_view name) const;
  std::string_view cell(std::size_t row, int column) const {
    return cells_[row * columns_.size() + static_cast<std::size_t>(column)];
  }
  Result<double> number(std::size_t row, int column, NumberRange range) const;
  Result<std::int64_t> integer(std::size_t row, int column, NumberRange range) const;

  // "FILE:LINE:COLUMN" of a cell; both are 1-based, and the column counts characters.
  std::string where(std::size_t row, int column) const;
  Error error_at(std::size_t row, int column, const std::string& problem) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<const std::string> text_;  // on the heap: the cells point into it across moves
  std::vector<std::string_view> columns_;
  std::vector<std::string_view> cells_;
  std::vector<std::uint32_t> line_of_row_;
};

// Longer lines are refused: no record of ours is that long, so the file must be something
// else.
inline constexpr std::size_t kLongestLine = 64 * 1024;

}  // namespace rubato
