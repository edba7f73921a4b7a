#include "api/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include "api/dispatch.h"
#include "api/listening.h"
#include "api/tls_name.h"

namespace rubato::api {

namespace {

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "::1" || host == "localhost";
}

class ServerImpl final : public Server {
 public:
  ServerImpl(control::Controller& controller, const ServerOptions& options, TlsContext tls)
      : https_(tls != nullptr),
        tls_(tls.get()),
        streams_(options.streams),
        plans_({.most = options.plans}),
        dispatcher_(controller, streams_, plans_,
                    {.open_metrics = options.open_metrics,
                     .https = https_,
                     .doubt = options.doubt,
                     .per_token = options.per_token,
                     .per_address = options.per_address},
                    [this] { return front_.counts(); }),
        front_(options.limits, std::move(tls),
               [this](const httplib::Request& request, httplib::Response& response,
                      const Front::Gone& gone) { dispatcher_.handle(request, response, gone); }),
        local_front_(
            options.limits, nullptr,
            [this](const httplib::Request& request, httplib::Response& response,
                   const Front::Gone& gone) { dispatcher_.handle(request, response, gone); }) {}
  ~ServerImpl() override {
    streams_.stop();
    plans_.stop();
    front_.stop_all();
    local_front_.stop_all();
  }
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;

  Status listen(const ListenAddress& address) {
    const std::string name = name_for_clients(address.host, tls_);
    host_ = name.find(':') != std::string::npos ? "[" + name + "]" : name;
    return front_.listen_on(address.host, address.port);
  }
  Status listen_at(const std::string& path) { return local_front_.listen_at(path); }
  int port() const override { return front_.port(); }
  std::string url() const override {
    return fmt::format("{}://{}:{}", https_ ? "https" : "http", host_, port());
  }

 private:
  const bool https_;
  ssl_ctx_st* const tls_;  // owned by front_
  std::string host_;
  Streams streams_;
  Plans plans_;
  Dispatcher dispatcher_;
  Front front_;
  Front local_front_;
};

}  // namespace

Result<Listening> prepare_to_listen(const ServerOptions& options) {
  Result<ListenAddress> address = parse_listen_address(options.listen);
  if (!address.ok()) return address.error();
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return invalid_input("TLS needs both a certificate and its key");
  }
  TlsContext tls;
  if (!options.tls_certificate.empty()) {
    Result<TlsContext> made = make_tls_context(options.tls_certificate, options.tls_key);
    if (!made.ok()) return made.error();
    tls = std::move(*made);
  } else if (!is_loopback(address->host) && !options.insecure) {
    return invalid_input(fmt::format(
        "listen address '{}' can be reached from other machines: give a TLS certificate and key, "
        "or allow unencrypted tokens explicitly",
        options.listen));
  }
  return Listening{.address = std::move(*address), .tls = std::move(tls)};
}

Result<std::unique_ptr<Server>> Server::start(control::Controller& controller,
                                              const ServerOptions& options) {
  Result<Listening> prepared = prepare_to_listen(options);
  if (!prepared.ok()) return prepared.error();
  auto server = std::make_unique<ServerImpl>(controller, options, std::move(prepared->tls));
  const Status listening = server->listen(prepared->address);
  if (!listening.ok()) return listening.error();
  if (!options.local_socket.empty()) {
    const Status local = server->listen_at(options.local_socket);
    if (!local.ok()) return local.error();
  }
  return Result<std::unique_ptr<Server>>(std::move(server));
}

}  // namespace rubato::api
