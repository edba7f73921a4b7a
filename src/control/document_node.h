// A job document as a tree with places, the same for YAML and JSON, so that one table of fields
// reads both.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::control {

// A document is at most this large, whatever its form: its bytes as YAML, or the bytes of all names
// and values of the JSON object.
inline constexpr std::size_t kLongestDocument = 64 * 1024;

struct DocumentNode {
  enum class Kind {
    kNothing,  // null, or no value behind the name
    kPlain,    // YAML without quotes: may be a text or a number
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
  // What is here, as a message shows it.
  std::string shown() const;
};
struct DocumentNode::Entry {
  std::string name;
  std::string place;  // of the name
  DocumentNode value;
};

// Refuses what is not YAML, several documents in one file, anchors, aliases and tags (a small file
// could grow without bound), names that occur twice, deep nesting, and text that is not UTF-8 or
// holds a zero byte.
Result<DocumentNode> document_from_yaml(std::string_view text, const std::string& file);
// Refuses deep nesting, and text that is not UTF-8 or holds a zero byte.
Result<DocumentNode> document_from_json(const nlohmann::json& value);

}  // namespace rubato::control
