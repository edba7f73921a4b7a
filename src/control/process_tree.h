// Finds the processes of a job and kills them, whatever they did to hide: a process can leave its
// session, clear its environment and close its files, but not its place in the tree of processes.
// A job's supervisor is a subreaper: whatever loses its parent becomes a child of the supervisor.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "control/process_lock.h"

namespace rubato::control {

struct ProcessInfo {
  ProcessId id;
  pid_t parent = 0;
  bool zombie = false;  // has ended and waits to be reaped
};
// All processes of this machine, from one pass over /proc.
std::vector<ProcessInfo> list_processes();
// The live descendants of a process among `all`, in no particular order.
std::vector<ProcessId> descendants_of(pid_t ancestor, const std::vector<ProcessInfo>& all);

// Kills the descendants of a process that belong to `user`, again and again, until none is left or
// `patience` has passed. The ancestor must not reap or start processes meanwhile (stop it first).
// True if none is left.
bool kill_descendants(const ProcessId& ancestor, uid_t user, std::chrono::milliseconds patience);
// Kills and reaps all descendants of the calling process, which must be a subreaper and have no
// other threads that start processes. Returns when none is left.
void end_descendants();

// Kills the processes of `user`, except the caller, that were started with `variable` (NAME=VALUE)
// in their environment or hold a lock on the file `lock`. For processes whose ancestors are gone.
// Returns the number of processes killed.
int kill_leftovers(const std::string& variable, const std::string& lock, uid_t user);

}  // namespace rubato::control
