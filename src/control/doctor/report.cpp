#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/doctor/checks.h"

namespace rubato::control::doctor {

const char* to_string(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarn:
      return "warn";
    case Level::kFail:
      return "fail";
  }
  return "fail";
}

std::vector<Finding> examine(const MachineView& view, const Subject& subject) {
  const Gpus gpus = find_gpus(view);
  const int workers =
      std::max(1, gpus.machine.devices > 0 ? gpus.machine.devices : view.usable_cpus());
  const LibTorch torch = find_libtorch(view, subject.programs, gpus.machine.devices > 0);
  const Daemon daemon = find_daemon(view, subject);
  return {gpus.finding,
          check_driver(view),
          check_cpus(view, subject.daemon_cpu_slots),
          check_instructions(view),
          check_memory(view, workers),
          check_shared_memory(view, workers),
          torch.finding,
          check_blas(view, torch),
          check_state_folder(view, subject, daemon),
          check_port(view, subject, daemon),
          daemon.finding,
          check_limits(view, workers),
          check_core_dumps(view),
          check_clock(view),
          check_cgroups(view),
          check_slurm(view),
          check_etcd(view)};
}

int count(const std::vector<Finding>& findings, Level level) {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(),
                                        [&](const Finding& one) { return one.level == level; }));
}

std::string summary(const std::vector<Finding>& findings) {
  const auto counted = [&](Level level, const char* one, const char* many) {
    const int number = count(findings, level);
    return fmt::format("{} {}", number, number == 1 ? one : many);
  };
  return fmt::format(
      "{}, {}, {}, {}", counted(Level::kOk, "ok", "ok"), counted(Level::kNote, "note", "notes"),
      counted(Level::kWarn, "warning", "warnings"), counted(Level::kFail, "failure", "failures"));
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& one : findings) {
    checks.push_back({{"check", one.check},
                      {"level", to_string(one.level)},
                      {"found", one.found},
                      {"remedy", one.remedy}});
  }
  return {{"version", 1},
          {"ready", count(findings, Level::kFail) == 0},
          {"ok", count(findings, Level::kOk)},
          {"notes", count(findings, Level::kNote)},
          {"warnings", count(findings, Level::kWarn)},
          {"failures", count(findings, Level::kFail)},
          {"checks", checks}};
}

}  // namespace rubato::control::doctor
