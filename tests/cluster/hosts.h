// Hosts of a test: network namespaces at one switch, which is a bridge in a namespace of its own.
// Each host has the address 10.78.0.(index + 1) and a cable that can be cut. What runs on a host
// can be stopped and killed as a whole, like a machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rubato::cluster {

class Hosts {
 public:
  // Null if this machine does not allow namespaces; why() then says what it answered. Remains of
  // tests whose process is gone are removed first.
  static std::optional<Hosts> make(int count);
  static const std::string& why();
  Hosts(Hosts&& other) noexcept : prefix_(std::move(other.prefix_)), count_(other.count_) {
    other.count_ = 0;
  }
  Hosts& operator=(Hosts&&) = delete;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  // Kills what is left on the hosts, then removes them.
  ~Hosts();

  int count() const { return count_; }
  static std::string address(int host);
  // Moves this thread, and what it starts from now on, to the host. Call it before there are other
  // threads.
  bool enter(int host) const;
  // Starts a program there, with its output added to the file. Returns its process id.
  pid_t start(int host, const std::vector<std::string>& command, const std::string& log,
              const std::vector<std::string>& environment = {}) const;
  std::set<pid_t> processes(int host) const;
  void kill_all(int host) const;
  void signal_all(int host, int signal) const;
  void cut(int host) const { set_cable(host, false); }
  void mend(int host) const { set_cable(host, true); }

 private:
  Hosts(std::string prefix, int count) : prefix_(std::move(prefix)), count_(count) {}
  std::string name(int host) const { return prefix_ + "h" + std::to_string(host); }
  void set_cable(int host, bool up) const;

  std::string prefix_;
  int count_ = 0;
};

}  // namespace rubato::cluster
