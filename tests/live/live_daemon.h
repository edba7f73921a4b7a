// Runs a real rubatod with its own state folder, and a client for it.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "control/history.h"

namespace rubato::live {

using nlohmann::json;

// Waits for a condition that must become true no matter how busy the machine is. Returns false
// after so long that it never will, but before ctest ends the test.
inline bool wait_until(const std::function<bool()>& condition,
                       std::chrono::seconds patience = std::chrono::seconds(300)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class LiveDaemon {
 public:
  // With 0 slots it is the daemon of a cluster.
  LiveDaemon(std::string program, std::string state, int slots, std::string policy = "")
      : program_(std::move(program)),
        state_(std::move(state)),
        slots_(slots),
        policy_(std::move(policy)) {
    std::filesystem::create_directories(std::filesystem::path(state_).parent_path());
  }
  LiveDaemon(const LiveDaemon&) = delete;
  LiveDaemon& operator=(const LiveDaemon&) = delete;
  ~LiveDaemon() { stop(); }

  // False if the daemon does not respond in time. Its output is in log_file().
  bool start() {
    std::filesystem::remove(url_file());
    std::vector<std::string> arguments{
        program_,      "--state",     state_, "--listen",
        "127.0.0.1:0", "--isolation", "none"};  // tests may run as root
    if (slots_ > 0) {
      arguments.insert(arguments.end(), {"--cpu-slots", std::to_string(slots_)});
    } else {
      arguments.insert(arguments.end(), {"--cluster", "--lost-after", "3600"});
    }
    if (!policy_.empty()) {
      arguments.emplace_back("--policy");
      arguments.push_back(policy_);
    }
    std::vector<char*> raw;
    raw.reserve(arguments.size() + 1);
    for (std::string& part : arguments) raw.push_back(part.data());
    raw.push_back(nullptr);
    const std::string log = log_file();
    pid_ = fork();
    if (pid_ == 0) {
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      execv(raw[0], raw.data());
      _exit(127);
    }
    return wait_until([&] { return is_file(url_file()) || ended(); }) && !ended() &&
           wait_until([&] { return get("/healthz").has_value(); });
  }
  bool ended() {
    if (pid_ <= 0) return true;
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }
  // kill -9, like a crash.
  void crash() { end(SIGKILL); }
  void stop() { end(SIGTERM); }
  pid_t pid() const { return pid_; }
  const std::string& state() const { return state_; }
  std::string log_file() const { return state_ + ".log"; }
  std::string url() const { return first_line(url_file()); }
  std::string token() const { return first_line(state_ + "/admin.token"); }

  // The JSON response; empty if there was none (no daemon) or it was an error.
  std::optional<json> get(const std::string& path) const {
    httplib::Client client(url());
    client.set_read_timeout(120);
    return parsed(client.Get(path, headers()));
  }
  std::optional<json> post(const std::string& path, const json& body,
                           const std::string& key = "") const {
    httplib::Client client(url());
    client.set_read_timeout(120);
    httplib::Headers all = headers();
    if (!key.empty()) all.emplace("Idempotency-Key", key);
    return parsed(client.Post(path, all, compact_json(body), "application/json"));
  }
  std::optional<json> put(const std::string& path, const json& body) const {
    httplib::Client client(url());
    client.set_read_timeout(120);
    return parsed(client.Put(path, headers(), body.dump(), "application/json"));
  }
  // Any other request. The body is left out if it is null. Empty also if the daemon died of it.
  std::optional<json> send(const std::string& method, const std::string& path,
                           const json& body = nullptr) const {
    httplib::Client client(url());
    client.set_read_timeout(120);
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.headers = headers();
    if (!body.is_null()) {
      request.body = compact_json(body);
      request.set_header("Content-Type", "application/json");
    }
    return parsed(client.send(request));
  }
  // With the token of an agent.
  std::optional<json> send_as(const std::string& token, const std::string& method,
                              const std::string& path, const std::string& body,
                              const char* type = "application/json") const {
    httplib::Client client(url());
    client.set_read_timeout(120);
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.headers = {{"Authorization", "Bearer " + token}};
    request.body = body;
    if (!body.empty()) request.set_header("Content-Type", type);
    return parsed(client.send(request));
  }
  std::string join_token() const { return first_line(state_ + "/join.token"); }
  std::optional<json> put_bytes(const std::string& path, const std::string& bytes) const {
    httplib::Client client(url());
    client.set_read_timeout(120);
    return parsed(client.Put(path, headers(), bytes, "application/octet-stream"));
  }
  // Whether all jobs have ended and their processes are gone.
  bool idle() const {
    const auto active = get("/api/v1/jobs?active=true");
    if (!active || !(*active)["jobs"].empty()) return false;
    const auto cluster = get("/api/v1/cluster");
    return cluster && (*cluster)["held"] == 0;
  }
  // All events, in order.
  std::vector<control::Event> events() const {
    std::vector<control::Event> all;
    for (;;) {
      const std::int64_t after = all.empty() ? 0 : all.back().seq;
      const auto page = get(fmt::format("/api/v1/events?after={}&limit=1000", after));
      if (!page || (*page)["events"].empty()) return all;
      for (const json& row : (*page)["events"]) {
        all.push_back({.seq = row.value("seq", std::int64_t{0}),
                       .at = row.value("at", 0.0),
                       .type = row.value("type", ""),
                       .job = row.value("job", control::JobNumber{0}),
                       .tenant = row.value("tenant", ""),
                       .body = row.value("body", json::object())});
      }
    }
  }

 private:
  std::string url_file() const { return state_ + "/server.url"; }
  static std::string first_line(const std::string& file) {
    const Result<std::string> text = read_file(file);
    return text.ok() ? text->substr(0, text->find('\n')) : "";
  }
  httplib::Headers headers() const { return {{"Authorization", "Bearer " + token()}}; }
  static std::optional<json> parsed(const httplib::Result& result) {
    if (!result || result->status / 100 != 2) return std::nullopt;
    json body = parse_json(result->body);
    if (body.is_discarded()) return json(result->body);
    return body;
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
  }

  std::string program_;
  std::string state_;
  int slots_;
  std::string policy_;
  pid_t pid_ = -1;
};

}  // namespace rubato::live
