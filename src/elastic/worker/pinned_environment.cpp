#include "elastic/worker/pinned_environment.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace rubato::elastic {
namespace {

bool has_value(const std::string& name, const std::string& value) {
  const char* const current = std::getenv(name.c_str());
  return current != nullptr && value == current;
}

// The path, not /proc/self/exe itself, which would become the name of the process.
std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return "/proc/self/exe";
  const std::string result(path.data(), static_cast<std::size_t>(length));
  return ::access(result.c_str(), X_OK) == 0 ? result : "/proc/self/exe";
}

}  // namespace

Result<Consistency> parse_consistency(const std::string& text) {
  if (text == "d1") return Consistency::kD1;
  if (text == "d2") return Consistency::kD2;
  return invalid_input("consistency '" + text + "' is unknown; use d1 or d2");
}

std::vector<std::pair<std::string, std::string>> pinned_variables(Consistency consistency) {
  std::vector<std::pair<std::string, std::string>> result = {
      {"OPENBLAS_NUM_THREADS", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"MKL_NUM_THREADS", "1"},
      {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
  };
  if (consistency == Consistency::kD1) {
    // Without this, MKL's results may depend on memory alignment.
    result.emplace_back("MKL_CBWR", "AUTO");
    return result;
  }
  result.emplace_back("MKL_CBWR", "COMPATIBLE");
  result.emplace_back("ATEN_CPU_CAPABILITY", "default");
  result.emplace_back("DNNL_MAX_CPU_ISA", "SSE41");
  result.emplace_back("ONEDNN_MAX_CPU_ISA", "SSE41");  // takes precedence where known
  result.emplace_back("OPENBLAS_CORETYPE", "Nehalem");
  // expf, sinf and similar functions have variants with fused multiply-add, which round
  // differently.
  result.emplace_back("GLIBC_TUNABLES",
                      "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4,-FMA4_Usable");
  return result;
}

Status pin_environment(char** argv, Consistency consistency) {
  constexpr const char* kMark = "RUBATO_ENVIRONMENT_PINNED";
  std::string wrong;
  for (const auto& variable : pinned_variables(consistency)) {
    if (!has_value(variable.first, variable.second)) wrong = variable.first;
  }
  if (wrong.empty()) {
    ::unsetenv(kMark);  // not meant for programs that this one starts
    return ok_status();
  }
  const std::string level = consistency == Consistency::kD1 ? "d1" : "d2";
  if (has_value(kMark, level)) {
    return Error{ErrorCode::kIo, "environment: " + wrong +
                                     " changed while the program restarted itself; set it in "
                                     "the environment of the program"};
  }
  ::setenv(kMark, level.c_str(), 1);
  for (const auto& variable : pinned_variables(consistency)) {
    ::setenv(variable.first.c_str(), variable.second.c_str(), 1);
  }
  const std::string program = own_program();
  ::execv(program.c_str(), argv);
  return Error{ErrorCode::kIo, "environment: cannot restart " + program +
                                   " with pinned variables: " + std::strerror(errno) + "; set " +
                                   wrong + " in the environment of the program"};
}

}  // namespace rubato::elastic
