// Answers the processes of jobs on this node that ask for their registry, which is in the daemon
// (elastic/job/desk_registry.h): it passes on what they say, and tells them when something has
// changed. Each job has a socket in its folder, to which only its user and the agent may write. A
// thread does this, so that the agent never waits for the daemon.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "agent/daemon_link.h"
#include "base/mutex.h"
#include "elastic/transport/descriptor.h"
#include "elastic/transport/line_socket.h"

namespace rubato::agent {

class RegistryDesk {
 public:
  RegistryDesk(const DaemonAddress& address, const std::string& node, const std::string& token);
  ~RegistryDesk();
  RegistryDesk(const RegistryDesk&) = delete;
  RegistryDesk& operator=(const RegistryDesk&) = delete;

  // Opens the socket of a job, with the rights of its folder's owner.
  Status open(control::JobNumber job, const std::string& folder);
  void close(control::JobNumber job);
  bool is_open(control::JobNumber job) const;
  // What the daemon counted last of the changes of the job's registry.
  void note_changes(control::JobNumber job, std::int64_t changes);

 private:
  struct Client {
    elastic::Descriptor socket;
    elastic::LineReader reader;
    bool watches = false;
    bool lost = false;
  };
  struct Job {
    elastic::Descriptor listener;
    std::list<Client> clients{};
    std::int64_t changes = 0;
    bool changed = false;
  };

  void run();
  void wait();
  void wake() const;
  void accept(Job& job) RUBATO_REQUIRES(mutex_);
  // Takes a complete line of any client, if there is one.
  struct Call {
    control::JobNumber job = 0;
    int socket = -1;
    std::string line{};
  };
  std::vector<Call> calls() RUBATO_REQUIRES(mutex_);
  std::string answer(const Call& call);

  DaemonLink link_;
  const elastic::Descriptor wake_;  // readable when something has changed
  mutable Mutex mutex_;
  std::map<control::JobNumber, Job> jobs_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point away_until_{};  // the thread's: the daemon did not answer
  std::string away_{};
  std::thread thread_;
};

}  // namespace rubato::agent
