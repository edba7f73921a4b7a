// A stop that always ends: whatever hangs, the process is gone after a stated time.
#pragma once

#include <csignal>

namespace rubato::control {

// How long a daemon that was asked to stop may take.
inline constexpr double kStopWithin = 10;

// Ends the process with exit code 0, `seconds` after this call or at the next of these signals,
// which must be blocked in all threads. Says so on standard error. Nothing is lost: whatever was
// acknowledged is durable, and jobs keep running, as after kill -9.
void exit_at_the_latest_after(double seconds, const sigset_t& signals);

}  // namespace rubato::control
