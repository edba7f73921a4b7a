// The name under which clients on this machine reach the server.
#pragma once

#include <string>

struct ssl_ctx_st;

namespace rubato::api {

// For a server that listens on `host`, which may mean all addresses (0.0.0.0, ::). With `tls`, a
// name that the certificate is for, if there is one that leads here; otherwise clients could not
// verify it.
std::string name_for_clients(const std::string& host, ssl_ctx_st* tls);

}  // namespace rubato::api
