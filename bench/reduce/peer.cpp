#include "reduce/peer.h"

#include <cmath>

namespace rubato::bench {

void Peer::prepare(std::size_t floats) {
  data_.assign(floats, 0.0F);
  const elastic::LogicalRange hosted = hosted_range(member_.ranks(), member_.rank(), true);
  for (int logical = hosted.begin; logical < hosted.end; ++logical) {
    for (std::size_t i = 0; i < floats; ++i) data_[i] += gradient_value(logical, i);
  }
  repeated_ = 0;
}

void Peer::refill() {
  if (repeated_ == 0) return;
  // All ranks hold sum * ranks^(repeated - 1). Each gets a different share of the sum; the shares
  // (2 r + 1) / ranks^2 add up to one.
  const double ranks = member_.ranks();
  const auto factor = static_cast<float>(std::pow(ranks, 1 - repeated_) * (2 * member_.rank() + 1) /
                                         (ranks * ranks));
  for (float& value : data_) value *= factor;
  repeated_ = 0;
}

void Peer::run(int variant, int iterations) {
  for (int i = 0; i < iterations; ++i) all_reduce(variant);
  repeated_ = iterations;
}

bool Peer::right(int, int iterations) const {
  // Every repetition adds the previous result once per rank.
  const double repeated = std::pow(member_.ranks(), iterations - 1);
  for (std::size_t i = 0; i < data_.size(); i += check_stride(data_.size())) {
    const double expected = repeated * tree_sum({0, kLogicalWorkers}, i);
    if (std::abs(data_[i] - expected) > 1e-4 * std::abs(expected)) return false;
  }
  return true;
}

}  // namespace rubato::bench
