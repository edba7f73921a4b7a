#include "control/tokens.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/sha256.h"
#include "elastic/transport/secret.h"

namespace rubato::control {

Result<std::string> random_token() {
  const auto bytes = elastic::random_nonce();
  if (!bytes.ok()) return bytes.error();
  return "rbt_" + to_hex(*bytes);
}

Result<std::string> random_uid() {
  const auto bytes = elastic::random_nonce();
  if (!bytes.ok()) return bytes.error();
  return to_hex(*bytes).substr(0, 32);
}

// It is written once and kept.
Result<std::string> token_in_file(const std::string& file) {
  if (is_file(file)) {
    Result<std::string> text = read_file(file);
    if (!text.ok()) return text;
    std::string token = *text;
    while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
    if (token.size() < 16) {
      return invalid_input(
          fmt::format("{}: a token needs at least 16 characters; delete the file "
                      "to get a new one",
                      file));
    }
    return token;
  }
  Result<std::string> token = random_token();
  if (!token.ok()) return token;
  Status written = write_private_file(file, *token + "\n");
  if (!written.ok()) return written.error();
  return token;
}

}  // namespace rubato::control
