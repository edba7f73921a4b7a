#include "control/document_node.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "base/json_text.h"
#include "base/located_json.h"

namespace rubato::control {

namespace {

constexpr std::size_t kDeepest = 4;  // the document and `checkpoint`, plus room for a clear message

bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string_view text_problem(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return "contains a zero byte";
  return is_utf8(text) ? "" : "is not UTF-8";
}

// A field name within a path. Unusual names are quoted and truncated.
std::string shown_name(const std::string& name) {
  constexpr std::size_t kLongest = 40;
  const bool plain =
      !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
        return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '_' || c == '-';
      });
  return plain ? name : shown(nlohmann::json(name));
}

Error too_long(const std::string& place) {
  return invalid_input(
      fmt::format("{}: the document is larger than {} KiB", place, kLongestDocument / 1024));
}

// Builds the tree while yaml-cpp parses the text. Reports problems by throwing yaml-cpp's own
// exception, which ends the parsing.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(const std::string& file) : file_(file) {}

  DocumentNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) throw YAML::ParserException(mark, "a second document in the same file");
    started_ = true;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_special(mark, "", anchor);
    if (expects_name()) throw YAML::ParserException(mark, "a field without a name");
    DocumentNode& node = add(mark, DocumentNode::Kind::kNothing);
    // yaml-cpp reports a missing value where it noticed it, which may be several lines below.
    const DocumentNode* parent = open_.empty() ? nullptr : open_.back().node;
    if (parent != nullptr && parent->kind == DocumentNode::Kind::kMap) {
      node.place = parent->entries.back().place;
    }
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw YAML::ParserException(mark, "aliases (*name) are not allowed");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& /*name*/) override {
    throw YAML::ParserException(mark, "anchors (&name) are not allowed");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_special(mark, tag, anchor);
    if (const auto problem = text_problem(value); !problem.empty()) {
      throw YAML::ParserException(mark, fmt::format("this text {}", problem));
    }
    if (expects_name()) {
      Open& map = open_.back();
      const std::string path = join_path(map.path, value);
      if (!map.names.insert(value).second) {
        throw YAML::ParserException(mark, path + ": duplicate field");
      }
      map.node->entries.push_back({value, place(mark, path), {}});
      map.expects_name = false;
      return;
    }
    add(mark, tag == "!" ? DocumentNode::Kind::kText : DocumentNode::Kind::kPlain).text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, DocumentNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, DocumentNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    DocumentNode* node;
    std::string path;  // "checkpoint"
    bool expects_name;
    std::set<std::string> names{};
  };

  static std::string join_path(const std::string& path, const std::string& name) {
    return path.empty() ? shown_name(name) : path + "." + shown_name(name);
  }
  // The path of the next value.
  std::string next_path() const {
    if (open_.empty()) return "";
    const Open& parent = open_.back();
    if (parent.node->kind == DocumentNode::Kind::kMap) {
      return join_path(parent.path, parent.node->entries.back().name);
    }
    return fmt::format("{}[{}]", parent.path, parent.node->items.size());
  }
  static void refuse_special(const YAML::Mark& mark, const std::string& tag,
                             YAML::anchor_t anchor) {
    if (anchor != 0) throw YAML::ParserException(mark, "anchors (&name) are not allowed");
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw YAML::ParserException(mark, "tags (!name) are not allowed");
    }
  }
  std::string place(const YAML::Mark& mark, const std::string& path) const {
    return fmt::format("{}:{}:{}{}{}", file_, mark.line + 1, mark.column + 1,
                       path.empty() ? "" : ": ", path);
  }
  bool expects_name() const { return !open_.empty() && open_.back().expects_name; }

  DocumentNode& add(const YAML::Mark& mark, DocumentNode::Kind kind) {
    const std::string path = next_path();
    DocumentNode* node = &root_;
    if (!open_.empty()) {
      DocumentNode& parent = *open_.back().node;
      if (parent.kind == DocumentNode::Kind::kMap) {
        node = &parent.entries.back().value;
        open_.back().expects_name = true;
      } else {
        node = &parent.items.emplace_back();
      }
    }
    node->kind = kind;
    node->place = place(mark, path);
    return *node;
  }
  // The address of an open node is stable: its parent gets no other child until it is closed.
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            DocumentNode::Kind kind) {
    refuse_special(mark, tag, anchor);
    if (expects_name()) throw YAML::ParserException(mark, "expected the name of a field");
    if (open_.size() >= kDeepest) throw YAML::ParserException(mark, "nested too deeply");
    const std::string path = next_path();
    DocumentNode& node = add(mark, kind);
    open_.push_back({&node, path, kind == DocumentNode::Kind::kMap});
  }
  void close() { open_.pop_back(); }

  const std::string& file_;
  DocumentNode root_;
  std::vector<Open> open_;
  bool started_ = false;
};

