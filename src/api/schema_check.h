// Checks a value against the part of JSON Schema that this API uses: type, const, enum, minimum,
// exclusiveMinimum, maximum, minLength, maxLength, minItems, maxItems, items, properties, required,
// additionalProperties, anyOf, oneOf, and $ref within the same document. Other keywords (pattern,
// minProperties, description, default, ...) are ignored.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace rubato::api {

struct SchemaFault {
  std::string path;  // of the value: "/devices"; "" for the whole document
  std::string message;
};

// The first fault, if any. References "#/..." point into `document`.
std::optional<SchemaFault> check_schema(const nlohmann::json& schema, const nlohmann::json& value,
                                        const nlohmann::json& document);

}  // namespace rubato::api
