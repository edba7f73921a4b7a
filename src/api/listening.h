// What a server needs to listen as its options say.
#pragma once

#include "api/channel.h"
#include "api/listen_address.h"
#include "api/server.h"

namespace rubato::api {

struct Listening {
  ListenAddress address;
  TlsContext tls;  // null: without
};
// An error if the options do not fit together, or tokens would be sent unencrypted without leave.
Result<Listening> prepare_to_listen(const ServerOptions& options);

}  // namespace rubato::api
