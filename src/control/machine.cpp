#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "control/local_executor.h"

namespace rubato::control {

namespace {

// The output of a command; empty if it cannot be run or fails.
std::string output_of(const char* command) {
  std::FILE* pipe = popen(command, "re");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe)) {
    text.append(piece.data(), count);
  }
  return pclose(pipe) == 0 ? text : "";
}

}  // namespace

Result<Machine> parse_gpu_list(std::string_view text) {
  Machine machine{.type = "", .devices = 0};
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty()) continue;
    const std::size_t comma = line.find(',');
    const std::string_view uuid = trim(line.substr(0, comma));
    const std::string_view name =
        comma == std::string_view::npos ? std::string_view() : trim(line.substr(comma + 1));
    if (!uuid.starts_with("GPU-") || name.empty()) {
      return invalid_input(
          fmt::format("unexpected output of nvidia-smi: '{}'; expected 'GPU-..., name'", line));
    }
    if (machine.type.empty()) machine.type = name;
    if (machine.type != name) {
      return invalid_input(
          fmt::format("this machine has GPUs of different types ({} and {}); start the daemon with "
                      "--cpu-slots or hide one type from it",
                      machine.type, name));
    }
    machine.visible.emplace_back(uuid);
    ++machine.devices;
  }
  return machine;
}

Result<Machine> find_machine(int cpu_slots) {
  if (cpu_slots > 0) return Machine{.type = "cpu", .devices = cpu_slots};
  // A hanging driver must not block the daemon.
  const std::string gpus =
      output_of("timeout 20 nvidia-smi --query-gpu=uuid,name --format=csv,noheader 2>/dev/null");
  Result<Machine> machine = parse_gpu_list(gpus);
  if (!machine.ok()) return machine;
  if (machine->devices == 0) {
    return Error{ErrorCode::kNotFound,
                 "no CUDA GPU found (nvidia-smi lists none); use --cpu-slots N"};
  }
  return machine;
}

}  // namespace rubato::control
