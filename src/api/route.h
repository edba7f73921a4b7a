// A route of the API, as used by dispatch, the OpenAPI document and the tests. The table of all
// routes is in routes.cpp.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/reply.h"
#include "control/controller.h"

namespace rubato::api {

class Plans;
class Streams;

// A checked request: its parameters and body match the route's declarations.
struct Call {
  control::Controller& controller;
  control::Caller caller;
  nlohmann::json parameters;  // path, query and header parameters by name, with defaults
  nlohmann::json body;        // null if there is none
  std::string yaml;           // the body, if it is YAML
  bool wants_events = false;  // Accept: text/event-stream
  Streams& streams;
  Plans& plans;
  const std::function<bool()>& gone;     // the caller has closed the connection
  const std::string& metrics_of_server;  // Prometheus text, for /metrics
  std::string bytes{};                   // the body of a route that takes bytes
  bool https = false;
  std::string cookie_name{};  // of the caller's session (session_cookie.h)
  std::string known_etag{};   // the header If-None-Match

  std::string text(const char* name) const { return parameters.value(name, ""); }
  std::int64_t number(const char* name) const { return parameters.value(name, std::int64_t{0}); }
  bool flag(const char* name) const { return parameters.value(name, false); }
};

// kAgent: of a node, and nobody else. kCopier: also an administrator, such as a daemon that stands
// by.
enum class Who { kAnyone, kTenant, kAdmin, kAgent, kCopier };

struct Parameter {
  enum class In { kPath, kQuery, kHeader };
  std::string name;
  In in = In::kQuery;
  nlohmann::json schema;  // a string, an integer or a boolean
  std::string help;
};

struct Answer {
  int status = 200;
  std::string help;
  nlohmann::json schema;  // null: no JSON
  std::string media = "application/json";
};

struct Route {
  std::string method;
  std::string path;  // "/api/v1/jobs/{job}"
  std::string name;  // operationId
  std::string summary;
  Who who = Who::kTenant;
  std::vector<Parameter> parameters{};
  nlohmann::json body{};  // schema; null: the route takes no body
  bool takes_yaml = false;
  bool takes_bytes = false;       // instead of JSON
  std::vector<Answer> answers{};  // besides errors
  std::vector<int> errors{};      // besides those that any route may return
  Reply (*handle)(const Call& call) = nullptr;
};

const std::vector<Route>& routes();
// The OpenAPI 3.1 document of routes(). Its components contain the schemas used by the routes.
const nlohmann::json& openapi();

}  // namespace rubato::api
