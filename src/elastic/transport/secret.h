// The job's secret: whoever holds it may join views and transfer state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace rubato::elastic {

inline constexpr std::size_t kSecretBytes = 32;
using Nonce = std::array<std::uint8_t, 32>;  // fresh random bytes

Result<Nonce> random_nonce();
// Creates a file with a new secret that only its owner can read. The file must not exist.
Status create_secret(const std::string& path);
// Refuses a file of the wrong length and one that other users can read.
Result<std::string> read_secret(const std::string& path);

}  // namespace rubato::elastic
