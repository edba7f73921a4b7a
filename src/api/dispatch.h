// Turns a parsed request into a response. Finds the route and the caller, and checks everything
// that the route table declares.
#pragma once

#include <httplib.h>

#include <functional>
#include <variant>

#include "api/metrics.h"
#include "api/plans.h"
#include "api/rate_limit.h"
#include "api/route.h"
#include "api/streams.h"

namespace rubato::api {

struct DispatchOptions {
  bool open_metrics = false;
  bool https = false;
  std::function<std::string()> doubt{};  // see ServerOptions
  RateLimit per_token{};
  RateLimit per_address{};
};

class Dispatcher {
 public:
  // `front` supplies the connection counts for /metrics.
  Dispatcher(control::Controller& controller, Streams& streams, Plans& plans,
             const DispatchOptions& options, std::function<FrontCounts()> front)
      : controller_(controller),
        streams_(streams),
        plans_(plans),
        front_(std::move(front)),
        options_(options),
        by_token_(options.per_token),
        by_address_(options.per_address) {}

  // Thread-safe. `gone`: whether the client has closed the connection.
  void handle(const httplib::Request& request, httplib::Response& response,
              const std::function<bool()>& gone);

 private:
  // Sets `route` to the matching route, if there is one.
  Reply answer(const httplib::Request& request, const std::function<bool()>& gone,
               const Route*& route);
  // The caller, or the error response if the caller may not use this route.
  std::variant<control::Caller, Reply> find_caller(const Route& route,
                                                   const httplib::Request& request);

  control::Controller& controller_;
  Streams& streams_;
  Plans& plans_;
  const std::function<FrontCounts()> front_;
  const DispatchOptions options_;
  RateLimiter by_token_;
  RateLimiter by_address_;
  RequestMetrics metrics_;
};

}  // namespace rubato::api
