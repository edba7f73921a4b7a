// CRC-32C (Castagnoli), the checksum of iSCSI and ext4; with the processor's instruction where it
// has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rubato {

// Of `bytes` appended to what gave `previous`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);
// The same by table, for tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace rubato
