#include "base/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace rubato {

namespace {

std::string shown(std::string_view cell) {
  constexpr std::size_t kMost = 40;
  if (cell.size() <= kMost) return fmt::format("'{}'", cell);
  return fmt::format("'{}...' ({} characters)", cell.substr(0, kMost), cell.size());
}

}  // namespace

Result<CsvTable> CsvTable::read(const std::string& path, const std::vector<std::string>& required) {
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  CsvTable table;
  table.path_ = path;
  table.text_ = std::make_unique<const std::string>(std::move(*text));

  std::string_view rest = *table.text_;
  if (rest.empty()) return invalid_input(path + ":1:1: the file is empty; expected a header line");
  std::uint32_t line_number = 0;
  std::vector<std::string_view> fields;
  while (!rest.empty()) {
    ++line_number;
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    const bool terminated = end != std::string_view::npos;
    rest.remove_prefix(terminated ? end + 1 : rest.size());
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.size() > kLongestLine) {
      return invalid_input(fmt::format("{}:{}:1: the line has {} characters; expected at most {}",
                                       path, line_number, line.size(), kLongestLine));
    }
    if (const std::size_t bad = line.find_first_of(std::string_view("\"\0", 2));
        bad != std::string_view::npos) {
      return invalid_input(
          fmt::format("{}:{}:{}: a quote or a zero byte; expected plain comma-separated text", path,
                      line_number, bad + 1));
    }
    if (line.empty() && line_number == 1) {
      return invalid_input(path + ":1:1: the line is empty; expected a header line");
    }
    if (line.empty()) {
      if (rest.empty()) break;
      return invalid_input(fmt::format("{}:{}:1: the line is empty", path, line_number));
    }
    fields = split(line, ',');
    if (line_number == 1) {
      table.columns_ = fields;
      for (const std::string& name : required) {
        if (table.has_column(name)) continue;
        return invalid_input(fmt::format("{}:1:1: column '{}' is missing; the header has: {}", path,
                                         name, shown(line)));
      }
      continue;
    }
    if (fields.size() != table.columns_.size()) {
      return invalid_input(fmt::format(
          "{}:{}:{}: {} cells; expected {} as in the header{}", path, line_number, line.size() + 1,
          fields.size(), table.columns_.size(),
          terminated ? "" : " (the file ends in the middle of this line: is it truncated?)"));
    }
    table.cells_.insert(table.cells_.end(), fields.begin(), fields.end());
    table.line_of_row_.push_back(line_number);
  }
  return table;
}

int CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
}

std::string CsvTable::where(std::size_t row, int column) const {
  const char* first_cell = cell(row, 0).data();
  return fmt::format("{}:{}:{}", path_, line_of_row_[row],
                     cell(row, column).data() - first_cell + 1);
}

Error CsvTable::error_at(std::size_t row, int column, const std::string& problem) const {
  return invalid_input(fmt::format("{}: {} {}: {}", where(row, column),
                                   columns_[static_cast<std::size_t>(column)],
                                   shown(cell(row, column)), problem));
}

Result<double> CsvTable::number(std::size_t row, int column, NumberRange range) const {
  const auto value = parse_double(cell(row, column));
  if (!value) return error_at(row, column, "expected a number");
  if (*value < range.low || *value > range.high) {
    return error_at(row, column,
                    fmt::format("expected a number from {} to {}", range.low, range.high));
  }
  return *value;
}

Result<std::int64_t> CsvTable::integer(std::size_t row, int column, NumberRange range) const {
  const auto value = parse_int(cell(row, column));
  if (!value) return error_at(row, column, "expected a whole number");
  if (static_cast<double>(*value) < range.low || static_cast<double>(*value) > range.high) {
    return error_at(row, column,
                    fmt::format("expected a whole number from {} to {}", range.low, range.high));
  }
  return *value;
}

}  // namespace rubato
