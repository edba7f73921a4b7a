// The record of every consumed sample: one JSON line per finished step,
//   {"step":12,"epoch":0,"samples":[[logical worker 0's ids],[1's],...]}
// written once per step by the leader. A new leader or a restarted job goes on where the state is:
// lines of steps that are to be repeated, and a torn last line, are cut off when it opens the file.
//
// A former leader on another machine may do that late, when its successor has written further: then
// the successor's next line leaves a hole. It notices (intact()), opens the file again, which cuts
// it off at the hole, and writes what is missing once more.
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
  // Keeps the lines of steps below `next_step` and cuts off the rest; makes the file when there is
  // none. A file that is no ledger is an error with the line, and stays as it is. Looks only at the
  // beginning and the end of each line, so this takes about as long as reading the file.
  static Result<Ledger> open(const std::string& path, std::int64_t next_step);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&& other) noexcept;
  ~Ledger();

  // The step that append() must be given next: one past the last line. It is less than what was
  // given to open() when the file lacks lines (the machine crashed: lines are not synced one by
  // one); the caller can append them, because the samples of a step are a pure function.
  std::int64_t next_step() const { return next_step_; }
  // Whether the lines are there still, as far as the end of the file tells.
  bool intact() const;
  // Writes at the place where the line belongs, whatever else is in the file. So a former leader
  // that wakes up late and appends once more writes the bytes that are there already.
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
  std::string line_;            // kept for its memory
};

// Reads a ledger and checks that every epoch used each of 0..samples-1 exactly once, the last one,
// which may be incomplete, none twice. The error names line, epoch and sample.
struct LedgerSummary {
  std::int64_t steps = 0;
  std::int64_t epochs_complete = 0;
};
Result<LedgerSummary> check_ledger(const std::string& path, std::int64_t samples);

}  // namespace rubato::elastic
