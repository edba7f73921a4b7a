// Which samples a logical worker uses in a step: a pure function of (seed, epoch, step, logical
// worker). Nothing is stored, so nothing can be lost or repeated: each sample is used exactly once
// per epoch, whichever worker computes it.
//
// An epoch is a keyed permutation of the samples, computed per index in O(1): a Feistel network
// over the next power of four, which walks the cycle until it lands on a valid index. A step takes
// the next N x batch positions; logical worker i takes the i-th block of `batch` of them. The last
// step of an epoch may be short: its samples are divided as evenly as possible, lower logical
// workers first, so some logical workers may have none.
#pragma once

#include <cstdint>
#include <vector>

namespace rubato::elastic {

// One logical worker's share of a step.
struct MiniBatch {
  std::int64_t step = 0;   // global, from 0
  std::int64_t epoch = 0;  // from 0
  int logical = 0;
  int logical_workers = 1;
  std::vector<std::int64_t> samples;
  // Weight of this share's mean loss relative to an even division: samples.size() * N / (samples of
  // the whole step). 1 except in a short last step; 0 if the share is empty.
  double weight = 1.0;
  // Seeds every random source of this share (dropout, augmentation). It is a function of (seed,
  // step, logical worker), so a repeated step draws the same numbers on any worker.
  std::uint64_t random_seed = 0;
};

class DataOrder {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::int64_t samples = 1;
    int logical_workers = 1;
    std::int64_t batch = 1;  // per logical worker
    bool shuffle = true;
  };
  explicit DataOrder(const Options& options);  // all counts must be positive

  const Options& options() const { return options_; }
  std::int64_t steps_per_epoch() const;
  std::int64_t epoch_of(std::int64_t step) const { return step / steps_per_epoch(); }
  // The sample at a position of an epoch, 0 <= position < samples.
  std::int64_t sample_at(std::int64_t epoch, std::int64_t position) const;
  // Fills `out`; reuses the memory of out.samples.
  void share(std::int64_t step, int logical, MiniBatch& out) const;
  // MiniBatch::random_seed.
  std::uint64_t share_seed(std::int64_t step, int logical) const;

 private:
  Options options_;
  int half_bits_ = 1;
};

}  // namespace rubato::elastic
