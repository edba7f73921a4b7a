#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace rubato::cli {

Progress::Progress(long total_jobs, bool quiet)
    : total_(std::max(1L, total_jobs)), quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear_bar(); }

double Progress::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::clear_bar() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

void Progress::jobs(long finished) {
  if (quiet_ || !terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  constexpr int kWidth = 40;
  const double share = std::min(1.0, static_cast<double>(finished) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kWidth);
  const double rate = static_cast<double>(finished) / std::max(elapsed_s(), 1e-3);
  const double left = rate > 0 ? static_cast<double>(total_ - finished) / rate : 0;
  fmt::print(stderr, "\r\x1b[K[{:=<{}}{: <{}}] {:3.0f} %  {:.0f} jobs/s  {:.0f} s left", "", filled,
             "", kWidth - filled, share * 100, rate, left);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::line(const std::string& text) {
  if (quiet_ || terminal_) return;
  fmt::print(stderr, "{}\n", text);
}

}  // namespace rubato::cli
