// Strong ids and units. An id is a dense index assigned by its owner: the cluster numbers nodes and
// device types; the workload or the daemon numbers jobs. An id can therefore index a vector.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rubato {

template <typename Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using JobId = Id<struct JobTag>;
using NodeId = Id<struct NodeTag>;
using DeviceTypeId = Id<struct DeviceTypeTag>;

using Seconds = double;

}  // namespace rubato

template <typename Tag>
struct std::hash<rubato::Id<Tag>> {
  std::size_t operator()(rubato::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};
