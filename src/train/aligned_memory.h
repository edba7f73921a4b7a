// Zeroed memory that starts at a multiple of 64 bytes, as units and gradient buffers require.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "base/check.h"

namespace rubato::train {

class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t bytes) : bytes_(bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded == 0 ? 64 : rounded)));
    RUBATO_CHECK(memory_ != nullptr, "out of memory");
    std::memset(memory_.get(), 0, rounded);
  }
  std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }
  float* floats() const { return reinterpret_cast<float*>(memory_.get()); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace rubato::train
