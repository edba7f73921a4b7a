#include "control/tokens.h"

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

}  // namespace rubato::control
