// Processors, memory, control groups, clock, limits: what the operating system offers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/text.h"
#include "control/doctor/cgroup.h"
#include "control/doctor/checks.h"
#include "control/doctor/clean_text.h"
#include "elastic/memory/worker_segment.h"

namespace rubato::control::doctor {

namespace {

std::string counted(int number, const char* one, const char* many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

// The bytes of a line "NAME:   123 kB" of /proc/meminfo.
std::optional<std::uint64_t> memory_line(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
    std::string_view value = trim(line.substr(name.size() + 1));
    if (!value.ends_with(" kB")) return std::nullopt;
    value.remove_suffix(3);
    const auto number = parse_int(value);
    if (number && *number >= 0) return static_cast<std::uint64_t>(*number) * 1024;
  }
  return std::nullopt;
}

std::set<std::string> processor_flags(std::string_view cpuinfo) {
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, colon));
    if (name != "flags" && name != "Features") continue;
    std::set<std::string> flags;
    for (const std::string_view flag : split(line.substr(colon + 1), ' ')) flags.emplace(flag);
    return flags;
  }
  return {};
}

std::string limit_text(std::uint64_t limit) {
  return limit == std::numeric_limits<std::uint64_t>::max() ? "unlimited" : std::to_string(limit);
}

}  // namespace

Finding check_cpus(const MachineView& view, int daemon_cpu_slots) {
  const int cpus = view.usable_cpus();
  std::string found = counted(cpus, "CPU", "CPUs");
  const std::optional<double> limit = cpu_limit(view);
  const bool limited = limit && *limit < cpus - 0.01;
  const int useful = limited ? std::max(1, static_cast<int>(*limit)) : cpus;
  if (daemon_cpu_slots > useful) {
    return {"cpu", Level::kWarn,
            fmt::format("{} for the daemon's {} CPU slots: workers slow each other down", found,
                        daemon_cpu_slots),
            fmt::format("restart the daemon with --cpu-slots {}", useful)};
  }
  if (limited) {
    return {
        "cpu", Level::kWarn,
        fmt::format("{}, but a control group limits this process to {:.1f}", found, *limit),
        fmt::format("use rubatod --cpu-slots {}, or raise the limit (docker run --cpus)", useful)};
  }
  return {"cpu", Level::kOk,
          fmt::format("{}: up to {}", found, counted(cpus, "CPU slot", "CPU slots")), ""};
}

Finding check_instructions(const MachineView& view) {
  const std::string name = "instruction set";
  const std::set<std::string> flags = processor_flags(view.read("/proc/cpuinfo").value_or(""));
  if (flags.contains("avx512f")) return {name, Level::kOk, "AVX-512", ""};
  if (flags.contains("avx2")) return {name, Level::kOk, "AVX2", ""};
  if (flags.contains("asimd")) return {name, Level::kOk, "NEON", ""};
  if (flags.contains("sse4_1")) {
    return {name, Level::kWarn, "no AVX2: training on CPUs is several times slower",
            "in a virtual machine, pass the host's processor through (QEMU: -cpu host)"};
  }
  if (!flags.empty()) {
    return {name, Level::kFail, "no SSE4.1: LibTorch does not run on this processor",
            "in a virtual machine, pass the host's processor through (QEMU: -cpu host)"};
  }
  return {name, Level::kNote, "unknown: /proc/cpuinfo does not list it", "mount /proc"};
}

Finding check_memory(const MachineView& view, int workers) {
  constexpr double kPerWorker = 256e6;  // LibTorch's libraries take 150 MB before the model exists
  const auto text = view.read("/proc/meminfo");
  const auto available = text ? memory_line(*text, "MemAvailable") : std::nullopt;
  if (!available) {
    return {"memory", Level::kNote, "unknown: /proc/meminfo does not say", "mount /proc"};
  }
  auto usable = static_cast<double>(*available);
  std::string found = fmt::format("{} available", bytes_text(*available));
  if (const auto limit = memory_limit_bytes(view); limit && *limit < usable) {
    usable = *limit;
    found += fmt::format(", limited to {} by a control group",
                         bytes_text(static_cast<std::uint64_t>(*limit)));
  }
  if (usable < kPerWorker * workers) {
    return {
        "memory", Level::kWarn, found,
        fmt::format("{} need at least {} before their models: share fewer devices, or add memory",
                    counted(workers, "worker", "workers"),
                    bytes_text(static_cast<std::uint64_t>(kPerWorker * workers)))};
  }
  return {"memory", Level::kOk, found, ""};
}

std::int64_t shared_bytes_per_parameter(int workers) {
  constexpr int kLogicalWorkers = 8;
  constexpr std::int64_t kState = 3 * sizeof(float);  // the parameter and Adam's two moments
  constexpr std::int64_t kBoard = 2 * sizeof(float);  // reduced gradients of two steps
  const auto buffers = std::int64_t{elastic::WorkerSegment::most_buffers(kLogicalWorkers)} *
                       std::int64_t{sizeof(float)};
  return kBoard + workers * (kState + buffers);
}

