// The checks of `rubato doctor`: what a machine offers for training, what is missing, and the
// remedy.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/doctor/machine_view.h"
#include "control/machine.h"

namespace rubato::control::doctor {

enum class Level {
  kOk,
  kNote,  // something optional is absent or unknown
  kWarn,  // works, but slowly, with less safety, or not for every job
  kFail,  // the daemon or training does not work until this is fixed
};
const char* to_string(Level level);

struct Finding {
  std::string check;
  Level level = Level::kOk;
  std::string found;
  std::string remedy;  // empty when there is nothing to do
};

// What the checks are about, apart from the machine.
struct Subject {
  std::string state_folder;
  std::string host = "127.0.0.1";
  int port = 0;                          // on which a new daemon would listen
  std::vector<std::string> server_urls;  // where a running daemon may be, most likely first
  std::vector<std::string> programs;     // training programs; the first that exists is looked at
  int daemon_cpu_slots = 0;              // of a running daemon; 0: none or unknown
};

// The GPUs that the daemon would share, and why there are none.
struct Gpus {
  Machine machine{.type = "", .devices = 0};
  Finding finding;
};
Gpus find_gpus(const MachineView& view);

Finding check_driver(const MachineView& view);
Finding check_cpus(const MachineView& view, int daemon_cpu_slots);
Finding check_instructions(const MachineView& view);
Finding check_memory(const MachineView& view, int workers);
Finding check_shared_memory(const MachineView& view, int workers);
Finding check_cgroups(const MachineView& view);
Finding check_clock(const MachineView& view);
Finding check_limits(const MachineView& view, int workers);
Finding check_core_dumps(const MachineView& view);
Finding check_slurm(const MachineView& view);
Finding check_etcd(const MachineView& view);

// The LibTorch that the training program would load, or the one this machine has.
struct LibTorch {
  std::string path;     // of libtorch_cpu.so; empty: none found
  Libraries libraries;  // of the program, or of libtorch_cpu.so itself
  Finding finding;
};
LibTorch find_libtorch(const MachineView& view, const std::vector<std::string>& programs,
                       bool has_gpus);
Finding check_blas(const MachineView& view, const LibTorch& torch);

// A running daemon that this user's commands would talk to.
struct Daemon {
  std::string url;  // empty: none was announced
  bool answers = false;
  Finding finding;
};
Daemon find_daemon(const MachineView& view, const Subject& subject);
Finding check_port(const MachineView& view, const Subject& subject, const Daemon& daemon);
Finding check_state_folder(const MachineView& view, const Subject& subject, const Daemon& daemon);

// Bytes of shared memory that a job takes at most for each parameter of its model, with Adam, 8
// logical workers and this many workers on the machine.
std::int64_t shared_bytes_per_parameter(int workers);

// All checks, in the order in which people read them.
std::vector<Finding> examine(const MachineView& view, const Subject& subject);

int count(const std::vector<Finding>& findings, Level level);
// "13 ok, 2 notes, 1 warning, 0 failures"
std::string summary(const std::vector<Finding>& findings);
nlohmann::ordered_json to_json(const std::vector<Finding>& findings);

}  // namespace rubato::control::doctor
