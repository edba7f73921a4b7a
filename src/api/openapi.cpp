// Generates the OpenAPI document from the route table.
#include <set>

#include "api/route.h"
#include "api/schemas.h"

namespace rubato::api {

namespace {

using nlohmann::json;

json json_content(const json& schema) { return {{"application/json", {{"schema", schema}}}}; }

const char* words_for(int status) {
  switch (status) {
    case 400:
      return "invalid request; the message says what is wrong and where";
    case 401:
      return "token missing or unknown";
    case 403:
      return "only for administrators; or a browser sent it for a page of another site";
    case 404:
      return "does not exist, or belongs to another tenant";
    case 409:
      return "not possible in the current state";
    case 413:
      return "the body is too large";
    case 416:
      return "the file has no such range; Content-Range has its size";
    case 429:
      return "too many requests; see Retry-After";
    default:
      return "too many open streams, or the change could not be made durable; retry";
  }
}

json describe(const Parameter& parameter) {
  const char* in = parameter.in == Parameter::In::kPath    ? "path"
                   : parameter.in == Parameter::In::kQuery ? "query"
                                                           : "header";
  return {{"name", parameter.name},
          {"in", in},
          {"required", parameter.in == Parameter::In::kPath},
          {"description", parameter.help},
          {"schema", parameter.schema}};
}

json describe_answers(const Route& route) {
  json answers = json::object();
  for (const Answer& answer : route.answers) {
    json& entry = answers[std::to_string(answer.status)];
    if (!entry.contains("description")) entry["description"] = answer.help;
    if (!answer.schema.is_null()) {
      entry["content"]["application/json"]["schema"] = answer.schema;
    } else if (!answer.media.empty()) {
      entry["content"][answer.media]["schema"] = {{"type", "string"}};
    }
  }
  std::set<int> errors(route.errors.begin(), route.errors.end());
  errors.insert({400, 429});
  if (route.who != Who::kAnyone) errors.insert(401);
  if (route.who != Who::kAnyone && route.who != Who::kTenant) errors.insert(403);
  if (!route.body.is_null()) errors.insert(413);
  if (route.method != "GET") errors.insert({403, 503});
  for (const int status : errors) {
    answers[std::to_string(status)] = {{"description", words_for(status)},
                                       {"content", json_content(schema_of("Error"))}};
  }
  return answers;
}

json describe(const Route& route) {
  json operation = {{"operationId", route.name},
                    {"summary", route.summary},
                    {"x-who", route.who == Who::kAdmin    ? "administrator"
                              : route.who == Who::kAgent  ? "agent"
                              : route.who == Who::kCopier ? "agent or administrator"
                              : route.who == Who::kTenant ? "tenant"
                                                          : "anyone"},
                    {"responses", describe_answers(route)}};
  operation["security"] =
      route.who == Who::kAnyone ? json::array() : json::array({{{"token", json::array()}}});
  for (const Parameter& parameter : route.parameters) {
    operation["parameters"].push_back(describe(parameter));
  }
  if (!route.body.is_null()) {
    operation["requestBody"] = {{"required", true}, {"content", json_content(route.body)}};
    if (route.takes_bytes) {
      operation["requestBody"]["content"] = {
          {"application/octet-stream", {{"schema", route.body}}}};
    }
    if (route.takes_yaml) {
      operation["requestBody"]["content"]["application/yaml"] = {{"schema", route.body}};
    }
  }
  return operation;
}

json make_openapi() {
  json paths = json::object();
  for (const Route& route : routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    paths[route.path][method] = describe(route);
  }
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "Rubato"},
            {"version", "1"},
            {"description",
             "Elastic deep-learning training: jobs, devices, decisions. Every error has the form "
             "of the schema Error. Times are seconds since 1970."}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", component_schemas()},
            {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
}

}  // namespace

const json& openapi() {
  static const json kDocument = make_openapi();
  return kDocument;
}

}  // namespace rubato::api
