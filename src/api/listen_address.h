// The address of `rubatod --listen`.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::api {

struct ListenAddress {
  std::string host;
  int port = 0;
  bool bracketed = false;  // [::1]:7117
};

// HOST:PORT or [HOST]:PORT.
Result<ListenAddress> parse_listen_address(const std::string& text);

}  // namespace rubato::api
