#include "base/crash_point.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace rubato {

void crash_point(std::string_view when, std::string_view what) {
  static const std::string chosen = [] {
    const char* given = std::getenv("RUBATO_CRASH_AT");
    return std::string(given != nullptr ? given : "");
  }();
  if (chosen.empty() || chosen.size() != when.size() + 1 + what.size()) return;
  if (!chosen.starts_with(when) || !chosen.ends_with(what) || chosen[when.size()] != ' ') return;
  kill(getpid(), SIGKILL);
}

}  // namespace rubato
