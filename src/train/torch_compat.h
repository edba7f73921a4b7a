// Everything that differs between LibTorch 1.13 (Debian 12) and 2.x (pip, with CUDA).
#pragma once

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>
#include <torch/version.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#if TORCH_VERSION_MAJOR < 2
#include <c10/util/string_utils.h>
#endif

// Set by CMake if LibTorch has CUDA; the CPU-only package lacks the headers.
#ifdef RUBATO_TORCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#endif

namespace rubato::train::compat {

// The key under which an optimizer keeps the state of a parameter.
#if TORCH_VERSION_MAJOR < 2
inline std::string state_key(const torch::Tensor& parameter) {
  return c10::guts::to_string(parameter.unsafeGetTensorImpl());
}
#else
inline void* state_key(const torch::Tensor& parameter) { return parameter.unsafeGetTensorImpl(); }
#endif

// The name of a number type in a model file (elastic/model/tensor_place.h); empty: it has none.
inline std::string tensor_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return "F32";
    case torch::kFloat16:
      return "F16";
    case torch::kBFloat16:
      return "BF16";
    case torch::kFloat64:
      return "F64";
    case torch::kInt64:
      return "I64";
    case torch::kInt32:
      return "I32";
    case torch::kInt16:
      return "I16";
    case torch::kInt8:
      return "I8";
    case torch::kUInt8:
      return "U8";
    case torch::kBool:
      return "BOOL";
    default:
      return "";
  }
}

// The vector instructions that ATen's own kernels use. Only 2.x exports a function for this; the
// description is in both versions.
inline std::string cpu_capability() {
  const std::string config = at::show_config();
  const std::string label = "CPU capability usage: ";
  const std::size_t begin = config.find(label);
  if (begin == std::string::npos) return "unknown";
  return config.substr(begin + label.size(), config.find('\n', begin) - begin - label.size());
}

inline void use_deterministic_algorithms() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
  // Would cost a pass over every new tensor and changes nothing for programs that write before they
  // read.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
#endif
  // TF32 has fewer bits in matrix products. It is off, so that results depend less on the GPU
  // model.
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
}

// "NVIDIA H200, compute capability 9.0".
inline std::string gpu_identity([[maybe_unused]] const torch::Device& device) {
#ifdef RUBATO_TORCH_CUDA
  const cudaDeviceProp* properties =
      at::cuda::getDeviceProperties(device.has_index() ? device.index() : c10::DeviceIndex{-1});
  return std::string(properties->name) + ", compute capability " +
         std::to_string(properties->major) + "." + std::to_string(properties->minor);
#else
  return "none";
#endif
}

// A point in the work queued on a GPU.
class DeviceMark {
 public:
#ifdef RUBATO_TORCH_CUDA
  void set() { event_.record(); }        // after everything queued so far
  void wait() { event_.synchronize(); }  // until the device has reached it

 private:
  at::cuda::CUDAEvent event_;
#else
  void set() {}
  void wait() {}
#endif
};

// Queues a copy of contiguous bytes between the device of `on` and pinned memory, in either
// direction; the host continues at once. Skips the checks and bookkeeping of Tensor::copy_, which
// cost several times the call itself. On the CPU it copies immediately.
inline void queue_copy(void* to, const void* from, std::size_t bytes,
                       [[maybe_unused]] const torch::Device& on) {
  if (bytes == 0) return;
#ifdef RUBATO_TORCH_CUDA
  if (on.is_cuda()) {
    C10_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, at::cuda::getCurrentCUDAStream()));
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

// The peak memory of this process's tensors on the current GPU.
inline double most_device_bytes() {
#ifdef RUBATO_TORCH_CUDA
  if (!at::hasCUDA()) return 0;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  return static_cast<double>(stats.allocated_bytes[0].peak);
#else
  return 0;
#endif
}

inline void seed_generator(torch::Generator& generator, std::uint64_t seed) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace rubato::train::compat
