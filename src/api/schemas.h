// JSON schemas of requests and responses, for the route table and the OpenAPI document.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace rubato::api {

// {"$ref": "#/components/schemas/NAME"}
nlohmann::json schema_of(const std::string& name);
// All named schemas.
nlohmann::json component_schemas();

// Whole numbers up to here are exact in every JSON reader.
inline constexpr std::int64_t kLargestInteger = 1'000'000'000'000'000;

nlohmann::json text_schema(int longest);
nlohmann::json integer_schema(std::int64_t low, std::int64_t high);
// An object with these properties and no others.
nlohmann::json object_schema(nlohmann::json required, nlohmann::json properties);

}  // namespace rubato::api
