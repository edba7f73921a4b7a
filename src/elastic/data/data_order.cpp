#include "elastic/data/data_order.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rubato::elastic {

namespace {

// The finalizer of splitmix64: every input bit changes every output bit with probability 1/2.
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// A key from a seed and a number. Epochs and shares use separate streams, so that equal numbers
// give unrelated keys.
constexpr std::uint64_t key(std::uint64_t seed, std::uint64_t stream, std::uint64_t number) {
  return mix(mix(seed + kGolden * stream) + kGolden * (number + 1));
}

constexpr std::uint64_t kEpochStream = 1;
constexpr std::uint64_t kShareStream = 2;

// Tiny domains need more rounds than the usual four to look random.
constexpr std::uint64_t kRounds = 8;

}  // namespace

DataOrder::DataOrder(const Options& options) : options_(options) {
  RUBATO_CHECK(options.samples >= 1 && options.logical_workers >= 1 && options.batch >= 1,
               "samples, logical workers and batch must be positive");
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(options.samples - 1)));
  half_bits_ = std::max(1, (bits + 1) / 2);
}

std::int64_t DataOrder::steps_per_epoch() const {
  // A step larger than the data set takes all samples. This also keeps the product small.
  const std::int64_t batch = std::min(options_.batch, options_.samples);
  const std::int64_t logical = std::min<std::int64_t>(options_.logical_workers, options_.samples);
  if (batch > options_.samples / logical) return 1;
  const std::int64_t step = batch * logical;
  return options_.samples / step + (options_.samples % step != 0 ? 1 : 0);
}

std::int64_t DataOrder::sample_at(std::int64_t epoch, std::int64_t position) const {
  RUBATO_CHECK(position >= 0 && position < options_.samples, "the position is outside the epoch");
  if (!options_.shuffle) return position;
  const std::uint64_t epoch_key =
      key(options_.seed, kEpochStream, static_cast<std::uint64_t>(epoch));
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(position);
  // The network permutes the next power of four, which is less than four times as large. Starting
  // from a valid position, the cycle returns to a valid one after four applications on average.
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const std::uint64_t next =
          left ^ (mix(epoch_key + kGolden * (right * kRounds + round)) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<std::uint64_t>(options_.samples));
  return static_cast<std::int64_t>(value);
}

std::uint64_t DataOrder::share_seed(std::int64_t step, int logical) const {
  return key(key(options_.seed, kShareStream, static_cast<std::uint64_t>(step)), kShareStream,
             static_cast<std::uint64_t>(logical));
}

void DataOrder::share(std::int64_t step, int logical, MiniBatch& out) const {
  RUBATO_CHECK(step >= 0 && logical >= 0 && logical < options_.logical_workers,
               "step or logical worker out of range");
  const std::int64_t steps = steps_per_epoch();
  const std::int64_t workers = options_.logical_workers;
  out.step = step;
  out.epoch = step / steps;
  out.logical = logical;
  out.logical_workers = options_.logical_workers;
  out.random_seed = share_seed(step, logical);

  const std::int64_t in_epoch = step % steps;
  // Only the last step of an epoch may be short, so earlier steps cannot overflow.
  const std::int64_t first = in_epoch == 0 ? 0 : in_epoch * workers * options_.batch;
  const std::int64_t left = options_.samples - first;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  if (in_epoch + 1 < steps || left / workers >= options_.batch) {
    begin = first + logical * options_.batch;
    count = options_.batch;
    out.weight = 1.0;
  } else {
    const std::int64_t larger = left % workers;  // this many shares have one extra sample
    count = left / workers + (logical < larger ? 1 : 0);
    begin = first + logical * (left / workers) + std::min<std::int64_t>(logical, larger);
    out.weight =
        static_cast<double>(count) * static_cast<double>(workers) / static_cast<double>(left);
  }
  out.samples.clear();
  for (std::int64_t i = 0; i < count; ++i) out.samples.push_back(sample_at(out.epoch, begin + i));
}

}  // namespace rubato::elastic
