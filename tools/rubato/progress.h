// Shows the progress of long work on standard error: a bar with rate and remaining time on a
// terminal, plain lines in a log.
#pragma once

#include <chrono>
#include <string>

namespace rubato::cli {

class Progress {
 public:
  // With `quiet`, nothing is shown.
  Progress(long total_jobs, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void jobs(long finished);
  void line(const std::string& text);

 private:
  double elapsed_s() const;
  void clear_bar();

  long total_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace rubato::cli
