// What a daemon that stands by answers: 503 to everything, with the code "standby" and where the
// leader is ("leader", if it is known). Agents and the command line then ask there.
#pragma once

#include <memory>
#include <string>

#include "api/server.h"
#include "control/standby/standby.h"

namespace rubato::api {

class StandbyServer {
 public:
  // Listens like Server::start(), until destroyed.
  static Result<std::unique_ptr<StandbyServer>> start(const ServerOptions& options);
  virtual ~StandbyServer() = default;

  virtual int port() const = 0;
  virtual std::string url() const = 0;
  // From now on it answers that.
  virtual void tell(const control::Standby::Now& now) = 0;
};

}  // namespace rubato::api
