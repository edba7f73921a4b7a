// What the driver tells of a device: how busy it is and how much of its memory is in use.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace rubato::control {

// What the driver does not tell is empty, never zero.
struct DeviceUse {
  std::string node{};
  int index = 0;         // of the device on its node: 0, 1, 2, ...
  std::int64_t job = 0;  // that holds it; 0: none
  // The share of the last sampling period in which a kernel ran, 0 to 1.
  std::optional<double> utilisation{};
  std::optional<std::int64_t> memory_used{};  // bytes, of all processes
  std::optional<std::int64_t> memory{};       // bytes that the device has
};

// {"index", "job", "utilisation", "memory_used", "memory"}, without what is unknown.
nlohmann::json to_json(const DeviceUse& use);
// Everything is checked like something that a stranger wrote. The node has so many devices.
Result<DeviceUse> device_use_from(const nlohmann::json& object, const std::string& node,
                                  int devices);

}  // namespace rubato::control
