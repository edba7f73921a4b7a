// The address of this machine that other nodes of the cluster can probably reach.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::agent {

// The IPv4 address from which this machine reaches the host of a URL http[s]://HOST[:PORT]. Nothing
// is sent. Fails with kIo if the host is unknown or there is no way to it.
Result<std::string> own_address_towards(const std::string& url);

}  // namespace rubato::agent
