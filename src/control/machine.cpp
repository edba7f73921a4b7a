#include "control/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "control/doctor/checks.h"
#include "control/doctor/real_machine.h"
#include "control/nvml.h"

namespace rubato::control {

std::string_view node_name_problem(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (name.empty()) return "is empty";
  if (name.size() > kLongest) return "has more than 64 characters";
  if (!std::all_of(name.begin(), name.end(), plain)) {
    return "may have only letters, digits, '-', '_' and '.'";
  }
  return name.front() == '-' || name.front() == '.' ? "must not begin with '-' or '.'" : "";
}

std::string host_node_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return Machine().name;
  const std::string_view whole = host.data();
  const std::string name(whole.substr(0, whole.find('.')));
  return node_name_problem(name).empty() ? name : Machine().name;
}

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
      return Error{
          ErrorCode::kRefused,
          fmt::format("this machine has GPUs of different types ({} and {})", machine.type, name)};
    }
    machine.visible.emplace_back(uuid);
    ++machine.devices;
  }
  return machine;
}

Result<Machine> find_machine(int cpu_slots) {
  if (cpu_slots > 0) {
    return Machine{.type = "cpu", .devices = cpu_slots, .name = host_node_name()};
  }
  doctor::Gpus gpus = doctor::find_gpus(doctor::RealMachine());
  if (gpus.machine.devices > 0) {
    gpus.machine.name = host_node_name();
    const char* const nvml = std::getenv("RUBATO_NVML");
    gpus.machine.nvml = nvml == nullptr ? kNvmlFile : nvml;
    return gpus.machine;
  }
  const doctor::Finding& why = gpus.finding;
  const std::string remedy = why.level == doctor::Level::kNote ? "" : why.remedy + ", or ";
  return Error{ErrorCode::kNotFound,
               fmt::format("no GPU to share: {}; {}share CPUs with --cpu-slots N ('rubato doctor' "
                           "shows what this machine offers)",
                           why.found, remedy)};
}

}  // namespace rubato::control
