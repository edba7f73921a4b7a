#include "api/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"

namespace rubato::api {

namespace {

using nlohmann::json;
using Fault = std::optional<SchemaFault>;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    if (value.is_number_integer()) return true;
    if (!value.is_number_float()) return false;
    const double number = value.get<double>();
    return number >= -9e15 && number <= 9e15 &&
           number == static_cast<double>(static_cast<std::int64_t>(number));
  }
  return false;
}

std::string brief(const json& value) {
  if (value.is_number_float()) return fmt::format("{:g}", value.get<double>());
  std::string text = compact_json(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// The types as people call them: "a whole number or a text".
std::string words_for(const std::vector<std::string>& types) {
  const auto word = [](const std::string& type) -> std::string {
    if (type == "integer") return "a whole number";
    if (type == "number") return "a number";
    if (type == "string") return "a text";
    if (type == "boolean") return "true or false";
    if (type == "array") return "a list";
    return type == "object" ? "an object" : type;
  };
  std::vector<std::string> words;
  for (const std::string& type : types) words.push_back(word(type));
  return join(words, " or ");
}

SchemaFault must_be(const std::string& path, const std::string& what, const json& value) {
  return {path, fmt::format("must be {}, not {}", what, brief(value))};
}

class Checker {
 public:
  explicit Checker(const json& document) : document_(document) {}

  Fault check(const json& schema, const json& value, const std::string& path) const {
    if (schema.is_boolean()) {
      if (schema.get<bool>()) return std::nullopt;
      return SchemaFault{path, "no value is allowed here"};
    }
    if (const auto ref = schema.find("$ref"); ref != schema.end()) {
      const std::string& where = ref->get_ref<const std::string&>();
      return check(document_.at(json::json_pointer(where.substr(1))), value, path);
    }
    if (Fault fault = check_choice(schema, value, path)) return fault;
    if (value.is_number()) return check_number(schema, value, path);
    if (value.is_string()) return check_string(schema, value, path);
    if (value.is_array()) return check_array(schema, value, path);
    if (value.is_object()) return check_object(schema, value, path);
    return std::nullopt;
  }

 private:
  Fault check_choice(const json& schema, const json& value, const std::string& path) const {
    if (const auto type = schema.find("type"); type != schema.end()) {
      const std::vector<std::string> types = type->is_array()
                                                 ? type->get<std::vector<std::string>>()
                                                 : std::vector{type->get<std::string>()};
      if (std::none_of(types.begin(), types.end(),
                       [&](const std::string& one) { return has_type(value, one); })) {
        return must_be(path, words_for(types), value);
      }
    }
    if (const auto one = schema.find("const"); one != schema.end() && *one != value) {
      return must_be(path, brief(*one), value);
    }
    if (const auto all = schema.find("enum"); all != schema.end()) {
      if (std::find(all->begin(), all->end(), value) == all->end()) {
        std::vector<std::string> names;
        for (const json& name : *all) names.push_back(brief(name));
        return must_be(path, "one of " + join(names, ", "), value);
      }
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const auto alternatives = schema.find(keyword);
      if (alternatives == schema.end()) continue;
      const auto fits = std::count_if(
          alternatives->begin(), alternatives->end(),
          [&](const json& alternative) { return !check(alternative, value, path).has_value(); });
      if (fits == 0 || (fits > 1 && std::string_view(keyword) == "oneOf")) {
        return SchemaFault{path, fmt::format("{} matches {} of the alternatives; expected one",
                                             brief(value), fits)};
      }
    }
    return std::nullopt;
  }

  static Fault check_number(const json& schema, const json& value, const std::string& path) {
    const double number = value.get<double>();
    if (number < schema.value("minimum", number)) {
      return must_be(path, "at least " + brief(schema["minimum"]), value);
    }
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) {
      return must_be(path, "greater than " + brief(schema["exclusiveMinimum"]), value);
    }
    if (number > schema.value("maximum", number)) {
      return must_be(path, "at most " + brief(schema["maximum"]), value);
    }
    return std::nullopt;
  }

  static Fault check_string(const json& schema, const json& value, const std::string& path) {
    const std::size_t length = value.get_ref<const std::string&>().size();
    if (length < schema.value("minLength", std::size_t{0}) ||
        length > schema.value("maxLength", length)) {
      return SchemaFault{path, fmt::format("must have {} to {} characters, not {}",
                                           schema.value("minLength", std::size_t{0}),
                                           schema.value("maxLength", length), length)};
    }
    return std::nullopt;
  }

  Fault check_array(const json& schema, const json& value, const std::string& path) const {
    if (value.size() < schema.value("minItems", std::size_t{0}) ||
        value.size() > schema.value("maxItems", value.size())) {
      return SchemaFault{path, fmt::format("wrong number of entries: {}", value.size())};
    }
    const auto items = schema.find("items");
    if (items == schema.end()) return std::nullopt;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (Fault fault = check(*items, value[i], fmt::format("{}/{}", path, i))) return fault;
    }
    return std::nullopt;
  }

  Fault check_object(const json& schema, const json& value, const std::string& path) const {
    for (const json& name : schema.value("required", json::array())) {
      if (!value.contains(name.get_ref<const std::string&>())) {
        return SchemaFault{path, fmt::format("the field '{}' is missing", name.get<std::string>())};
      }
    }
    const json none = json::object();
    const auto found = schema.find("properties");
    const json& properties = found == schema.end() ? none : *found;
    const auto others = schema.find("additionalProperties");
    for (const auto& [name, part] : value.items()) {
      const std::string here = path + "/" + name;
      if (const auto property = properties.find(name); property != properties.end()) {
        if (Fault fault = check(*property, part, here)) return fault;
      } else if (others != schema.end()) {
        if (others->is_boolean() && !others->get<bool>()) {
          std::vector<std::string> names;
          for (const auto& [known, unused] : properties.items()) names.push_back(known);
          return SchemaFault{here, fmt::format("unknown field{}; expected one of {}",
                                               did_you_mean(name, names), join(names, ", "))};
        }
        if (Fault fault = check(*others, part, here)) return fault;
      }
    }
    return std::nullopt;
  }

  const json& document_;
};

}  // namespace

std::optional<SchemaFault> check_schema(const json& schema, const json& value,
                                        const json& document) {
  return Checker(document).check(schema, value, "");
}

}  // namespace rubato::api