Finding check_shared_memory(const MachineView& view, int workers) {
  constexpr double kFewest = 1e5;  // parameters; the smallest examples
  constexpr double kEnough = 1e7;
  const std::string name = "shared memory";
  const FileInfo folder = view.file("/dev/shm");
  const auto space = view.space("/dev/shm");
  if (!folder.folder || !space) {
    return {name, Level::kFail, "there is no /dev/shm; workers share their state through it",
            "mount it: mount -t tmpfs -o size=50% tmpfs /dev/shm"};
  }
  if (!folder.writable) {
    return {name, Level::kFail, "/dev/shm is not writable for this user",
            "make it so: chmod 1777 /dev/shm, or mount it without 'ro'"};
  }
  const auto per_parameter = static_cast<double>(shared_bytes_per_parameter(workers));
  const double parameters = static_cast<double>(space->free_bytes) / per_parameter;
  const std::string found =
      fmt::format("/dev/shm: {} of {} free; {} can share a model of {:.3g} million parameters",
                  bytes_text(space->free_bytes), bytes_text(space->total_bytes),
                  counted(workers, "worker", "workers"), parameters / 1e6);
  if (parameters >= kEnough) return {name, Level::kOk, found, ""};
  return {name, parameters < kFewest ? Level::kFail : Level::kWarn, found,
          fmt::format("a job takes up to {} bytes per parameter: mount -o remount,size=8G /dev/shm "
                      "(docker run --shm-size=8g), or use fewer workers",
                      static_cast<std::int64_t>(per_parameter))};
}

Finding check_cgroups(const MachineView& view) {
  const Cgroups groups = find_cgroups(view);
  const bool systemd = view.file("/run/systemd/system").folder;
  const std::string init = systemd ? "systemd runs" : "no systemd";
  const bool may_create = view.file(groups.own_folder).writable && !groups.own_folder.empty();
  const std::string create =
      may_create ? "this user may create groups" : "this user may not create groups";
  switch (groups.version) {
    case Cgroups::Version::kNone:
      return {"cgroups", Level::kNote, fmt::format("none; {}", init),
              "mount /sys/fs/cgroup to limit what jobs use; Rubato runs without it"};
    case Cgroups::Version::kV1:
    case Cgroups::Version::kHybrid:
      return {
          "cgroups", Level::kNote,
          fmt::format("{}; {}; {}",
                      groups.version == Cgroups::Version::kV1 ? "version 1" : "versions 1 and 2",
                      create, init),
          "boot with systemd.unified_cgroup_hierarchy=1 for version 2 alone; Rubato runs "
          "without it"};
    case Cgroups::Version::kV2:
      break;
  }
  const std::string found = fmt::format(
      "version 2 ({}); {}; {}",
      groups.controllers.empty() ? "no controllers" : clean(join(groups.controllers, " ")), create,
      init);
  if (may_create || systemd) return {"cgroups", Level::kOk, found, ""};
  return {"cgroups", Level::kNote, found,
          "only needed to limit what jobs use: run rubatod as a systemd service, or as root"};
}

Finding check_clock(const MachineView& view) {
  constexpr double kYear2024 = 1'704'067'200;
  constexpr double kJump = 0.1;
  const Clocks clocks = view.clocks();
  if (!(clocks.monotonic_passed_s > 0)) {
    return {"clock", Level::kFail, "the monotonic clock stands still or runs backwards",
            "a defect of the virtual machine or kernel: restart the machine"};
  }
  if (!(clocks.wall_s >= kYear2024)) {
    return {"clock", Level::kFail, "the wall clock is years behind",
            "set it (timedatectl set-ntp true, or date -s): certificates and event times need it"};
  }
  const double jump = clocks.wall_passed_s - clocks.monotonic_passed_s;
  if (!(std::abs(jump) < kJump)) {
    return {"clock", Level::kWarn,
            fmt::format("the wall clock jumped by {:+.1f} s while it was watched", jump),
            "let one program set it, slowly: chrony or systemd-timesyncd"};
  }
  if (!clocks.synchronised) {
    return {"clock", Level::kNote, "the kernel does not say whether it is synchronised",
            "check it with 'timedatectl'"};
  }
  if (!*clocks.synchronised) {
    return {"clock", Level::kWarn, "not synchronised: event times and reservations may be off",
            "timedatectl set-ntp true, or install chrony (training itself is not affected)"};
  }
  return {"clock", Level::kOk, "synchronised; the monotonic clock runs evenly", ""};
}

Finding check_limits(const MachineView& view, int workers) {
  // The daemon serves 256 connections; a worker has a socket and two segments per fellow worker.
  const auto per_worker = static_cast<std::uint64_t>(64 + 4 * workers);
  const std::uint64_t files = std::max<std::uint64_t>(1024, 512 + per_worker);
  const auto processes = static_cast<std::uint64_t>(256 + 32 * workers);
  const Limits limits = view.limits();
  const std::string found = fmt::format(
      "{} open files, {} processes", limit_text(limits.open_files), limit_text(limits.processes));
  if (limits.open_files >= files && limits.processes >= processes) {
    return {"limits", Level::kOk, found, ""};
  }
  return {
      "limits", limits.open_files < per_worker ? Level::kFail : Level::kWarn, found,
      fmt::format("raise them before rubatod starts: ulimit -n {} -u {} (a service: LimitNOFILE=, "
                  "TasksMax=)",
                  files, processes)};
}

Finding check_core_dumps(const MachineView& view) {
  if (view.limits().core_bytes == 0) {
    return {"core dumps", Level::kNote, "off: a crashed worker leaves only its log",
            "to debug a crash: ulimit -c unlimited, then 'rubato run' (daemon jobs never dump)"};
  }
  const std::string pattern =
      first_line(view.read("/proc/sys/kernel/core_pattern").value_or("core"));
  return {"core dumps", Level::kOk, fmt::format("on for 'rubato run': {}", pattern), ""};
}

}  // namespace rubato::control::doctor
