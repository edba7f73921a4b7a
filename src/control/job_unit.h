// A transient systemd service per job: a control group of its own with limits, which ends with all
// its processes.
#pragma once

#include <string>
#include <vector>

#include "control/start_supervisor.h"

namespace rubato::control {

// Whether this process can start such services: it is root's, and systemd runs this machine.
bool can_start_units();

// The command that runs `words` with this environment in a new service for the job in `folder`, and
// that ends when the supervisor has taken over. Names differ at every call, so that a new service
// never waits for the end of an old one.
std::vector<std::string> unit_command(const std::string& folder, const Confinement& how,
                                      std::vector<std::string> words,
                                      const std::vector<std::string>& environment);

// Whether a process is in a service of the job in `folder`.
bool is_in_unit(const std::string& folder);
// Kills every process in the services of the job in `folder`.
void kill_units(const std::string& folder);

}  // namespace rubato::control
