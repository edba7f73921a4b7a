// CRC-32C (Castagnoli), the checksum of iSCSI and ext4. Uses the processor's instruction where
// available. And CRC-32, that of zip files, which has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rubato {

// The checksum of `bytes`. To continue one, pass that of the preceding bytes as `previous`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);
// The table-driven implementation, for tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t previous = 0);
std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace rubato
