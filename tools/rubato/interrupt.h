// Lets a command that must clean up poll for SIGINT and SIGTERM.
#pragma once

namespace rubato::cli {

// While this object exists, the signals are recorded and do not end the process.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;
};

bool interrupted();

}  // namespace rubato::cli
