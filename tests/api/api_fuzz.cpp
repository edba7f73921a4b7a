// Sends malformed requests, generated from the OpenAPI document that the server serves. None may
// crash the server, get a 5xx (except the documented 503) or change the state.
//
//   api_fuzz --requests 20000 [--seed N]
//
// A failure prints the seed, the number of the request and the request itself.
#include <fmt/format.h>
#include <httplib.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <random>

#include "api/raw_socket.h"
#include "api/server.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/random.h"
#include "base/text.h"
#include "control/controller.h"

namespace rubato::api {
namespace {

using nlohmann::json;

template <typename T>
const T& pick(Random& random, const std::vector<T>& from) {
  return from[random.below(static_cast<std::uint32_t>(from.size()))];
}

struct Operation {
  std::string method;
  std::string path;
  json description;
};

// Generates requests that differ from a valid one in at least one way.
class Maker {
 public:
  Maker(const json& openapi, std::uint64_t seed) : openapi_(openapi), random_(seed) {
    for (const auto& [path, operations] : openapi["paths"].items()) {
      for (const auto& [method, description] : operations.items()) {
        std::string upper = method;
        for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        operations_.push_back({upper, path, description});
      }
    }
  }

  // The bytes of a request. It is always invalid: the server must refuse it or only read.
  std::string next(const std::string& token) {
    const Operation& operation = pick(random_, operations_);
    std::string method = operation.method;
    std::string path = fill_path(operation);
    std::string body = make_body(operation);
    std::string type = pick<std::string>(random_, {"application/json", "application/json",
                                                   "application/yaml", "text/plain", "", "\x01"});
    std::string auth = "Bearer " + token;
    std::string more;
    switch (random_.below(8)) {
      case 0:
        method = pick<std::string>(random_, {"GET", "PUT", "DELETE", "PATCH", "POST", "OPTIONS",
                                             "HEAD", "TRACE", "get", "", "A B"});
        if (method == operation.method) method = "PATCH";
        break;
      case 1:
        path = random_path();
        break;
      case 2:
        path += pick<std::string>(
            random_, {"?", "?x=1", "?limit=abc", "?limit=-1", "?after=1e9",
                      "?limit=99999999999999999999", "?active=maybe", "?%ff=%00", "?follow=2",
                      "?tail=", "#x", "?=&&=", "?worker=-1", "?after=1&after=2"});
        break;
      case 3:
        auth = pick<std::string>(
            random_, {"", "Bearer", "Bearer x", "Basic YTpi", "Bearer " + token + token, token,
                      "Bearer \x7f", "Bearer " + std::string(3000, 'a')});
        break;
      case 4:
        more = pick<std::string>(
            random_, {"Last-Event-ID: x\r\n", "Idempotency-Key: \r\n", "Expect: 200\r\n",
                      "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "\x80: y\r\n",
                      "Range: bytes=9-1\r\n", "Connection: \xff\r\n", "Content-Encoding: gzip\r\n",
                      "Idempotency-Key: " + std::string(300, 'k') + "\r\n", "X: " + bytes(40)});
        break;
      default:
        break;
    }
    std::string text =
        fmt::format("{} {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", method, path);
    if (!auth.empty()) text += "Authorization: " + auth + "\r\n";
    if (!type.empty()) text += "Content-Type: " + type + "\r\n";
    text += more;
    const std::size_t said = random_.chance(0.05) ? body.size() + random_.below(100) : body.size();
    text += fmt::format("Content-Length: {}\r\n\r\n{}", said, body);
    if (random_.chance(0.05)) {
      text.resize(random_.below(static_cast<std::uint32_t>(text.size())));  // truncated anywhere
    }
    // A flipped bit of job 0 would be job 1, which exists.
    const bool near_a_job =
        path.find("/0") != std::string::npos || path.find("/j0") != std::string::npos;
    if (random_.chance(0.05) && !near_a_job) {
      text[random_.below(static_cast<std::uint32_t>(std::max<std::size_t>(1, text.size())))] ^=
          static_cast<char>(1 << random_.below(8));
    }
    return text;
  }

