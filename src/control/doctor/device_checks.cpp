// GPUs and their driver. The daemon finds its devices with the same function.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "control/doctor/checks.h"
#include "control/doctor/clean_text.h"

namespace rubato::control::doctor {

namespace {

using std::chrono::seconds;

constexpr const char* kDriverVersion = "/proc/driver/nvidia/version";

bool has_nvidia_on_pci(const MachineView& view) {
  const std::string bus = "/sys/bus/pci/devices";
  const std::vector<std::string> slots = view.list(bus);
  return std::any_of(slots.begin(), slots.end(), [&](const std::string& slot) {
    const auto vendor = view.read(fmt::format("{}/{}/vendor", bus, slot));
    const auto kind = view.read(fmt::format("{}/{}/class", bus, slot));
    return vendor && kind && trim(*vendor) == "0x10de" && trim(*kind).starts_with("0x03");
  });
}

bool has_device_file(const MachineView& view) {
  const std::vector<std::string> names = view.list("/dev");
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("nvidia") && parse_int(name.substr(6));
  });
}

Finding warn(std::string found, std::string remedy) {
  return {"gpu", Level::kWarn, std::move(found), std::move(remedy)};
}

Finding why_no_gpu(const MachineView& view, const Ran& listed) {
  if (listed.end == Ran::End::kTimedOut) {
    return warn("nvidia-smi did not answer within 20 s",
                "the driver hangs: look for Xid errors in 'dmesg', then restart the machine");
  }
  if (!view.file(kDriverVersion).exists) {
    if (has_nvidia_on_pci(view)) {
      return warn("there is an NVIDIA GPU, but its driver is not loaded",
                  "install the driver (Debian: apt install nvidia-driver) and restart");
    }
    return {"gpu", Level::kNote, "no NVIDIA GPU", "share CPUs: rubatod --cpu-slots N"};
  }
  if (!has_device_file(view)) {
    return warn(
        "the NVIDIA driver is loaded, but there is no /dev/nvidia0",
        "start nvidia-persistenced; in a container, pass the GPUs in (docker run --gpus all)");
  }
  if (listed.end == Ran::End::kNotFound) {
    return warn("the NVIDIA driver is loaded, but nvidia-smi is not installed",
                "install nvidia-smi (Debian: apt install nvidia-smi); rubatod finds GPUs with it");
  }
  if (listed.ok()) {
    return warn("nvidia-smi lists no GPU",
                "in a container, pass the GPUs in (docker run --gpus all)");
  }
  const bool mismatch = listed.complaint().find("version mismatch") != std::string::npos;
  return warn(fmt::format("nvidia-smi failed: {}", first_line(listed.complaint())),
              mismatch ? "the driver was upgraded while loaded: restart the machine"
                       : "reinstall the NVIDIA driver, or look for its errors in 'dmesg'");
}

// "... Kernel Module  535.104.05  ...": the first word that looks like a version after "Module".
std::string driver_version(std::string_view text) {
  const std::size_t at = text.find("Module");
  if (at == std::string_view::npos) return "";
  for (const std::string_view word : split(text.substr(at), ' ')) {
    const std::size_t dot = word.find('.');
    if (dot != std::string_view::npos && parse_int(word.substr(0, dot))) return std::string(word);
  }
  return "";
}

}  // namespace

Gpus find_gpus(const MachineView& view) {
  // A driver that hangs must not hang the daemon.
  const Ran listed =
      view.run({"nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"}, seconds(20));
  if (!listed.ok()) return {.finding = why_no_gpu(view, listed)};
  const Result<Machine> machine = parse_gpu_list(listed.output);
  if (!machine.ok()) {
    return {.finding = warn(clean(machine.error().message),
                            machine.error().code == ErrorCode::kRefused
                                ? "run rubatod in a container with GPUs of one type (docker run "
                                  "--gpus device=...)"
                                : "check the program 'nvidia-smi'")};
  }
  if (machine->devices == 0) return {.finding = why_no_gpu(view, listed)};
  return {
      .machine = *machine,
      .finding = {"gpu", Level::kOk, fmt::format("{} x {}", machine->devices, machine->type), ""}};
}

Finding check_driver(const MachineView& view) {
  const auto text = view.read(kDriverVersion);
  const Libraries cuda = view.libraries("libcuda.so.1");
  if (!text) {
    if (cuda.loadable) {
      return {"gpu driver", Level::kNote, "libcuda.so.1 is installed, but no driver is loaded",
              "nothing to do on a machine without GPUs"};
    }
    return {"gpu driver", Level::kNote, "no NVIDIA driver is loaded",
            "only needed to train on GPUs"};
  }
  const std::string version = driver_version(*text);
  if (version.empty()) {
    return {"gpu driver", Level::kWarn,
            fmt::format("{} has no version: '{}'", kDriverVersion, first_line(*text)),
            "reinstall the NVIDIA driver"};
  }
  if (!cuda.loadable) {
    return {"gpu driver", Level::kWarn,
            fmt::format("NVIDIA {}, but libcuda.so.1 cannot be loaded", version),
            "install it (Debian: apt install libcuda1); in a container: docker run --gpus all"};
  }
  return {"gpu driver", Level::kOk, fmt::format("NVIDIA {}, libcuda.so.1 found", version), ""};
}

}  // namespace rubato::control::doctor
