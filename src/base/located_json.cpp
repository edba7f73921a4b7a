#include "base/located_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/text.h"

namespace rubato {

namespace {

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kLongestName = 64;  // of a field, in paths

// Offset of the quote that ends the string starting at `begin`.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2U : 1U;
  return std::min(i, text.size());
}

// Offset at which the nesting becomes too deep; npos: it never does. The text need not be valid
// JSON.
std::size_t too_deep(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      i = end_of_string(text, i);
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return i;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return std::string_view::npos;
}

// The library's message without its own position, which is relative to the line.
std::string reason_of(const nlohmann::json::exception& exception) {
  constexpr std::size_t kMost = 160;
  std::string_view what = exception.what();
  constexpr std::string_view kMarker = "syntax error ";
  if (const std::size_t found = what.find(kMarker); found != std::string_view::npos) {
    what.remove_prefix(found + kMarker.size());
  } else if (const std::size_t bracket = what.find("] "); bracket != std::string_view::npos) {
    what.remove_prefix(bracket + 2);
  }
  return what.size() <= kMost ? std::string(what) : std::string(what.substr(0, kMost)) + "...";
}

}  // namespace

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMost = 40;
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Result<LocatedJson> LocatedJson::parse(std::string file, std::string_view text,
                                       std::size_t first_line) {
  LocatedJson located(std::move(file), text, first_line);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || text[i - 1] == '\n') located.line_starts_.push_back(i);
  }
  // The library copies and prints recursively, so deeply nested text would overflow the stack.
  if (const std::size_t deep = too_deep(text); deep != std::string_view::npos) {
    return located.error_at_offset(deep, fmt::format("nested deeper than {} levels", kDeepest));
  }
  try {
    located.root_ = parse_json_or_throw(text);
  } catch (const nlohmann::json::parse_error& error) {
    return located.error_at_offset(error.byte > 0 ? error.byte - 1 : 0,
                                   "not valid JSON: " + reason_of(error));
  } catch (const nlohmann::json::exception& error) {
    return located.error_at_offset(0, "not valid JSON: " + reason_of(error));
  }
  located.find_places();
  std::vector<std::string_view> paths;
  paths.reserve(located.places_.size());
  for (const auto& place : located.places_) paths.push_back(place.first);
  std::sort(paths.begin(), paths.end());
  if (const auto twice = std::adjacent_find(paths.begin(), paths.end()); twice != paths.end()) {
    const auto last = std::find_if(located.places_.rbegin(), located.places_.rend(),
                                   [&](const auto& place) { return place.first == *twice; });
    return located.error_at_offset(last->second, fmt::format("{}: given twice", *twice));
  }
  located.text_ = {};
  return located;
}

// The text is known to be valid JSON here, which keeps this short.
void LocatedJson::find_places() {
  struct Open {
    std::string path;
    bool array;
    std::size_t index = 0;
  };
  std::vector<Open> open;
  std::string current;  // path of the next value
  bool name_next = false;
  const auto element_at = [&](std::size_t offset) {
    current = fmt::format("{}[{}]", open.back().path, open.back().index);
    places_.emplace_back(current, text_.find_first_not_of(" \t\r\n", offset));
  };
  for (std::size_t i = 0; i < text_.size(); ++i) {
    switch (text_[i]) {
      case '"': {
        const std::size_t end = end_of_string(text_, i);
        if (name_next) {
          const std::string& parent = open.back().path;
          current = parent.empty() ? "" : parent + ".";
          current += text_.substr(i + 1, std::min(end - i - 1, kLongestName));
          places_.emplace_back(current, i);
          name_next = false;
        }
        i = end;
        break;
      }
      case '{':
        open.push_back({.path = current, .array = false});
        name_next = true;
        break;
      case '[':
        open.push_back({.path = current, .array = true});
        element_at(i + 1);
        break;
      case ',':
        if (open.back().array) {
          ++open.back().index;
          element_at(i + 1);
        } else {
          name_next = true;
        }
        break;
      case '}':
      case ']':
        open.pop_back();
        name_next = false;
        break;
      default:
        break;
    }
  }
}

Error LocatedJson::error_at_offset(std::size_t offset, const std::string& problem) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const std::size_t line = static_cast<std::size_t>(after - line_starts_.begin());
  const std::size_t start = line == 0 ? 0 : line_starts_[line - 1];
  return invalid_input(fmt::format("{}:{}:{}: {}", file_, first_line_ + (line == 0 ? 0 : line - 1),
                                   offset - start + 1, problem));
}

Error LocatedJson::error_at(std::string_view path, const std::string& problem) const {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const auto& place) { return place.first == path; });
  const std::size_t offset = found == places_.end() ? 0 : found->second;
  return error_at_offset(offset, path.empty() ? problem : fmt::format("{}: {}", path, problem));
}

Status LocatedJson::only_fields(const nlohmann::json& object, const std::string& path,
                                std::span<const std::string> valid) const {
  for (const auto& [name, value] : object.items()) {
    if (std::find(valid.begin(), valid.end(), name) != valid.end()) continue;
    const std::string short_name = name.substr(0, kLongestName);
    return error_at(
        path.empty() ? short_name : path + "." + short_name,
        fmt::format("unknown field{}; expected {}", did_you_mean(name, valid), join(valid, ", ")));
  }
  return ok_status();
}

Result<double> LocatedJson::number(const nlohmann::json& value, std::string_view path,
                                   NumberRange range) const {
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number >= range.low && number <= range.high) return number;
  }
  return error_at(path, fmt::format("expected a number from {} to {}, not {}", range.low,
                                    range.high, shown(value)));
}

Result<std::int64_t> LocatedJson::integer(const nlohmann::json& value, std::string_view path,
                                          NumberRange range) const {
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number >= range.low && number <= range.high && number == std::floor(number)) {
      return static_cast<std::int64_t>(number);
    }
  }
  return error_at(path, fmt::format("expected a whole number from {} to {}, not {}", range.low,
                                    range.high, shown(value)));
}

Result<std::string> LocatedJson::text(const nlohmann::json& value, std::string_view path) const {
  if (value.is_string()) return value.get<std::string>();
  return error_at(path, fmt::format("expected a string, not {}", shown(value)));
}

}  // namespace rubato
