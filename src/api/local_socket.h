// A listening unix socket, on which the kernel tells who the peer is.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::api {

// Listens at this path, which every local user may connect to. Replaces what an earlier daemon left
// there. Returns the socket.
Result<int> listen_locally(const std::string& path);

// The address of a peer on such a socket, "unix:UID"; empty for other sockets.
std::string local_address(int socket);
// UID of "unix:UID". No address on the network has that form.
std::optional<uid_t> local_user(std::string_view address);

}  // namespace rubato::api
