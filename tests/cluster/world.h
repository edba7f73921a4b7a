// A cluster of a test: a daemon on host 0, agents on the others, real jobs, and what may happen to
// all of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cluster/hosts.h"

namespace rubato::cluster {

struct WorldOptions {
  std::string folder;
  std::string rubatod;
  int devices = 2;  // of each node
  double lost_after_s = 2;
  std::string policy{};
};

class World {
 public:
  // The calling thread must be on host 0, which is the daemon's. Agents run on all other hosts.
  World(const Hosts& hosts, WorldOptions options) : hosts_(hosts), options_(std::move(options)) {}
  ~World() { stop(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static std::string node(int host) { return "n" + std::to_string(host); }
  int nodes() const { return hosts_.count() - 1; }

  // --- The daemon
  bool start_daemon();  // false if it does not answer
  void kill_daemon();   // -9
  // --- A node, by its host: 1, 2, ...
  void start_agent(int host);
  void kill_agent(int host, int signal = 9);
  // Everything that runs there dies at once. `wiped`: its disk is lost, too.
  void kill_host(int host, bool wiped);
  void stop();

  // --- The API, as its administrator. Empty: no answer, or an error (last_error()).
  std::optional<nlohmann::json> get(const std::string& path) const { return call("GET", path); }
  std::optional<nlohmann::json> post(const std::string& path, const nlohmann::json& body) const {
    return call("POST", path, body);
  }
  std::optional<nlohmann::json> call(const std::string& method, const std::string& path,
                                     const nlohmann::json& body = nullptr,
                                     const std::string& key = "") const;
  const std::string& last_error() const { return last_error_; }
  std::vector<nlohmann::json> events() const;
  // The daemon's copy of a job's folder.
  std::string copy(std::int64_t job) const;
  std::string hash(std::int64_t job) const;  // of the final state, in its result
  std::string logs() const;
  const Hosts& hosts() const { return hosts_; }
  const std::string& folder() const { return options_.folder; }

 private:
  std::string state() const { return options_.folder + "/state"; }
  std::string log(const std::string& who) const { return options_.folder + "/" + who + ".log"; }

  const Hosts& hosts_;
  const WorldOptions options_;
  pid_t daemon_ = -1;
  std::map<int, pid_t> agents_;
  mutable std::string last_error_;
};

// False if the condition does not become true in this time, which is longer than it ever takes.
bool wait_until(const std::function<bool()>& condition, double seconds = 120);

}  // namespace rubato::cluster
