#include "api/standby_server.h"

#include <fmt/format.h>

#include <utility>

#include "api/front.h"
#include "api/listening.h"
#include "api/reply.h"
#include "api/tls_name.h"
#include "base/json_text.h"

namespace rubato::api {

namespace {

using control::Standby;
using nlohmann::json;

json health_of(const Standby::Now& now) {
  // Without the problem itself, because anyone may ask.
  const std::string reason = !now.problem.empty() ? "it cannot follow; see its log"
                             : now.leader.empty() ? "nobody leads"
                                                  : "another daemon leads";
  return {{"status", "standby"}, {"reason", reason}, {"behind", now.behind}};
}

json error_of(const Standby::Now& now) {
  json error = {{"code", "standby"}};
  if (now.leader.empty()) {
    error["message"] = "this daemon stands by, and nobody leads at the moment; retry";
  } else {
    error["message"] = fmt::format("this daemon stands by; ask the leader, {}", now.leader);
    error["leader"] = now.leader;
  }
  return {{"error", std::move(error)}};
}

class StandbyServerImpl final : public StandbyServer {
 public:
  StandbyServerImpl(const ServerOptions& options, TlsContext tls)
      : https_(tls != nullptr),
        tls_(tls.get()),
        front_(options.limits, std::move(tls),
               [this](const httplib::Request& request, httplib::Response& response,
                      const Front::Gone&) { answer(request, response); }),
        local_front_(options.limits, nullptr,
                     [this](const httplib::Request& request, httplib::Response& response,
                            const Front::Gone&) { answer(request, response); }) {}
  ~StandbyServerImpl() override {
    front_.stop_all();
    local_front_.stop_all();
  }

  Status listen(const ListenAddress& address, const std::string& socket) {
    const std::string name = name_for_clients(address.host, tls_);
    host_ = name.find(':') != std::string::npos ? "[" + name + "]" : name;
    Status listening = front_.listen_on(address.host, address.port);
    if (!listening.ok() || socket.empty()) return listening;
    return local_front_.listen_at(socket);
  }
  int port() const override { return front_.port(); }
  std::string url() const override {
    return fmt::format("{}://{}:{}", https_ ? "https" : "http", host_, port());
  }
  void tell(const Standby::Now& now) override {
    const MutexLock lock(mutex_);
    now_ = now;
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) {
    Standby::Now now;
    {
      const MutexLock lock(mutex_);
      now = now_;
    }
    response.status = 503;
    response.set_content(to_text(request.path == "/healthz" ? health_of(now) : error_of(now)),
                         "application/json");
  }

  const bool https_;
  ssl_ctx_st* const tls_;  // owned by front_
  std::string host_;
  Mutex mutex_;
  Standby::Now now_ RUBATO_GUARDED_BY(mutex_);
  Front front_;
  Front local_front_;
};

}  // namespace

Result<std::unique_ptr<StandbyServer>> StandbyServer::start(const ServerOptions& options) {
  Result<Listening> listening = prepare_to_listen(options);
  if (!listening.ok()) return listening.error();
  auto server = std::make_unique<StandbyServerImpl>(options, std::move(listening->tls));
  const Status listens = server->listen(listening->address, options.local_socket);
  if (!listens.ok()) return listens.error();
  return Result<std::unique_ptr<StandbyServer>>(std::move(server));
}

}  // namespace rubato::api
