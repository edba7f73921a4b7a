#include "cluster/world.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"

namespace rubato::cluster {

namespace {

using nlohmann::json;

constexpr int kPort = 7070;  // of a host that has nothing else

void end(pid_t pid, int signal) {
  ::kill(pid, signal);
  if (signal == SIGKILL) ::waitpid(pid, nullptr, 0);
}

std::string first_line(const std::string& file) {
  const Result<std::string> text = read_file(file);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace

bool wait_until(const std::function<bool()>& condition, double seconds) {
  const auto by = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > by) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

bool World::start_daemon() {
  std::vector<std::string> command{options_.rubatod,
                                   "--cluster",
                                   "--insecure",
                                   "--state",
                                   state(),
                                   "--listen",
                                   fmt::format("{}:{}", Hosts::address(0), kPort),
                                   "--isolation",
                                   "none",
                                   "--lost-after",
                                   fmt::format("{}", options_.lost_after_s)};
  if (!options_.policy.empty()) command.insert(command.end(), {"--policy", options_.policy});
  daemon_ = hosts_.start(0, command, log("daemon"));
  return wait_until([&] { return get("/api/v1/cluster").has_value(); }, 60);
}

void World::kill_daemon() {
  if (daemon_ > 0) end(daemon_, SIGKILL);
  daemon_ = -1;
}

void World::start_agent(int host) {
  if (agents_.contains(host)) return;
  agents_[host] = hosts_.start(
      host,
      {options_.rubatod, "agent", "--join", fmt::format("http://{}:{}", Hosts::address(0), kPort),
       "--token-file", state() + "/join.token", "--state", options_.folder + "/" + node(host),
       "--node", node(host), "--cpu-slots", std::to_string(options_.devices), "--isolation",
       "none"},
      log(node(host)));
}

void World::kill_agent(int host, int signal) {
  const auto agent = agents_.find(host);
  if (agent == agents_.end()) return;
  ::kill(agent->second, SIGCONT);
  ::kill(agent->second, signal);
  ::waitpid(agent->second, nullptr, 0);
  agents_.erase(agent);
}

void World::kill_host(int host, bool wiped) {
  hosts_.kill_all(host);
  const auto agent = agents_.find(host);
  if (agent != agents_.end()) ::waitpid(agent->second, nullptr, 0);
  agents_.erase(host);
  if (!wiped) return;
  std::error_code error;
  std::filesystem::remove_all(options_.folder + "/" + node(host), error);
}

void World::stop() {
  kill_daemon();
  for (int host = 1; host <= nodes(); ++host) kill_host(host, false);
}

std::optional<json> World::call(const std::string& method, const std::string& path,
                                const json& body, const std::string& key) const {
  httplib::Client client(Hosts::address(0), kPort);
  client.set_connection_timeout(2);
  client.set_read_timeout(30);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.headers = {{"Authorization", "Bearer " + first_line(state() + "/admin.token")}};
  if (!key.empty()) request.headers.emplace("Idempotency-Key", key);
  if (!body.is_null()) {
    request.body = compact_json(body);
    request.set_header("Content-Type", "application/json");
  }
  const httplib::Result result = client.send(request);
  if (!result) {
    last_error_ = httplib::to_string(result.error());
    return std::nullopt;
  }
  if (result->status / 100 != 2) {
    last_error_ = fmt::format("{} {}: {} {}", method, path, result->status, result->body);
    return std::nullopt;
  }
  return parse_json(result->body);
}

std::vector<json> World::events() const {
  std::vector<json> all;
  for (;;) {
    const std::int64_t after = all.empty() ? 0 : all.back().value("seq", std::int64_t{0});
    const auto page = get(fmt::format("/api/v1/events?after={}&limit=1000", after));
    if (!page || !page->contains("events") || (*page)["events"].empty()) return all;
    for (const json& event : (*page)["events"]) all.push_back(event);
  }
}

std::string World::copy(std::int64_t job) const { return fmt::format("{}/jobs/{}", state(), job); }

std::string World::hash(std::int64_t job) const {
  const Result<std::string> text = read_file(copy(job) + "/result.json");
  return text.ok() ? parse_json(*text).value("state_sha256", "") : "";
}

std::string World::logs() const {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
    if (entry.path().extension() != ".log") continue;
    all += "--- " + entry.path().filename().string() + "\n" + *read_file(entry.path().string());
  }
  return all;
}

}  // namespace rubato::cluster
