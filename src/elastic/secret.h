// The job's secret: who holds it may join views and move state.
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
// Makes a file with a new secret that only its owner can read; it must not exist.
Status create_secret(const std::string& path);
// Refuses a file of another length, and one that other users can read.
Result<std::string> read_secret(const std::string& path);

}  // namespace rubato::elastic
