// Calls to an etcd cluster (3.4 or later) through its JSON gateway.
//
// A call is repeated, at the next member if there is one, until a member has answered it or the
// patience of the client is over. So a call may be carried out more than once: only those that
// allow this are made (a read; a transaction whose comparison fails once it has been carried out).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "elastic/job/registry_url.h"
#include "elastic/transport/http_connection.h"

namespace rubato::elastic {

class EtcdClient {
 public:
  struct Timing {
    std::chrono::milliseconds patience{6000};  // of a call
    // What one member gets; grows with every round over all members.
    std::chrono::milliseconds attempt{1000};
    std::chrono::milliseconds pause{50};  // after each round
  };
  EtcdClient(std::vector<ServerAddress> members, Timing timing);

  // The answer is a JSON object. An error has the code kRefused if the call was surely not carried
  // out by any attempt, else kIo. `doubtful` becomes true if an attempt before the one that was
  // answered may still be carried out. Any number of threads may call at the same time.
  Result<nlohmann::json> call(const std::string& path, const nlohmann::json& request,
                              bool* doubtful = nullptr);

  // The member that calls go to, for a watch. Changes when it does not answer.
  std::size_t preferred() const { return preferred_; }
  const ServerAddress& member(std::size_t index) const { return members_[index % members_.size()]; }

 private:
  struct Attempt;  // what became of it
  Attempt attempt(const ServerAddress& member, const std::string& path, const std::string& request,
                  HttpConnection::Time deadline);
  Result<std::string> exchange(const ServerAddress& member, const std::string& path,
                               const std::string& request, HttpConnection::Time deadline,
                               int& status, bool& sent);
  bool of_this_cluster(const nlohmann::json& answer);

  const std::vector<ServerAddress> members_;
  const Timing timing_;
  std::atomic<std::size_t> preferred_{0};
  Mutex mutex_;
  struct Idle {
    ServerAddress member;
    HttpConnection connection;
  };
  std::vector<Idle> idle_ RUBATO_GUARDED_BY(mutex_);
  std::string cluster_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::elastic