 private:
  std::string bytes(int most) {
    std::string text;
    for (int k = random_.between(0, most); k > 0; --k)
      text += static_cast<char>(random_.below(256));
    return text;
  }
  std::string quoted(const std::string& text) {
    std::string out;
    for (const char c : text) out += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    return out;
  }
  std::string random_path() {
    std::string path;
    for (int k = random_.between(0, 6); k > 0; --k) {
      path += "/" +
              pick<std::string>(random_, {"api", "v1", "jobs", "..", "", "%2e%2e", "%", "%zz",
                                          "events", "~", quoted(bytes(6)), std::string(400, 'p')});
    }
    return path.empty() ? "/" : path;
  }
  // Fills in path parameters with values that match nothing.
  std::string fill_path(const Operation& operation) {
    std::string path;
    for (const std::string_view part : split(operation.path, '/')) {
      if (part.empty()) continue;
      path += "/";
      if (!part.starts_with('{')) {
        path += part;
        continue;
      }
      path +=
          pick<std::string>(random_, {"0", "-1", "j0", "999999", "99999999999999999999", "nothing",
                                      "j999999", "%00", "%ff%fe", "..", "%2f", "%c3%a4", "1e9",
                                      quoted(bytes(8)) + "x", std::string(300, 'n')});
    }
    return path;
  }
  json anything(int depth) {
    switch (random_.below(depth > 3 ? 9 : 11)) {
      case 0:
        return nullptr;
      case 1:
        return random_.chance(0.5);
      case 2:
        return random_.between(-5, 5);
      case 3:
        return pick<json>(random_, {1e308, -1e308, 9223372036854775807LL, 18446744073709551615ULL,
                                    -9223372036854775807LL, 1e-320, 0.1, 2147483648LL, -0.0});
      case 4:
        return std::string(random_.below(3000), 'x');
      case 5:
        if (random_.chance(0.05)) return std::string(1, '\0');
        return pick<std::string>(random_, {"", "..", "1..", "..1", "4..2", "9999999999999..1", "-1",
                                           "0", "1e9", "NaN", "inf", "1d1d", "a\nb", "{}",
                                           "$(reboot)", "../../etc", "true", "~", "\u202e"});
      case 6:
        return "j" + std::to_string(random_.below(100));
      case 7:
        return json::array();
      case 8:
        return json::object();
      case 9: {
        json list = json::array();
        for (int k = random_.between(1, 4); k > 0; --k) list.push_back(anything(depth + 1));
        return list;
      }
      default: {
        json object = json::object();
        for (int k = random_.between(1, 4); k > 0; --k) {
          object[pick<std::string>(random_, {"a", "run", "every", "devices", "", "x\"y"})] =
              anything(depth + 1);
        }
        return object;
      }
    }
  }
  // An object with the schema's field names and random values. At least one field is invalid.
  json wrong_object(const json& schema) {
    json object = json::object();
    const json properties = schema.value("properties", json::object());
    for (const auto& [name, unused] : properties.items()) {
      if (random_.chance(0.4)) object[name] = anything(0);
    }
    // No schema has this field, so the object is refused even if the rest happens to be valid.
    object[pick<std::string>(random_, {"unknown", "Run", "run ", "device", "__proto__"})] =
        anything(0);
    return object;
  }
  std::string make_body(const Operation& operation) {
    if (!operation.description.contains("requestBody")) return random_.chance(0.1) ? bytes(30) : "";
    const json& contents = operation.description["requestBody"]["content"];
    if (!contents.contains("application/json")) return bytes(300);
    const json& content = contents["application/json"];
    const std::string ref = content["schema"].value("$ref", "");
    const json& schema =
        ref.empty() ? content["schema"] : openapi_[json::json_pointer(ref.substr(1))];
    switch (random_.below(8)) {
      case 0:
        return bytes(300);
      case 1: {
        const json value = anything(0);  // not an object, or one without required fields
        return value.is_object() ? "[]" : dump(value);
      }
      case 2:
        return std::string(random_.below(5000),
                           pick<char>(random_, {'[', '{', '"', '0', '-', ' '}));
      case 3:
        return "run: [a\nb: {c: *d}\n? [x]: !!binary |\n" + bytes(50);
      case 4: {
        std::string text = dump(wrong_object(schema));
        text.resize(random_.below(static_cast<std::uint32_t>(text.size())));
        return text;
      }
      case 5: {
        std::string text = dump(wrong_object(schema));
        text[random_.below(static_cast<std::uint32_t>(text.size()))] = static_cast<char>(0xff);
        return text;
      }
      default:
        return dump(wrong_object(schema));
    }
  }
  static std::string dump(const json& value) { return compact_json(value); }

