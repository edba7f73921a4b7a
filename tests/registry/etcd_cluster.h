// Real etcd members on this machine, for tests. Their data is in a temporary folder, their ports
// are free ones, and they end with the test even if it crashes. Call from the main thread only: the
// members are bound to the life of the thread that starts them.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "control/temporary_folder.h"
#include "elastic/job/etcd_client.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

class EtcdCluster {
 public:
  // The program, or "" if it is not installed.
  static std::string program() {
    const char* const path = std::getenv("PATH");
    for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
      std::string file = fmt::format("{}/etcd", folder);
      if (access(file.c_str(), X_OK) == 0) return file;
    }
    return "";
  }
  static constexpr const char* kAbsent =
      "etcd is not installed (Debian: apt install etcd-server); nothing was tested";

  // Null if the members do not come up. `host`: an address of this machine.
  static std::unique_ptr<EtcdCluster> start(std::size_t members,
                                            const std::string& host = "127.0.0.1") {
    for (int tries = 0; tries < 5; ++tries) {  // another program may take a port that was free
      auto cluster = std::unique_ptr<EtcdCluster>(new EtcdCluster(members, host));
      if (cluster->all_answer()) return cluster;
    }
    ADD_FAILURE() << "etcd does not start";
    return nullptr;
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;
  ~EtcdCluster() {
    for (std::size_t i = 0; i < members_.size(); ++i) kill_member(i);
  }

  std::size_t size() const { return members_.size(); }
  const ServerAddress& address(std::size_t member) const { return members_[member].client; }
  std::vector<ServerAddress> addresses() const {
    std::vector<ServerAddress> all;
    for (const Member& member : members_) all.push_back(member.client);
    return all;
  }
  std::string url(const std::string& prefix) const {
    std::string all;
    for (const Member& member : members_) {
      all += fmt::format("{}http://{}", all.empty() ? "" : ",", member.client.text());
    }
    return fmt::format("etcd:{}{}", all, prefix);
  }

  void kill_member(std::size_t index) {
    Member& member = members_[index];
    if (member.pid <= 0) return;
    kill(member.pid, SIGKILL);
    waitpid(member.pid, nullptr, 0);
    member.pid = -1;
  }
  void restart_member(std::size_t index) { launch(members_[index]); }
  void stop_member(std::size_t index) const { kill(members_[index].pid, SIGSTOP); }
  void continue_member(std::size_t index) const { kill(members_[index].pid, SIGCONT); }

  bool runs(std::size_t index) const { return members_[index].pid > 0; }
  bool answers(std::size_t index) const { return !status(index).is_null(); }
  // The leader, as the members say that answer; size() if there is none.
  std::size_t leader() const {
    for (std::size_t i = 0; i < size(); ++i) {
      const nlohmann::json now = status(i);
      if (now.is_null() || now.value("leader", "0") == "0") continue;
      if (now["header"].value("member_id", "") == now.value("leader", "")) return i;
    }
    return size();
  }
  std::string logs() const {
    std::string all;
    for (const Member& member : members_) {
      const Result<std::string> log = read_file(member.folder + ".log");
      if (log.ok())
        all += "\n== " + member.folder + "\n" +
               log->substr(log->size() - std::min<std::size_t>(log->size(), 3000));
    }
    return all;
  }

 private:
  struct Member {
    ServerAddress client;
    std::uint16_t peer = 0;
    std::string name;
    std::string folder;
    pid_t pid = -1;
  };

  EtcdCluster(std::size_t members, const std::string& host) {
    std::vector<std::uint16_t> ports = free_ports(2 * members);
    for (std::size_t i = 0; i < members; ++i) {
      const std::string name = fmt::format("m{}", i);
      members_.push_back({{host, ports[2 * i]}, ports[2 * i + 1], name, folder_ / name});
      initial_ += fmt::format("{}{}=http://{}:{}", i == 0 ? "" : ",", name, host, ports[2 * i + 1]);
    }
    for (Member& member : members_) launch(member);
  }

  static std::vector<std::uint16_t> free_ports(std::size_t count) {
    std::vector<Descriptor> sockets;  // all open at a time, so that no port comes twice
    std::vector<std::uint16_t> ports;
    while (ports.size() < count) {
      Descriptor& socket = sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof(address);
      auto* const raw = reinterpret_cast<sockaddr*>(&address);
      const bool bound =
          bind(socket.get(), raw, size) == 0 && getsockname(socket.get(), raw, &size) == 0;
      ports.push_back(bound ? ntohs(address.sin_port) : std::uint16_t{0});
    }
    return ports;
  }

  void launch(Member& member) {
    const std::string client = "http://" + member.client.text();
    const std::string peer = fmt::format("http://{}:{}", member.client.host, member.peer);
    std::vector<std::string> words{program(),     "--name",
                                   member.name,   "--data-dir",
                                   member.folder, "--listen-client-urls",
                                   client,        "--advertise-client-urls",
                                   client,        "--listen-peer-urls",
                                   peer,          "--initial-advertise-peer-urls",
                                   peer,          "--initial-cluster",
                                   initial_,      "--logger",
                                   "zap",         "--log-outputs",
                                   "stderr"};
    std::vector<char*> raw;
    raw.reserve(words.size() + 1);
    for (std::string& word : words) raw.push_back(word.data());
    raw.push_back(nullptr);
    const std::string log = member.folder + ".log";
    const pid_t parent = getpid();
    member.pid = fork();
    if (member.pid != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(raw[0], raw.data());
    _exit(127);
  }

  bool all_answer() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (std::size_t i = 0; i < size();) {
      if (waitpid(members_[i].pid, nullptr, WNOHANG) != 0) return false;
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (leader() < size() && answers(i))
        ++i;
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  nlohmann::json status(std::size_t index) const {
    using std::chrono::milliseconds;
    EtcdClient one(
        {address(index)},
        {.patience = milliseconds(300), .attempt = milliseconds(300), .pause = milliseconds(300)});
    Result<nlohmann::json> answer = one.call("/v3/maintenance/status", nlohmann::json::object());
    return answer.ok() ? *answer : nlohmann::json();
  }

  const TemporaryFolder folder_;
  std::string initial_;
  std::vector<Member> members_;
};

}  // namespace rubato::elastic
