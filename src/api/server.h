// The daemon's HTTP API: routes (routes.cpp) on a listening socket (front.h), with tokens and
// limits. docs/api.md is the documentation for users.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/front.h"
#include "api/rate_limit.h"
#include "base/result.h"
#include "control/controller.h"

namespace rubato::api {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT or [::1]:PORT; port 0: any free port
  std::string tls_certificate{};       // PEM files; both or none
  std::string tls_key{};
  // Allows listening beyond the loopback interface without TLS. Tokens are then sent unencrypted.
  bool insecure = false;
  bool open_metrics = false;  // /metrics without a token
  // Path of a unix socket for local users, who need no token there; empty: none.
  std::string local_socket{};
  FrontLimits limits{};
  int streams = 64;
  int plans = 4;  // concurrent POST /api/v1/plan
  RateLimit per_token{};
  RateLimit per_address{};
  // Why another daemon may lead now (standby/leadership.h); empty: none can. Nothing is answered
  // then but 503 "standby".
  std::function<std::string()> doubt{};
};

class Server {
 public:
  // Serves until destroyed. `controller` must outlive it.
  static Result<std::unique_ptr<Server>> start(control::Controller& controller,
                                               const ServerOptions& options);
  virtual ~Server() = default;  // ends all streams and connections

  virtual int port() const = 0;
  // "http://127.0.0.1:7117": for clients on this machine, see tls_name.h.
  virtual std::string url() const = 0;
};

}  // namespace rubato::api