  const json openapi_;
  Random random_;
  std::vector<Operation> operations_;
};

template <typename T>
T or_die(Result<T> result) {
  if (result.ok()) return std::move(*result);
  fmt::print(stderr, "api_fuzz: {}\n", result.error().message);
  std::exit(1);
}

// Everything that a request could change: the log and the tables.
std::string state_of(const control::Controller& controller) {
  const control::Caller admin{.tenant = "", .admin = true};
  json state = or_die(controller.snapshot(admin));
  state.erase("at");
  json events = json::array();
  for (const control::Event& event : or_die(controller.events(admin, 0, 0, 100'000, 0))) {
    events.push_back(control::to_json(event));
  }
  json tenants = json::array();
  for (const control::Tenant& tenant : controller.tenants(admin)) {
    tenants.push_back(control::to_json(tenant));
  }
  return json{{"snapshot", state},
              {"events", events},
              {"tenants", tenants},
              {"policy", controller.policy_name()}}
      .dump(1);
}

int run(int requests, std::uint64_t seed) {
  fmt::print("api_fuzz: seed {}, {} requests\n", seed, requests);
  std::string folder = (std::filesystem::temp_directory_path() / "rubato-fuzz-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  auto controller = or_die(control::Controller::start({.folder = folder,
                                                       .supervisor = "/bin/false",
                                                       .machine = {.type = "cpu", .devices = 4},
                                                       .round_every_s = 0.5}));
  const control::Caller admin{.tenant = "", .admin = true};
  // Nothing can run, so nothing changes on its own.
  or_die(controller->reserve(admin, 4, 86'400));
  const std::string tenant_token = or_die(controller->set_tenant(admin, "alice", {})).token;
  for (int i = 0; i < 5; ++i) {
    or_die(controller->submit({.tenant = "alice"}, {.run = {"/bin/true"}}, ""));
  }
  auto server =
      or_die(Server::start(*controller, {.per_token = {.per_second = 1e6, .burst = 1e6},
                                         .per_address = {.per_second = 1e6, .burst = 1e6}}));
  httplib::Client client(server->url());
  const std::string admin_token(trim(or_die(read_file(folder + "/admin.token"))));
  const auto document = client.Get("/api/v1/openapi.json");
  if (!document) return 1;
  Maker maker(parse_json_or_throw(document->body), seed);
  // The first decisions about the five jobs are recorded as events. A round is counted before its
  // decisions are recorded, so wait for the round after it.
  const std::int64_t rounds = controller->metrics().rounds;
  while (controller->metrics().rounds < rounds + 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::string before = state_of(*controller);

  std::map<int, int> statuses;
  int failures = 0;
  for (int i = 0; i < requests && failures < 5; ++i) {
    const std::string text = maker.next(i % 3 == 0 ? tenant_token : admin_token);
    const RawSocket socket(server->port());
    socket.send(text);
    socket.end_sending();
    const std::string answer = socket.read_until("\r\n\r\n");
    const int status = answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
    ++statuses[status];
    if (status < 500 || status == 503) continue;
    ++failures;
    fmt::print("FAILED: request {} of seed {} was answered {}:\n{}\n--- request:\n{}\n", i, seed,
               status, answer, text.substr(0, 2000));
  }
  for (const auto& [status, count] : statuses) {
    fmt::print("  {:>6} x {}\n", count, status == 0 ? "closed" : std::to_string(status));
  }
  const auto health = client.Get("/healthz");
  if (!health || health->status != 200) {
    fmt::print("FAILED: the server no longer responds\n");
    ++failures;
  }
  const std::string after = state_of(*controller);
  if (after != before) {
    fmt::print("FAILED: the state changed; seed {}\n--- before\n{}\n--- after\n{}\n", seed, before,
               after);
    ++failures;
  }
  server.reset();
  controller.reset();
  remove_tree(folder);
  fmt::print("api_fuzz: {}\n", failures == 0 ? "no crash, no 5xx, state unchanged" : "FAILED");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rubato::api

int main(int argc, char** argv) {
  CLI::App app{"Sends malformed requests to the API"};
  int requests = 20'000;
  std::uint64_t seed = std::random_device()();
  app.add_option("--requests", requests, "Number of requests")->capture_default_str();
  app.add_option("--seed", seed, "Random seed (default: a different one each time)");
  CLI11_PARSE(app, argc, argv);
  return rubato::api::run(requests, seed);
}
