// NVIDIA's management library: how busy GPUs are and how much of their memory is in use. It comes
// with the driver and is loaded at run time, so that the same program runs where there is none. The
// few functions that are needed are declared here after its public documentation, without its
// headers; they have not changed for many versions of the driver.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "control/device_use.h"

namespace rubato::control {

inline constexpr const char* kNvmlFile = "libnvidia-ml.so.1";

// For one thread. Its calls may take as long as the driver wants.
class Nvml {
 public:
  // An error: the file cannot be loaded, lacks a function, or finds no driver.
  static Result<std::unique_ptr<Nvml>> load(const std::string& file);
  virtual ~Nvml() = default;

  // Of the GPU with this name, which is an entry of CUDA_VISIBLE_DEVICES: its UUID ("GPU-..."), or
  // its number in the driver's order. What the driver does not tell is empty.
  virtual DeviceUse read(const std::string& name) = 0;
};

}  // namespace rubato::control
