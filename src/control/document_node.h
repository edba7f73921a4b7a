// A job document as a tree in which every node knows its location. YAML and JSON produce the same
// tree, so one table of fields reads both.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::control {

// The largest document: the size of the YAML text, or the total size of all names and values of the
// JSON object.
inline constexpr std::size_t kLongestDocument = 64 * 1024;

struct DocumentNode {
  enum class Kind {
    kNothing,  // null, or a name without a value
    kPlain,    // YAML without quotes: may be a string or a number
    kText,
    kNumber,
    kFlag,
    kList,
    kMap,
  };
  Kind kind = Kind::kNothing;
  std::string place{};  // "FILE:LINE:COLUMN: field" or "/field"
  std::string text{};   // of a scalar, as written
  std::vector<DocumentNode> items{};

  struct Entry;
  std::vector<Entry> entries;  // of a map, in order; names are unique

  bool scalar() const { return kind != Kind::kList && kind != Kind::kMap; }
  // "PLACE: problem"
  Error error(const std::string& problem) const;
  // The value as shown in error messages.
  std::string shown() const;
};
struct DocumentNode::Entry {
  std::string name;
  std::string place;  // of the name
  DocumentNode value;
};

// Refuses invalid YAML, several documents in one file, anchors, aliases and tags (with which a
// small file could expand without bound), duplicate names, deep nesting, and text that is not UTF-8
// or contains a zero byte.
Result<DocumentNode> document_from_yaml(std::string_view text, const std::string& file);
// Refuses deep nesting, and text that is not UTF-8 or contains a zero byte.
Result<DocumentNode> document_from_json(const nlohmann::json& value);

}  // namespace rubato::control
