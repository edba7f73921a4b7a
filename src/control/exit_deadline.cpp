#include "control/exit_deadline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

namespace rubato::control {

namespace {

timespec to_timespec(std::chrono::duration<double> time) {
  const double seconds = std::max(0.0, time.count());
  return {.tv_sec = static_cast<time_t>(seconds),
          .tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9)};
}

}  // namespace

void exit_at_the_latest_after(double seconds, const sigset_t& signals) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  std::thread([seconds, deadline, signals] {
    for (;;) {
      const timespec left = to_timespec(deadline - Clock::now());
      const bool again = sigtimedwait(&signals, nullptr, &left) > 0;
      if (!again && errno == EINTR) continue;
      // Not through stdio: a thread that hangs may hold its lock.
      const std::string text =
          again ? std::string("rubatod: stopped at once by a second signal\n")
                : fmt::format(
                      "rubatod: not everything ended within {:g} s; stopping anyway. The "
                      "event log is complete, and running jobs continue\n",
                      seconds);
      static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
      _exit(0);
    }
  }).detach();
}

}  // namespace rubato::control
