#include "api/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "api/local_socket.h"
#include "api/schema_check.h"
#include "api/session_cookie.h"
#include "api/text_check.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/as_user.h"

namespace rubato::api {

namespace {

using nlohmann::json;

constexpr int kDeepestJson = 32;

// Decodes %2F and the like. Malformed escapes stay as they are.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    decoded += coded ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return decoded;
}

// The values of the {names} in the path, if the path matches the route. The path is not decoded
// yet: a '/' inside a name arrives as %2F and does not separate.
std::optional<json> match_path(const Route& route, std::string_view path) {
  const std::vector<std::string_view> wanted = split(route.path, '/');
  const std::vector<std::string_view> given = split(path, '/');
  if (wanted.size() != given.size()) return std::nullopt;
  json found = json::object();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].starts_with('{')) {
      if (given[i].empty()) return std::nullopt;
      found[std::string(wanted[i].substr(1, wanted[i].size() - 2))] = percent_decoded(given[i]);
    } else if (wanted[i] != percent_decoded(given[i])) {
      return std::nullopt;
    }
  }
  return found;
}

struct Found {
  const Route* route = nullptr;
  json path_values;
};

std::variant<Found, Reply> find_route(const std::string& method, std::string_view path) {
  std::vector<std::string> allowed;
  for (const Route& route : routes()) {
    std::optional<json> values = match_path(route, path);
    if (!values) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      return Found{&route, std::move(*values)};
    }
    allowed.push_back(route.method);
  }
  if (allowed.empty()) {
    return error_reply(404, "not-found", "no such path; /api/v1/openapi.json lists them");
  }
  std::sort(allowed.begin(), allowed.end());
  const std::string list = join(allowed, ", ");
  Reply reply = error_reply(405, "method-not-allowed", "allowed methods: " + list);
  reply.headers["Allow"] = list;
  return reply;
}

Reply too_many(double seconds) {
  Reply reply = error_reply(429, "too-many-requests",
                            "too many requests; retry after the time in Retry-After");
  reply.headers["Retry-After"] = std::to_string(static_cast<int>(std::ceil(seconds)));
  return reply;
}

Reply foreign_origin() {
  return error_reply(403, "foreign-origin",
                     "a browser sent this for a page of another site; it was not carried out");
}

// Converts text to the type in the parameter's schema. Text that cannot be converted stays text and
// fails the schema check that follows.
json typed(const std::string& text, const json& schema) {
  const std::string type = schema.value("type", "string");
  if (type == "integer") {
    if (const auto number = parse_int(text)) return *number;
  } else if (type == "boolean") {
    if (text == "true" || text == "1" || text.empty()) return true;
    if (text == "false" || text == "0") return false;
  }
  return text;
}

std::optional<Reply> read_parameters(const Route& route, const httplib::Request& request,
                                     json& values) {
  for (const auto& [name, value] : request.params) {
    std::vector<std::string> known;
    for (const Parameter& parameter : route.parameters) {
      if (parameter.in == Parameter::In::kQuery) known.push_back(parameter.name);
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return error_reply(
          400, "unknown-parameter",
          fmt::format("unknown query parameter '{}'{}", name, did_you_mean(name, known)));
    }
    if (request.get_param_value_count(name) > 1) {
      return error_reply(400, "invalid", fmt::format("query parameter '{}' is given twice", name));
    }
  }
  for (const Parameter& parameter : route.parameters) {
    const std::string& name = parameter.name;
    if (parameter.in == Parameter::In::kPath) {
      values[name] = typed(values[name].get<std::string>(), parameter.schema);
    } else if (parameter.in == Parameter::In::kQuery && request.has_param(name)) {
      values[name] = typed(request.get_param_value(name), parameter.schema);
    } else if (parameter.in == Parameter::In::kHeader && request.has_header(name)) {
      values[name] = typed(request.get_header_value(name), parameter.schema);
    } else if (parameter.schema.contains("default")) {
      values[name] = parameter.schema["default"];
    } else {
      continue;
    }
    if (!is_utf8(values[name].is_string() ? values[name].get_ref<const std::string&>() : "")) {
      return error_reply(400, "invalid", fmt::format("'{}' is not UTF-8", name));
    }
    if (const auto fault = check_schema(parameter.schema, values[name], openapi())) {
      // An invalid name matches nothing.
      if (parameter.in == Parameter::In::kPath) {
        return error_reply(404, "not-found", "no such " + name);
      }
      return error_reply(400, "invalid", fmt::format("{}: {}", name, fault->message));
    }
  }
  return std::nullopt;
}

bool is_yaml(const std::string& content_type) {
  const std::string type(trim(content_type.substr(0, content_type.find(';'))));
  return type == "application/yaml" || type == "application/x-yaml" || type == "text/yaml";
}

