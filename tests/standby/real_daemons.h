// Real daemons that share a log in a real etcd, with agents and jobs, on this machine. Everything
// ends with the test.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "registry/etcd_cluster.h"

namespace rubato::standby {

// For the main thread only: what is started ends with it.
class RealDaemons {
 public:
  struct Options {
    std::string folder;
    std::string prefix = "/rubato";
    int daemons = 2;
    int agents = 2;
    int devices = 2;  // of each agent's node
    double take_over_after_s = 1;
  };
  RealDaemons(const elastic::EtcdCluster& etcd, Options options);
  ~RealDaemons();
  RealDaemons(const RealDaemons&) = delete;
  RealDaemons& operator=(const RealDaemons&) = delete;

  int count() const { return options_.daemons; }
  void start(int daemon);
  void start_agent(int agent);
  void end(int daemon, int signal);  // and waits for it
  void signal(int daemon, int number) const;
  // What is wrong with it; "": it runs, or was ended.
  std::string death_of(int daemon);
  bool runs(int daemon) const { return pids_.contains(daemon); }
  std::string state(int daemon) const;
  std::string logs() const;
  static std::string node(int agent) { return "n" + std::to_string(agent); }

  // --- The API, as its administrator
  struct Answer {
    int status = 0;  // 0: none
    nlohmann::json body = nlohmann::json::object();
    bool ok() const { return status / 100 == 2; }
  };
  Answer ask(int daemon, const std::string& method, const std::string& path,
             const nlohmann::json& body = nullptr, const std::string& key = "") const;
  // Of whichever daemon leads, until it has done it or refuses it (not 503).
  Answer ask_leader(const std::string& method, const std::string& path,
                    const nlohmann::json& body = nullptr, const std::string& key = "",
                    double patience_s = 60) const;
  // -1: none of those that answer.
  int leader() const;
  std::vector<nlohmann::json> events() const;

 private:
  pid_t launch(const std::vector<std::string>& words, const std::string& log) const;
  std::string url(int daemon) const;

  const elastic::EtcdCluster& etcd_;
  const Options options_;
  std::vector<int> ports_;
  std::map<int, pid_t> pids_;
  std::map<int, pid_t> agents_;
};

// What one store lacks of another's events, by state folder; "": nothing.
std::string lacks(const std::string& former, const std::string& next);

bool wait_until(const std::function<bool()>& condition, double seconds = 120);

}  // namespace rubato::standby
