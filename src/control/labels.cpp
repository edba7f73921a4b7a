#include "control/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/text.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestLabelName = 63;

std::string_view label_name_problem(std::string_view name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const bool fits = !name.empty() && name.size() <= kLongestLabelName && plain(name.front()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return plain(c) || c == '_' || c == '.' || c == '-';
                    });
  return fits ? "" : "expected a name of at most 63 letters, digits, '_', '.' and '-'";
}

}  // namespace

Result<std::pair<std::string, std::string>> parse_label(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return invalid_input(
        fmt::format("'{}': expected NAME=VALUE, such as team=vision", text.substr(0, 80)));
  }
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  std::string_view problem = label_name_problem(name);
  if (problem.empty()) problem = name_problem(value);
  if (!problem.empty()) {
    return invalid_input(fmt::format("'{}': {}", text.substr(0, 80), problem));
  }
  return std::pair(std::string(name), std::string(value));
}

Result<Labels> parse_labels(std::string_view text) {
  Labels labels;
  if (text.empty()) return labels;
  for (const std::string_view one : split(text, ',')) {
    auto label = parse_label(one);
    if (!label) return label.error();
    if (!labels.insert(std::move(*label)).second) {
      return invalid_input(fmt::format("'{}': this label is named twice", one));
    }
  }
  return labels;
}

std::string labels_text(const Labels& labels) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : labels) parts.push_back(fmt::format("{}={}", name, value));
  return join(parts, ",");
}

bool has_labels(const Labels& labels, const Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto found = labels.find(label.first);
    return found != labels.end() && found->second == label.second;
  });
}

Status read_labels(const DocumentNode& node, JobDocument& document) {
  using Kind = DocumentNode::Kind;
  if (node.kind != Kind::kMap) {
    return node.error(node.shown() + "; expected labels, such as {team: vision, run: 7}");
  }
  if (node.entries.size() > kMostLabels) {
    return node.error(
        fmt::format("{} labels; expected at most {}", node.entries.size(), kMostLabels));
  }
  document.labels.clear();
  for (const auto& entry : node.entries) {
    if (const auto problem = label_name_problem(entry.name); !problem.empty()) {
      return invalid_input(fmt::format("{}: {}", entry.place, problem));
    }
    const Kind kind = entry.value.kind;
    if (kind != Kind::kPlain && kind != Kind::kText && kind != Kind::kNumber) {
      return entry.value.error(entry.value.shown() + "; expected a word");
    }
    if (const auto problem = name_problem(entry.value.text); !problem.empty()) {
      return entry.value.error(fmt::format("{}; {}", entry.value.shown(), problem));
    }
    document.labels[entry.name] = entry.value.text;
  }
  return ok_status();
}

json write_labels(const JobDocument& document) {
  return document.labels.empty() ? json() : json(document.labels);
}

json labels_schema() {
  return {{"type", "object"},
          {"maxProperties", kMostLabels},
          {"propertyNames", {{"pattern", "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"}}},
          {"additionalProperties",
           {{"type", {"string", "number"}},
            {"minLength", 1},
            {"maxLength", 200},
            {"pattern", R"(^[ !#-+\--\[\]-~]*$)"}}}};
}

}  // namespace rubato::control
