// The devices of this machine.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::control {

struct Machine {
  std::string type = "cpu";  // device type: "cpu" or the GPU's name
  int devices = 1;
  std::vector<std::string> visible{};  // CUDA_VISIBLE_DEVICES of each; empty for CPU slots
  std::string name = "local";          // of the machine as a node
  std::map<std::string, std::string> labels{};
  std::string nvml{};  // tells the use of its GPUs (nvml.h); empty: nobody does
};
// `cpu_slots` CPU slots if that is > 0, else the CUDA GPUs that nvidia-smi lists (no CUDA library
// needed). The machine has its host name.
Result<Machine> find_machine(int cpu_slots);
// Parses the output of nvidia-smi, lines of the form "GPU-<uuid>, <name>". Without lines the
// machine has no devices.
Result<Machine> parse_gpu_list(std::string_view text);

// What is wrong with the name of a node; empty: nothing. Names appear in tables, events and URLs.
std::string_view node_name_problem(std::string_view name);
// The host name without its domain, or "local" if that is no name for a node.
std::string host_node_name();

}  // namespace rubato::control
