// Lines of text over a unix socket that is a file. The path may be longer than a socket address
// allows.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

Result<Descriptor> connect_to_file(const std::string& path);
// Replaces what is there. Whoever may write to the file may connect.
Result<Descriptor> listen_at_file(const std::string& path);

// Sends all of it, or fails at the deadline.
Status send_all(int socket, std::string_view text, std::chrono::steady_clock::time_point deadline);

// Collects what arrives until there is a whole line. More than `most` bytes without an end of line
// are an error, and so is the end of the connection.
class LineReader {
 public:
  explicit LineReader(std::size_t most) : most_(most) {}
  // A line that has already arrived, without its end.
  std::optional<std::string> next();
  // Reads what is there; waits for nothing.
  Status receive(int socket);

 private:
  std::size_t most_;
  std::string text_;
};

}  // namespace rubato::elastic
