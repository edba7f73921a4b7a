// The record of every consumed sample: one JSON line per finished step,
//   {"step":12,"epoch":0,"samples":[[logical worker 0's ids],[1's],...]}
// written once per step by the leader. A new leader or a restarted job continues from its state:
// opening the file cuts off the lines of steps to be repeated and a torn last line.
//
// A former leader on another machine may cut lines off late, when its successor has written more.
// The successor's next line then leaves a hole. The successor notices (intact()), opens the file
// again, which cuts it off at the hole, and rewrites the missing lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

class Ledger {
 public:
  // Keeps the lines of steps below `next_step` and cuts off the rest. Creates the file if there is
  // none. If the file is not a ledger, the error names the line and the file is left as it is.
  // Checks only the beginning and the end of each line, so opening takes about as long as reading
  // the file.
  static Result<Ledger> open(const std::string& path, std::int64_t next_step);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&& other) noexcept;
  ~Ledger();

  // The step to append next: one past the last line. It is less than the argument of open() if the
  // file lacks lines (after a machine crash: lines are not synced one by one). The caller can
  // append them, because the samples of a step are a pure function.
  std::int64_t next_step() const { return next_step_; }
  // Whether the lines are still there, as far as the end of the file shows.
  bool intact() const;
  // Writes at the position where the line belongs, whatever else is in the file. A former leader
  // that wakes up late and appends once more therefore writes the bytes that are already there.
  Status append(std::int64_t step, std::int64_t epoch,
                std::span<const std::vector<std::int64_t>> samples_by_logical);

 private:
  Ledger(int file, std::string path, std::int64_t next_step, std::int64_t size)
      : file_(file), path_(std::move(path)), next_step_(next_step), size_(size) {}
  int file_ = -1;
  std::string path_;
  std::int64_t next_step_ = 0;
  std::int64_t size_ = 0;       // bytes of all lines
  std::int64_t last_line_ = 0;  // where it begins
  std::string line_;            // kept to reuse its memory
};

// Reads a ledger and checks that every epoch used each of 0..samples-1 exactly once. The last epoch
// may be incomplete but must not use a sample twice. The error names line, epoch and sample.
struct LedgerSummary {
  std::int64_t steps = 0;
  std::int64_t epochs_complete = 0;
};
Result<LedgerSummary> check_ledger(const std::string& path, std::int64_t samples);

}  // namespace rubato::elastic
