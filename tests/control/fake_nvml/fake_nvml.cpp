// Stands in for libnvidia-ml.so.1 in tests: two GPUs, GPU-aaaa and GPU-bbbb, which are also the
// numbers 0 and 1. FAKE_NVML says what is wrong with it.
#include <cstring>

#define LACKS_MEMORY 1  // has no nvmlDeviceGetMemoryInfo
#define FINDS_NO_DRIVER 2
#define FAILS 3         // at every question about a device
#define TELLS_LITTLE 4  // of memory, not of utilisation, and nothing of the second GPU

extern "C" {

struct Utilization {
  unsigned int gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kDriverNotLoaded = 9;
constexpr int kUnknown = 999;

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
int nvmlInit_v2() { return FAKE_NVML == FINDS_NO_DRIVER ? kDriverNotLoaded : 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  static char devices[2];
  if (FAKE_NVML == FAILS) return kUnknown;
  if (index > 1 || (FAKE_NVML == TELLS_LITTLE && index == 1)) return kNotFound;
  *device = &devices[index];
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, "GPU-aaaa") == 0) return nvmlDeviceGetHandleByIndex_v2(0, device);
  if (std::strcmp(uuid, "GPU-bbbb") == 0) return nvmlDeviceGetHandleByIndex_v2(1, device);
  return kNotFound;
}

static bool is_first(void* device) {
  void* first = nullptr;
  nvmlDeviceGetHandleByIndex_v2(0, &first);
  return device == first;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
  if (FAKE_NVML == TELLS_LITTLE) return kNotSupported;
  *rates = {is_first(device) ? 25U : 75U, 1U};
  return 0;
}

#if FAKE_NVML != LACKS_MEMORY
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long used = is_first(device) ? 10 : 30;
  *memory = {80ULL << 30, (80 - used) << 30, used << 30};
  return 0;
}
#endif
// NOLINTEND(readability-identifier-naming)
}
