// Further nodes of a job, emulated on this machine: 'rubato join' with a node name of their own.
#pragma once

#include <fmt/format.h>

#include <fstream>

#include "elastic/job_runner.h"

namespace rubato::elastic {

class RunningNode {
 public:
  RunningNode(const std::string& rubato, const std::string& folder, const std::string& node,
              int workers, std::vector<std::string> prefix = {},
              const std::string& listen = "127.0.0.1")
      : folder_(folder), node_(node) {
    std::vector<std::string> all = std::move(prefix);
    for (const std::string& part :
         {rubato, std::string("join"), folder, std::string("--node"), node,
          std::string("--workers"), std::to_string(workers), std::string("--listen"), listen}) {
      all.push_back(part);
    }
    std::vector<char*> raw;
    raw.reserve(all.size() + 1);
    for (std::string& part : all) raw.push_back(part.data());
    raw.push_back(nullptr);
    const std::string log = fmt::format("{}/launcher-{}.log", folder, node);
    pid_ = fork();
    if (pid_ == 0) {
      setenv("RUBATO_HOME", (folder + "/home").c_str(), 1);
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      execvp(raw[0], raw.data());
      _exit(127);
    }
  }
  RunningNode(const RunningNode&) = delete;
  RunningNode& operator=(const RunningNode&) = delete;
  ~RunningNode() { kill_all(); }

  const std::string& node() const { return node_; }
  pid_t pid() const { return pid_; }
  // Kills the launcher and with it all its workers, as when the machine fails.
  void kill_all() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    wait();
  }
  // Its workers leave, then it ends.
  void leave() const { kill(pid_, SIGINT); }
  bool ended() {
    if (pid_ <= 0) return true;
    if (waitpid(pid_, &status_, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }
  int wait() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  std::string log() const {
    const Result<std::string> text = read_file(fmt::format("{}/launcher-{}.log", folder_, node_));
    return text.ok() ? *text : "";
  }

 private:
  std::string folder_;
  std::string node_;
  pid_t pid_ = -1;
  int status_ = 0;
};

// Members of a view on a node.
inline std::vector<Member> members_on(const View& view, const std::string& node) {
  std::vector<Member> found;
  for (const Member& member : view.members) {
    if (member.address.node == node) found.push_back(member);
  }
  return found;
}

// Shared memory of the job that the process has mapped although it belongs to another node.
inline std::vector<std::string> foreign_memory(const Member& member, const std::string& token) {
  std::vector<std::string> found;
  std::ifstream maps(fmt::format("/proc/{}/maps", member.address.pid));
  const std::string all = "rubato." + token + ".";
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find(all);
    if (at == std::string::npos) continue;
    if (line.compare(at, all.size() + member.address.node.size() + 1,
                     all + member.address.node + ".") != 0) {
      found.push_back(line.substr(at));
    }
  }
  return found;
}

}  // namespace rubato::elastic