// "checkpoint.every: " of "/checkpoint/every".
std::string field_prefix(std::string path) {
  if (path.empty()) return "";
  path.erase(0, 1);
  std::replace(path.begin(), path.end(), '/', '.');
  return path + ": ";
}

std::optional<Reply> read_body(const Route& route, const httplib::Request& request, Call& call) {
  if (route.body.is_null()) {
    if (request.body.empty()) return std::nullopt;
    return error_reply(400, "invalid", "this route takes no body");
  }
  const std::string type = request.get_header_value("content-type");
  if (route.takes_bytes) {
    if (trim(type.substr(0, type.find(';'))) != "application/octet-stream") {
      return error_reply(400, "content-type", "expected application/octet-stream");
    }
    call.bytes = request.body;
    return std::nullopt;
  }
  if (!is_utf8(request.body)) return error_reply(400, "invalid", "the body is not UTF-8");
  if (route.takes_yaml && is_yaml(type)) {
    if (trim(request.body).empty()) return error_reply(400, "invalid", "the body is empty");
    call.yaml = request.body;
    return std::nullopt;
  }
  if (!type.empty() && trim(type.substr(0, type.find(';'))) != "application/json") {
    return error_reply(400, "content-type",
                       route.takes_yaml ? "expected application/json or application/yaml"
                                        : "expected application/json");
  }
  if (json_depth(request.body) > kDeepestJson) {
    return error_reply(400, "invalid",
                       fmt::format("the body is nested more than {} levels deep", kDeepestJson));
  }
  try {
    call.body = parse_json_or_throw(request.body);
  } catch (const json::exception& problem) {
    return error_reply(400, "invalid", std::string("the body is not JSON: ") + problem.what());
  }
  if (const auto name = repeated_field(request.body)) {
    return error_reply(400, "invalid", fmt::format("the field '{}' is there twice", *name));
  }
  // The reader of job documents checks them itself, with better messages.
  if (route.takes_yaml) return std::nullopt;
  if (const auto fault = check_schema(route.body, call.body, openapi())) {
    return error_reply(400, "invalid", field_prefix(fault->path) + fault->message, fault->path);
  }
  return std::nullopt;
}

// A stream whose length is known. If it ends early, the connection breaks, and the client sees it.
void send_counted(const Reply& reply, httplib::Response& response) {
  if (reply.length == 0) {
    response.set_content("", reply.content_type);
    return;
  }
  response.set_content_provider(
      static_cast<std::size_t>(reply.length), reply.content_type,
      [stream = reply.stream](std::size_t, std::size_t left, httplib::DataSink& sink) {
        std::string bytes;
        try {
          stream(bytes);
        } catch (const std::exception&) {
          return false;  // our bug: the client sees a broken stream, the daemon continues
        }
        return !bytes.empty() && bytes.size() <= left && sink.write(bytes.data(), bytes.size());
      });
}

void send(const Reply& reply, bool body_wanted, httplib::Response& response) {
  response.status = reply.status;
  // A browser that shows a response (a file of a job, say) must not take it for a page of ours.
  response.set_header("X-Content-Type-Options", "nosniff");
  if (!reply.headers.contains("Cache-Control")) response.set_header("Cache-Control", "no-store");
  if (!reply.headers.contains("Content-Security-Policy")) {
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; frame-ancestors 'none'; sandbox");
  }
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  if (!reply.stream) {
    if (reply.status != 204) response.set_content(reply.body, reply.content_type);
    return;
  }
  if (reply.length >= 0) {
    send_counted(reply, response);
    return;
  }
  if (!body_wanted) {
    response.set_header("Content-Type", reply.content_type);
    return;
  }
  response.set_chunked_content_provider(
      reply.content_type, [stream = reply.stream](std::size_t, httplib::DataSink& sink) {
        if (!sink.is_writable()) return false;  // the client is gone
        std::string text;
        bool more = false;
        try {
          more = stream(text);
        } catch (const std::exception&) {
          return false;  // our bug: the client sees a broken stream, the daemon continues
        }
        if (!text.empty() && !sink.write(text.data(), text.size())) return false;
        if (!more) sink.done();
        return true;
      });
}

}  // namespace

