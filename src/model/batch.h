// Batch sizes: what a job allows, and how a total batch is split into the micro-batches that
// devices run.
#pragma once

#include <cstdint>

namespace rubato {

// What a job allows. `initial` is the total batch for which its author tuned the learning rate;
// statistical efficiency is relative to it. A job without batches (a recorded duration) has all
// fields 0.
struct BatchLimits {
  std::int64_t initial = 0;
  std::int64_t max = 0;        // largest total batch
  std::int64_t min_local = 0;  // smallest and largest micro-batch of one device
  std::int64_t max_local = 0;

  bool known() const { return initial > 0; }
  bool operator==(const BatchLimits&) const = default;
};

// One optimizer update: every device runs `accumulation` micro-batches without synchronisation,
// then one with it.
struct BatchShape {
  std::int64_t local = 0;
  int accumulation = 0;

  std::int64_t total(int devices) const { return devices * local * (accumulation + 1); }
  bool operator==(const BatchShape&) const = default;
};

// Splits a total batch over the devices: as few micro-batches as fit, rounded up, but never beyond
// limits.max. With `accumulate_alone`, a single device whose batch exceeds the initial one
// accumulates at least once, because gradient statistics need two micro-batches (as in Pollux).
BatchShape split_batch(std::int64_t total, int devices, const BatchLimits& limits,
                       bool accumulate_alone = true);

}  // namespace rubato
