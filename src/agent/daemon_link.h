// The calls of an agent to its daemon. Every call has a time limit. The code of an error says what
// to do:
//   kIo         the daemon was not reached or cannot do it now; try again later
//   kForbidden  it does not know this token
//   others      it refuses this call
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/cluster/job_copy.h"
#include "control/cluster/node_sync.h"

namespace httplib {
class Client;
}  // namespace httplib

namespace rubato::agent {

struct DaemonAddress {
  // http://HOST:PORT or https://HOST:PORT; several, with commas between them, if there are daemons
  // that stand by. The one that leads is found by asking.
  std::string url;
  std::string ca_file{};  // certificates to trust, for https; empty: the system's
};
Status check_address(const DaemonAddress& address);
std::vector<std::string> urls_of(const DaemonAddress& address);

// For one thread at a time. A call that surely was not carried out, because a daemon was not
// reached or stands by, is repeated at the next one.
class DaemonLink {
 public:
  DaemonLink(const DaemonAddress& address, std::string node, const std::string& token);
  ~DaemonLink();

  Result<control::NodeOrders> sync(const control::NodeReport& report);

  // A call of elastic/job/desk_registry.h, and the answer to it.
  Result<std::string> ask_registry(control::JobNumber job, const std::string& request);

  // A file of the job's upload by its SHA-256, from `offset` on; at most kMostPartBytes.
  Result<std::string> get_uploaded(control::JobNumber job, const std::string& sha256,
                                   std::int64_t offset);

  // --- The copy of a job's folder (control/cluster/job_copy.h)
  Result<std::vector<control::CopiedFile>> list(control::JobNumber job);
  // At most kMostPartBytes.
  Result<std::string> get(control::JobNumber job, const std::string& path, std::int64_t offset);
  Status put(control::JobNumber job, const std::string& path, std::int64_t total,
             std::int64_t offset, const std::string& bytes);
  // The daemon has these bytes in another file of the copy (JobCopy::put_same).
  Status put_same(control::JobNumber job, const std::string& path, std::int64_t total,
                  std::int64_t offset, std::int64_t count, const std::string& as);
  Status append(control::JobNumber job, const std::string& path, std::int64_t offset,
                const std::string& bytes);
  Status remove(control::JobNumber job, const std::string& path);

 private:
  Result<std::string> call(const char* method, const std::string& path, const std::string& body,
                           const char* type);
  // `elsewhere`: the call was not carried out, but may be by another daemon.
  Result<std::string> call_one(std::size_t index, const char* method, const std::string& path,
                               const std::string& body, const char* type, bool& elsewhere);
  std::string file_of(control::JobNumber job, const std::string& path) const;
  const std::string& url() const { return urls_[current_]; }

  const std::vector<std::string> urls_;
  const std::string node_;
  std::vector<std::unique_ptr<httplib::Client>> http_;  // in the order of the URLs
  std::size_t current_ = 0;                             // whom to ask
};

}  // namespace rubato::agent