class JsonWalk {
 public:
  Status walk(const nlohmann::json& value, const std::string& path, std::size_t depth,
              DocumentNode& node) {
    using Type = nlohmann::json::value_t;
    node.place = path.empty() ? "/" : path;
    if (depth > kDeepest) return node.error("nested too deeply");
    switch (value.type()) {
      case Type::null:
        node.kind = DocumentNode::Kind::kNothing;
        return ok_status();
      case Type::boolean:
        node.kind = DocumentNode::Kind::kFlag;
        node.text = value.get<bool>() ? "true" : "false";
        return ok_status();
      case Type::number_integer:
      case Type::number_unsigned:
      case Type::number_float:
        node.kind = DocumentNode::Kind::kNumber;
        node.text = compact_json(value);
        return count(node.text, node);
      case Type::string:
        node.kind = DocumentNode::Kind::kText;
        return read_text(value.get_ref<const std::string&>(), node, node.text);
      case Type::array:
        node.kind = DocumentNode::Kind::kList;
        for (std::size_t i = 0; i < value.size(); ++i) {
          if (auto status = count(",", node); !status) return status;
          auto& item = node.items.emplace_back();
          if (auto status = walk(value[i], fmt::format("{}/{}", path, i), depth + 1, item);
              !status) {
            return status;
          }
        }
        return ok_status();
      case Type::object:
        node.kind = DocumentNode::Kind::kMap;
        for (const auto& [name, child] : value.items()) {
          DocumentNode::Entry& entry = node.entries.emplace_back();
          if (auto status = read_text(name, node, entry.name); !status) return status;
          entry.place = fmt::format("{}/{}", path, shown_name(name));
          if (auto status = walk(child, entry.place, depth + 1, entry.value); !status) {
            return status;
          }
        }
        return ok_status();
      default:
        return node.error("expected JSON");
    }
  }

 private:
  Status read_text(const std::string& text, const DocumentNode& node, std::string& out) {
    if (auto status = count(text, node); !status) return status;
    if (const auto problem = text_problem(text); !problem.empty()) {
      return node.error(fmt::format("this text {}", problem));
    }
    out = text;
    return ok_status();
  }
  Status count(std::string_view text, const DocumentNode& node) {
    bytes_ += text.size();
    return bytes_ > kLongestDocument ? Status(too_long(node.place)) : ok_status();
  }

  std::size_t bytes_ = 0;
};

}  // namespace

Error DocumentNode::error(const std::string& problem) const {
  return invalid_input(place + ": " + problem);
}

std::string DocumentNode::shown() const {
  switch (kind) {
    case Kind::kNothing:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a group of fields";
    case Kind::kText:
      return rubato::shown(nlohmann::json(text));
    case Kind::kPlain:
    case Kind::kNumber:
    case Kind::kFlag:
      break;
  }
  const std::string quoted = rubato::shown(nlohmann::json(text));
  return quoted.size() == text.size() + 2 ? text : quoted;
}

Result<DocumentNode> document_from_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kLongestDocument) return too_long(file);
  if (const auto problem = text_problem(text); !problem.empty()) {
    return invalid_input(fmt::format("{}: this file {}; expected YAML", file, problem));
  }
  std::istringstream stream{std::string(text)};
  YamlBuilder builder(file);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& problem) {
    if (problem.mark.is_null()) return invalid_input(fmt::format("{}: {}", file, problem.msg));
    return invalid_input(fmt::format("{}:{}:{}: {}", file, problem.mark.line + 1,
                                     problem.mark.column + 1, problem.msg));
  }
  DocumentNode root = builder.take();
  if (root.place.empty()) root.place = file + ":1:1";
  return root;
}

Result<DocumentNode> document_from_json(const nlohmann::json& value) {
  DocumentNode root;
  if (auto status = JsonWalk().walk(value, "", 0, root); !status) return status.error();
  return root;
}

}  // namespace rubato::control
