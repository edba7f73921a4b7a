// The worker whose state a newcomer copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rubato::elastic {

class Donor {
 public:
  virtual ~Donor() = default;
  // Copies a unit and returns its version, or nothing if this attempt failed.
  virtual std::optional<std::int64_t> copy_unit(std::size_t index,
                                                std::span<std::byte> out) const = 0;
  // Makes a copy_unit() in another thread return soon and every later call fail.
  virtual void cancel() const {}
};

}  // namespace rubato::elastic
