#include "api/listen_address.h"

#include <fmt/format.h>

#include "base/text.h"

namespace rubato::api {

Result<ListenAddress> parse_listen_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : parse_int(std::string_view(text).substr(colon + 1));
  ListenAddress address;
  if (port && *port >= 0 && *port <= 65535) {
    address.port = static_cast<int>(*port);
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']')) {
      address.host = address.host.substr(1, address.host.size() - 2);
      address.bracketed = true;
    }
    if (!address.host.empty() &&
        (address.bracketed || address.host.find(':') == std::string::npos)) {
      return address;
    }
  }
  return invalid_input(fmt::format(
      "listen address '{}': expected HOST:PORT, such as 127.0.0.1:7117 or [::1]:7117", text));
}

}  // namespace rubato::api
