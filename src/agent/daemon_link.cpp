#include "agent/daemon_link.h"

#include <fmt/format.h>
#include <httplib.h>

#include "base/json_text.h"
#include "base/text.h"

namespace rubato::agent {

namespace {

using control::JobNumber;
using nlohmann::json;

constexpr int kConnectWithin = 3;  // seconds
constexpr int kAnswerWithin = 10;

std::string in_url(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

ErrorCode code_of(int status) {
  switch (status) {
    case 401:
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kRefused;
    case 408:
    case 429:
      return ErrorCode::kIo;
    default:
      return status >= 500 ? ErrorCode::kIo : ErrorCode::kInvalidInput;
  }
}

std::string message_of(int status, const std::string& body) {
  const json answer = parse_json(body);
  if (answer.is_object() && answer.contains("error") && answer["error"].is_object()) {
    const json& error = answer["error"];
    if (error.contains("message") && error["message"].is_string()) {
      return error["message"].get<std::string>();
    }
  }
  return fmt::format("the daemon answered {}", status);
}

std::string code_in(const std::string& body) {
  const json answer = parse_json(body);
  if (!answer.is_object() || !answer.contains("error") || !answer["error"].is_object()) return "";
  return answer["error"].value("code", json()).is_string() ? answer["error"]["code"] : "";
}

}  // namespace

std::vector<std::string> urls_of(const DaemonAddress& address) {
  std::vector<std::string> urls;
  for (const std::string_view url : split(address.url, ',')) urls.emplace_back(url);
  return urls;
}

Status check_address(const DaemonAddress& address) {
  for (const std::string& url : urls_of(address)) {
    const bool known = url.starts_with("http://") || url.starts_with("https://");
    if (known && !url.ends_with('/')) continue;
    return invalid_input(fmt::format(
        "--join {}: expected http://HOST:PORT or https://HOST:PORT, or several with commas", url));
  }
  return ok_status();
}

DaemonLink::DaemonLink(const DaemonAddress& address, std::string node, const std::string& token)
    : urls_(urls_of(address)), node_(std::move(node)) {
  for (const std::string& url : urls_) {
    auto http = std::make_unique<httplib::Client>(url);
    http->set_connection_timeout(kConnectWithin);
    http->set_read_timeout(kAnswerWithin);
    http->set_write_timeout(kAnswerWithin);
    http->set_tcp_nodelay(true);
    http->set_keep_alive(true);
    http->set_bearer_token_auth(token);
    if (!address.ca_file.empty()) http->set_ca_cert_path(address.ca_file);
    http_.push_back(std::move(http));
  }
}

DaemonLink::~DaemonLink() = default;

Result<std::string> DaemonLink::call(const char* method, const std::string& path,
                                     const std::string& body, const char* type) {
  for (std::size_t tries = 1;; ++tries) {
    bool elsewhere = false;
    Result<std::string> answer = call_one(current_, method, path, body, type, elsewhere);
    if (answer.ok() || answer.error().code != ErrorCode::kIo) return answer;
    current_ = (current_ + 1) % urls_.size();
    if (!elsewhere || tries == urls_.size()) return answer;
  }
}

Result<std::string> DaemonLink::call_one(std::size_t index, const char* method,
                                         const std::string& path, const std::string& body,
                                         const char* type, bool& elsewhere) {
  httplib::Request request;
  request.method = method;
  request.path = "/api/v1/nodes/" + in_url(node_) + path;
  request.body = body;
  if (type != nullptr) request.set_header("Content-Type", type);
  const httplib::Result result = http_[index]->send(request);
  if (!result) {
    elsewhere = result.error() == httplib::Error::Connection ||
                result.error() == httplib::Error::ConnectionTimeout;
    return Error{ErrorCode::kIo, fmt::format("cannot reach the daemon at {}: {}", urls_[index],
                                             httplib::to_string(result.error()))};
  }
  if (result->status < 400) return result->body;
  elsewhere = result->status == 503 && code_in(result->body) == "standby";
  return Error{code_of(result->status), message_of(result->status, result->body)};
}

Result<control::NodeOrders> DaemonLink::sync(const control::NodeReport& report) {
  const auto answer =
      call("POST", "/sync", compact_json(control::to_json(report)), "application/json");
  if (!answer.ok()) return answer.error();
  const json orders = parse_json(*answer);
  if (orders.is_object()) return control::node_orders_from(orders);
  return Error{ErrorCode::kIo, fmt::format("{}: its answer is not JSON", url())};
}

Result<std::string> DaemonLink::ask_registry(JobNumber job, const std::string& request) {
  return call("POST", fmt::format("/jobs/{}/registry", job), request, "application/json");
}

std::string DaemonLink::file_of(JobNumber job, const std::string& path) const {
  return fmt::format("/jobs/{}/file?path={}", job, in_url(path));
}

Result<std::vector<control::CopiedFile>> DaemonLink::list(JobNumber job) {
  const auto answer = call("GET", fmt::format("/jobs/{}/files", job), "", nullptr);
  if (!answer.ok()) return answer.error();
  std::vector<control::CopiedFile> files;
  try {
    const json list = parse_json(*answer);
    for (const json& file : list.at("files")) {
      files.push_back({.path = file.at("path").get<std::string>(),
                       .size = file.at("size").get<std::int64_t>(),
                       .modified_us = file.value("modified_us", std::int64_t{0})});
    }
  } catch (const json::exception&) {
    return Error{ErrorCode::kIo, fmt::format("{}: its answer is not a list of files", url())};
  }
  return files;
}

Result<std::string> DaemonLink::get(JobNumber job, const std::string& path, std::int64_t offset) {
  return call("GET", fmt::format("{}&offset={}", file_of(job, path), offset), "", nullptr);
}

Result<std::string> DaemonLink::get_uploaded(JobNumber job, const std::string& sha256,
                                             std::int64_t offset) {
  return call("GET", fmt::format("/jobs/{}/upload?sha256={}&offset={}", job, sha256, offset), "",
              nullptr);
}

Status DaemonLink::put(JobNumber job, const std::string& path, std::int64_t total,
                       std::int64_t offset, const std::string& bytes) {
  const auto done =
      call("PUT", fmt::format("{}&offset={}&size={}", file_of(job, path), offset, total), bytes,
           "application/octet-stream");
  return done.ok() ? ok_status() : Status(done.error());
}

Status DaemonLink::put_same(JobNumber job, const std::string& path, std::int64_t total,
                            std::int64_t offset, std::int64_t count, const std::string& as) {
  const auto done = call("PUT",
                         fmt::format("{}&offset={}&size={}&count={}&same_as={}", file_of(job, path),
                                     offset, total, count, in_url(as)),
                         "", "application/octet-stream");
  return done.ok() ? ok_status() : Status(done.error());
}

Status DaemonLink::append(JobNumber job, const std::string& path, std::int64_t offset,
                          const std::string& bytes) {
  const auto done = call("PUT", fmt::format("{}&offset={}&grows=true", file_of(job, path), offset),
                         bytes, "application/octet-stream");
  return done.ok() ? ok_status() : Status(done.error());
}

Status DaemonLink::remove(JobNumber job, const std::string& path) {
  const auto done = call("DELETE", file_of(job, path), "", nullptr);
  return done.ok() ? ok_status() : Status(done.error());
}

}  // namespace rubato::agent
