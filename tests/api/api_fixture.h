// Runs a real controller with its store in a temporary folder, and the API on a loopback port. All
// four devices are reserved, so jobs stay queued and no process starts.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/route.h"
#include "api/schema_check.h"
#include "api/server.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/controller.h"

namespace rubato::api {

struct Got {
  int status = 0;  // 0: no response
  std::string body{};
  nlohmann::json json{};  // null if the body is not JSON
  httplib::Headers headers{};
};

// A request body that the route accepts; null for routes without one.
inline nlohmann::json good_body(const Route& route) {
  using nlohmann::json;
  if (route.name == "submitJob" || route.name == "planJob") {
    return {{"run", {"/bin/true", "--epochs", "3"}}, {"name", "mnist"}, {"devices", "1..4"}};
  }
  if (route.name == "scaleJob") return {{"devices", 2}};
  if (route.name == "changeJob") return {{"priority", 3}};
  if (route.name == "cancelJobs") return {{"name", "nobody-*"}};
  if (route.name == "noteSupply") return {{"text", "2 pilots wait"}, {"for_s", 60}};
  if (route.name == "usePolicy" || route.name == "forecastPolicy") return {{"name", "rubato"}};
  if (route.name == "makeReservation") return {{"devices", 1}, {"seconds", 60}};
  if (route.name == "missingUploads") return {{"files", json::array()}};
  if (route.name == "putUpload" || route.name == "putCopiedFile")
    return json::object();  // not bytes
  if (route.name == "logIn") return {{"token", "wrong"}};
  if (route.name == "syncNode" || route.name == "askRegistry") return json::object();
  if (route.name == "setTenant") return {{"weight", 2}, {"quota", 3}};
  return nullptr;
}

// The declared operation of a request, or null.
inline const nlohmann::json* find_operation(const nlohmann::json& openapi,
                                            const std::string& method, std::string path) {
  path = path.substr(0, path.find('?'));
  const std::vector<std::string_view> given = split(path, '/');
  for (const auto& [pattern, operations] : openapi["paths"].items()) {
    const std::vector<std::string_view> wanted = split(pattern, '/');
    bool fits = wanted.size() == given.size();
    for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
      fits = wanted[i].starts_with('{') ? !given[i].empty() : wanted[i] == given[i];
    }
    std::string lower = method;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (fits && operations.contains(lower)) return &operations[lower];
  }
  return nullptr;
}

// How a response differs from what the document declares; empty if it does not.
inline std::string undeclared(const nlohmann::json& openapi, const std::string& method,
                              const std::string& path, const Got& got) {
  using nlohmann::json;
  const std::string type = [&] {
    const auto header = got.headers.find("Content-Type");
    const std::string value = header == got.headers.end() ? "" : header->second;
    return value.substr(0, value.find(';'));
  }();
  const json* operation = find_operation(openapi, method, path);
  if (operation == nullptr) {
    if (got.status != 404 && got.status != 405) return "a response without a route";
    const auto fault = check_schema(openapi["components"]["schemas"]["Error"], got.json, openapi);
    return fault ? fault->path + ": " + fault->message : "";
  }
  const json& answers = (*operation)["responses"];
  const std::string status = std::to_string(got.status);
  if (!answers.contains(status)) return "status " + status + " is not declared";
  if (!answers[status].contains("content")) return got.body.empty() ? "" : "a body is not declared";
  const json& content = answers[status]["content"];
  if (!content.contains(type)) return "content type '" + type + "' is not declared";
  if (type != "application/json") return "";
  const auto fault = check_schema(content[type]["schema"], got.json, openapi);
  return fault ? fault->path + ": " + fault->message : "";
}

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "rubato-api-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    auto controller = control::Controller::start(
        {.folder = folder_, .supervisor = "/bin/false", .machine = {.type = "cpu", .devices = 4}});
    ASSERT_TRUE(controller.ok()) << controller.error().message;
    controller_ = std::move(*controller);
    const auto admin = read_file(folder_ + "/admin.token");
    ASSERT_TRUE(admin.ok());
    admin_ = trim(*admin);
    ASSERT_TRUE(controller_->reserve(admin_caller_, 4, 3600).ok());
    alice_ = make_tenant("alice");
    bob_ = make_tenant("bob");
    start_server({});
  }
  void TearDown() override {
    server_.reset();
    controller_.reset();
    remove_tree(folder_);
  }

  void start_server(const ServerOptions& options) {
    server_.reset();
    auto server = Server::start(*controller_, options);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  std::string make_tenant(const std::string& name) {
    const auto made = controller_->set_tenant(admin_caller_, name, {});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? made->token : "";
  }

  // Sends the body unchanged. With an empty `token`, sends no token.
  Got ask_raw(const std::string& method, const std::string& path, const std::string& token,
              const std::string& body, const httplib::Headers& headers) {
    httplib::Client client(server_->url());
    client.set_read_timeout(120);
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.headers = headers;
    request.body = body;
    if (!token.empty()) request.set_header("Authorization", "Bearer " + token);
    const httplib::Result result = client.send(request);
    if (!result) return {};
    Got got{.status = result->status, .body = result->body, .headers = result->headers};
    if (result->get_header_value("Content-Type").starts_with("application/json")) {
      got.json = parse_json(got.body);
    }
    return got;
  }
  // Sends JSON and checks the response against the OpenAPI document.
  Got ask(const std::string& method, const std::string& path, const std::string& token,
          const nlohmann::json& body = nullptr, httplib::Headers headers = {}) {
    if (!body.is_null()) headers.emplace("Content-Type", "application/json");
    Got got = ask_raw(method, path, token, body.is_null() ? "" : compact_json(body), headers);
    EXPECT_EQ(undeclared(openapi(), method, path, got), "")
        << method << " " << path << " -> " << got.status << " " << got.body.substr(0, 500);
    return got;
  }
  // Submits a job and returns its number.
  std::int64_t submit(const std::string& token, const std::string& name = "mnist") {
    const Got got = ask("POST", "/api/v1/jobs", token, {{"run", {"/bin/true"}}, {"name", name}});
    EXPECT_EQ(got.status, 201) << got.body;
    return got.json.is_object() ? got.json.value("number", std::int64_t{0}) : 0;
  }

  const control::Caller admin_caller_{.tenant = "", .admin = true};
  std::string folder_;
  std::unique_ptr<control::Controller> controller_;
  std::unique_ptr<Server> server_;
  std::string admin_;
  std::string alice_;
  std::string bob_;
};

}  // namespace rubato::api