std::variant<control::Caller, Reply> Dispatcher::find_caller(const Route& route,
                                                             const httplib::Request& request) {
  if (route.who == Who::kAnyone || (options_.open_metrics && route.path == "/metrics")) {
    return control::Caller{};
  }
  const std::string header = request.get_header_value("Authorization");
  constexpr std::string_view kScheme = "bearer ";
  std::string scheme = header.substr(0, kScheme.size());
  std::transform(scheme.begin(), scheme.end(), scheme.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::optional<control::Caller> caller;
  if (scheme == kScheme) {
    caller = controller_.authenticate(trim(std::string_view(header).substr(kScheme.size())));
  }
  const std::optional<std::string> session = session_cookie(request);
  if (header.empty() && session) {
    caller = controller_.session_caller(*session);
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (caller && !reads && origin_of(request) != Origin::kOwn) return foreign_origin();
  }
  const std::optional<uid_t> user = local_user(request.remote_addr);
  if (!caller && header.empty() && user) {
    caller = controller_.local_caller(*user);
    if (!caller) {
      const std::string name = control::unix_user_name(*user);
      return error_reply(
          403, "forbidden",
          fmt::format("user {0} belongs to no tenant here; an administrator makes one: rubato "
                      "tenants set {0} --user {0}",
                      name));
    }
  }
  if (!caller) {
    Reply reply = error_reply(401, "unauthorized",
                              !header.empty() ? "unknown token"
                              : session       ? "the session has ended; log in again"
                                              : "send a token: Authorization: Bearer TOKEN");
    reply.headers["WWW-Authenticate"] = "Bearer";
    return reply;
  }
  caller->address = request.remote_addr;
  const bool for_agents = route.who == Who::kAgent || (route.who == Who::kCopier && !caller->admin);
  if (caller->is_agent() != for_agents) {
    return error_reply(403, "forbidden",
                       caller->is_agent() ? "this token is for the agent of a node"
                                          : "only the agent of a node may do this");
  }
  const double wait =
      caller->is_agent() || route.who == Who::kCopier
          ? 0
          : by_token_.take((caller->admin ? "admin " : "tenant ") + caller->tenant, Clock::now());
  if (wait > 0) {
    metrics_.limited("token");
    return too_many(wait);
  }
  if (route.who == Who::kAdmin && !caller->admin) {
    return error_reply(403, "forbidden", "only an administrator may do this");
  }
  return std::move(*caller);
}

Reply Dispatcher::answer(const httplib::Request& request, const std::function<bool()>& gone,
                         const Route*& route) {
  if (const double wait = by_address_.take(request.remote_addr, Clock::now()); wait > 0) {
    metrics_.limited("address");
    return too_many(wait);
  }
  if (!is_utf8(request.path)) return error_reply(400, "invalid", "the path is not UTF-8");
  const std::string_view target = request.target;
  std::variant<Found, Reply> found = find_route(request.method, target.substr(0, target.find('?')));
  if (Reply* reply = std::get_if<Reply>(&found)) return std::move(*reply);
  route = std::get<Found>(found).route;
  if (const std::string doubt = options_.doubt ? options_.doubt() : ""; !doubt.empty()) {
    return error_reply(503, "standby", doubt + "; retry");
  }
  // Also of a login, which has no session yet.
  if (route->name == "logIn" && origin_of(request) == Origin::kForeign) return foreign_origin();
  std::variant<control::Caller, Reply> caller = find_caller(*route, request);
  if (Reply* reply = std::get_if<Reply>(&caller)) return std::move(*reply);

  const std::string metrics =
      route->path == "/metrics" ? metrics_.text(front_(), streams_.open()) : std::string();
  const std::string accept = request.get_header_value("Accept");
  Call call{.controller = controller_,
            .caller = std::get<control::Caller>(std::move(caller)),
            .parameters = std::move(std::get<Found>(found).path_values),
            .body = nullptr,
            .yaml = {},
            .wants_events = accept.find("text/event-stream") != std::string::npos,
            .streams = streams_,
            .plans = plans_,
            .gone = gone,
            .metrics_of_server = metrics,
            .bytes = {},
            .https = options_.https,
            .cookie_name = session_cookie_name(request),
            .known_etag = request.get_header_value("If-None-Match")};
  if (auto refused = read_parameters(*route, request, call.parameters)) return *refused;
  if (auto refused = read_body(*route, request, call)) return *refused;
  return route->handle(call);
}

void Dispatcher::handle(const httplib::Request& request, httplib::Response& response,
                        const std::function<bool()>& gone) {
  const Clock::time_point begin = Clock::now();
  const Route* route = nullptr;
  Reply reply;
  try {
    reply = answer(request, gone, route);
  } catch (const std::exception& problem) {
    // Our bug. It must not bring the daemon down, and it must be visible.
    reply = error_reply(500, "internal", problem.what());
  }
  send(reply, request.method != "HEAD", response);
  metrics_.count(route == nullptr ? "-" : route->method, route == nullptr ? "-" : route->path,
                 reply.status, std::chrono::duration<double>(Clock::now() - begin).count());
}

}  // namespace rubato::api
