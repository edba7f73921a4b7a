#include "control/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace rubato::control {

namespace {

constexpr int kSuccess = 0;

using Device = void*;  // nvmlDevice_t
struct Utilization {   // nvmlUtilization_t, in percent
  unsigned int gpu = 0;
  unsigned int memory = 0;
};
struct Memory {  // nvmlMemory_t, in bytes
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

struct Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_uuid)(const char* uuid, Device*) = nullptr;
  int (*by_index)(unsigned int index, Device*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) missing = name;
  return function != nullptr;
}

class LoadedNvml final : public Nvml {
 public:
  explicit LoadedNvml(const Functions& functions) : nvml_(functions) {}
  ~LoadedNvml() override { nvml_.shutdown(); }  // the library itself is never unloaded
  LoadedNvml(const LoadedNvml&) = delete;
  LoadedNvml& operator=(const LoadedNvml&) = delete;

  // The device is looked up every time: the driver may have lost it, or found it again.
  DeviceUse read(const std::string& name) override {
    DeviceUse use;
    Device device = nullptr;
    const auto index = parse_int(name);
    const int found = index && *index >= 0
                          ? nvml_.by_index(static_cast<unsigned int>(*index), &device)
                          : nvml_.by_uuid(name.c_str(), &device);
    if (found != kSuccess) return use;
    Utilization busy;
    if (nvml_.utilization(device, &busy) == kSuccess && busy.gpu <= 100) {
      use.utilisation = busy.gpu / 100.0;
    }
    Memory memory;
    if (nvml_.memory(device, &memory) == kSuccess && memory.total > 0) {
      use.memory = static_cast<std::int64_t>(memory.total);
      use.memory_used = static_cast<std::int64_t>(std::min(memory.used, memory.total));
    }
    return use;
  }

 private:
  const Functions nvml_;
};

}  // namespace

Result<std::unique_ptr<Nvml>> Nvml::load(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kNotFound, fmt::format("{} cannot be loaded; it is part of the NVIDIA "
                                                   "driver",
                                                   file)};
  }
  Functions nvml;
  std::string missing;
  if (!find(library, "nvmlInit_v2", nvml.init, missing) ||
      !find(library, "nvmlShutdown", nvml.shutdown, missing) ||
      !find(library, "nvmlDeviceGetHandleByUUID", nvml.by_uuid, missing) ||
      !find(library, "nvmlDeviceGetHandleByIndex_v2", nvml.by_index, missing) ||
      !find(library, "nvmlDeviceGetUtilizationRates", nvml.utilization, missing) ||
      !find(library, "nvmlDeviceGetMemoryInfo", nvml.memory, missing)) {
    return Error{ErrorCode::kRefused,
                 fmt::format("{} has no function {}; update the NVIDIA driver", file, missing)};
  }
  if (const int code = nvml.init(); code != kSuccess) {
    return Error{
        ErrorCode::kIo,
        fmt::format("{} finds no driver (nvmlInit_v2: error {}); see 'nvidia-smi'", file, code)};
  }
  return std::unique_ptr<Nvml>(std::make_unique<LoadedNvml>(nvml));
}

}  // namespace rubato::control
