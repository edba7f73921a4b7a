#include "train/environment.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "train/torch_compat.h"

namespace rubato::train {
namespace {

using Trait = elastic::Program::Trait;

template <typename Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

std::string environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string blas() {
  if (auto* const config = symbol<const char*()>("openblas_get_config")) {
    std::string text = config();
    // The configuration ends with the detected core, unless another one was requested.
    if (auto* const core = symbol<const char*()>("openblas_get_corename")) {
      text += std::string("; core ") + core();
    }
    return text;
  }
  if (auto* const version = symbol<void(char*, int)>("MKL_Get_Version_String")) {
    std::string text(200, '\0');
    version(text.data(), 199);
    text.resize(std::strlen(text.c_str()));
    return text;
  }
  return at::hasMKL() ? "MKL inside LibTorch" : "unknown";
}

std::string blas_threads() {
  if (auto* const threads = symbol<int()>("openblas_get_num_threads")) {
    return std::to_string(threads());
  }
  return environment("OPENBLAS_NUM_THREADS", "unset");
}

std::string onednn_isa() {
  if (auto* const isa = symbol<int()>("dnnl_get_effective_cpu_isa")) {
    return "isa " + std::to_string(isa());
  }
  return "at most " + environment("DNNL_MAX_CPU_ISA", "what the processor has");
}

class Checksum {  // FNV-1a
 public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 1099511628211U;
  }
  std::string text() const {
    char buffer[17];
    std::snprintf(buffer, sizeof(buffer), "%016llx", static_cast<unsigned long long>(hash_));
    return buffer;
  }

 private:
  std::uint64_t hash_ = 14695981039346656037U;
};

std::string libm_checksum() {
  Checksum sum;
  for (int i = 1; i <= 512; ++i) {
    const volatile float x = static_cast<float>(i) * 0.0371F;
    const volatile double y = static_cast<double>(i) * 0.0371;
    for (const float value : {std::exp(-x), std::log(x), std::sin(x), std::cos(x), std::tanh(x),
                              std::pow(x, 0.37F), std::erf(x)}) {
      sum.add(&value, sizeof(value));
    }
    for (const double value : {std::exp(-y), std::log(y), std::sin(y), std::pow(y, 0.37)}) {
      sum.add(&value, sizeof(value));
    }
  }
  return sum.text();
}

std::string kernel_checksum(const torch::Device& device) {
  const torch::NoGradGuard no_grad;
  const auto ramp = [&](at::IntArrayRef sizes, double factor) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    // Integers modulo a prime: the input has the same bits everywhere.
    return ((torch::arange(count, torch::kInt64) * 7919 % 1009).to(torch::kFloat32) * factor - 1)
        .view(sizes)
        .to(device);
  };
  Checksum sum;
  const auto add = [&](const torch::Tensor& tensor) {
    const torch::Tensor host = tensor.cpu().contiguous();
    sum.add(host.data_ptr(), host.nbytes());
  };
  const torch::Tensor a = ramp({37, 129}, 0.001953125);
  add(a.matmul(ramp({129, 53}, 0.00390625)));
  add(torch::conv2d(ramp({2, 5, 17, 13}, 0.001953125), ramp({7, 5, 3, 3}, 0.00390625)));
  add(a.softmax(1));
  add(a.sum(0));
  add(torch::gelu(a));
  return sum.text();
}

// Tensors are allocated and freed in every step. By default, glibc would return their memory to the
// system each time and get it back page by page, which costs a tenth of a step or more.
void keep_freed_memory() {
  constexpr int kLargestThreshold = 32 << 20;  // the largest value glibc accepts
  ::mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

void pin_torch() {
  static const bool done = [] {
    keep_freed_memory();
    at::set_num_threads(1);
    at::set_num_interop_threads(1);
    compat::use_deterministic_algorithms();
    return true;
  }();
  static_cast<void>(done);
}

std::vector<Trait> environment_traits(const torch::Device& device) {
  std::vector<Trait> traits = {
      {"aten", compat::cpu_capability()},
      {"blas", blas()},
      {"blas threads", blas_threads()},
      {"cublas workspace", environment("CUBLAS_WORKSPACE_CONFIG", "unset")},
      {"deterministic", at::globalContext().deterministicAlgorithms() ? "yes" : "no"},
      {"device", device.is_cpu() ? "cpu" : "cuda"},
      {"gpu", device.is_cpu() ? "none" : compat::gpu_identity(device)},
      {"kernels", kernel_checksum(device)},
      {"libc", gnu_get_libc_version()},
      {"libm", libm_checksum()},
      {"onednn", onednn_isa()},
      {"threads", std::to_string(at::get_num_threads())},
      {"torch", TORCH_VERSION},
  };
  std::sort(traits.begin(), traits.end(),
            [](const Trait& a, const Trait& b) { return a.name < b.name; });
  return traits;
}

}  // namespace rubato::train
