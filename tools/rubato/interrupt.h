// SIGINT and SIGTERM as something to ask about, for commands that must clean up before they end.
#pragma once

namespace rubato::cli {

// While it lives, the signals are noted and end nothing.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;
};

bool interrupted();

}  // namespace rubato::cli
