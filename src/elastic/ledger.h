// The record of every consumed sample: one JSON line per finished step,
//   {"step":12,"epoch":0,"samples":[[logical worker 0's ids],[1's],...]}
// written once per step by the leader. A new leader or a restarted job goes on where the state is:
// lines of steps that are to be repeated, and a torn last line, are cut off when it opens the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

class Ledger {
 public:
  // Keeps the lines of steps below `next_step` and cuts off the rest. `missing_from` in the result
  // of next_step() tells which step the file lacks first.
  static Result<Ledger> open(const std::string& path, std::int64_t next_step);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&& other) noexcept;
  ~Ledger();

  // The step that append() must be given next: one past the last line.
  std::int64_t next_step() const { return next_step_; }
  Status append(std::int64_t step, std::int64_t epoch,
                std::span<const std::vector<std::int64_t>> samples_by_logical);

 private:
  Ledger(int file, std::int64_t next_step) : file_(file), next_step_(next_step) {}
  int file_ = -1;
  std::int64_t next_step_ = 0;
};

// Reads a ledger and checks that every epoch that is complete used each of 0..samples-1 exactly
// once and an incomplete last one none twice. The error names epoch and sample.
struct LedgerSummary {
  std::int64_t steps = 0;
  std::int64_t epochs_complete = 0;
};
Result<LedgerSummary> check_ledger(const std::string& path, std::int64_t samples);

}  // namespace rubato::elastic
