#include "reduce/peer.h"

#include <cmath>
#include <cstring>

namespace rubato::bench {

void Peer::prepare(std::size_t floats) {
  input_.assign(floats, 0.0F);
  const elastic::LogicalRange hosted = hosted_range(member_.ranks(), member_.rank(), true);
  for (int logical = hosted.begin; logical < hosted.end; ++logical) {
    for (std::size_t i = 0; i < floats; ++i) input_[i] += gradient_value(logical, i);
  }
  data_.assign(floats, 0.0F);
}

void Peer::refill() { std::memcpy(data_.data(), input_.data(), input_.size() * sizeof(float)); }

void Peer::run(int variant, int iterations) {
  for (int i = 0; i < iterations; ++i) all_reduce(variant);
}

bool Peer::right(int, int iterations) const {
  // Every repetition adds the result of the one before once per rank.
  const double repeated = std::pow(member_.ranks(), iterations - 1);
  for (std::size_t i = 0; i < data_.size(); i += check_stride(data_.size())) {
    const double expected = repeated * tree_sum({0, kLogicalWorkers}, i);
    if (std::abs(data_[i] - expected) > 1e-5 * std::abs(expected)) return false;
  }
  return true;
}

}  // namespace rubato::bench
