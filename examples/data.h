// Small data sets generated from formulas: nothing to download, the same bits on every machine.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace examples {

// A random-looking number in [0, 1) for each index.
inline float noise(std::uint64_t index) {
  index = (index + 1) * 0x9e3779b97f4a7c15U;
  index = (index ^ (index >> 30)) * 0xbf58476d1ce4e5b9U;
  index = (index ^ (index >> 27)) * 0x94d049bb133111ebU;
  return static_cast<float>((index ^ (index >> 31)) >> 40) * 0x1.0p-24F;
}

struct Labelled {
  torch::Tensor inputs;  // float32
  torch::Tensor labels;  // int64
};

// Points around one center per class.
inline Labelled clusters(std::int64_t count, std::int64_t features, std::int64_t classes) {
  Labelled data{torch::empty({count, features}), torch::arange(count) % classes};
  float* out = data.inputs.data_ptr<float>();
  for (std::int64_t i = 0; i < count * features; ++i) {
    const std::int64_t label = i / features % classes;
    const float centre =
        noise(static_cast<std::uint64_t>(1'000'000'007 + label * features + i % features));
    out[i] = 2 * centre - 1 + 2 * (noise(static_cast<std::uint64_t>(i)) - 0.5F);
  }
  return data;
}

// Gray images [count, 1, size, size] of stripes; the class is their direction and width.
inline Labelled stripes(std::int64_t count, std::int64_t size, std::int64_t classes) {
  Labelled data{torch::empty({count, 1, size, size}), torch::arange(count) % classes};
  float* out = data.inputs.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t width = 2 + i % classes / 2;
    const auto shift = static_cast<std::int64_t>(noise(static_cast<std::uint64_t>(i)) * 8);
    for (std::int64_t y = 0; y < size; ++y) {
      for (std::int64_t x = 0; x < size; ++x) {
        const std::int64_t along = (i % classes % 2 == 0 ? x : y) + shift;
        const std::int64_t at = (i * size + y) * size + x;
        out[at] = static_cast<float>(along / width % 2) +
                  noise(static_cast<std::uint64_t>(at) + 77) - 1.0F;
      }
    }
  }
  return data;
}

// Sentences over a small vocabulary, as characters 0..127.
inline torch::Tensor text(std::int64_t length) {
  static const char* const kWho[] = {"the cat", "a dog", "the old king", "my friend"};
  static const char* const kDoes[] = {" sees ", " follows ", " paints ", " forgets "};
  static const char* const kWhat[] = {"the moon", "a red house", "the sea", "two birds"};
  std::string all;
  for (std::uint64_t i = 0; static_cast<std::int64_t>(all.size()) < length; ++i) {
    const auto pick = [&](std::uint64_t k) {
      return static_cast<std::size_t>(noise(3 * i + k) * 4);
    };
    all += std::string(kWho[pick(0)]) + kDoes[pick(1)] + kWhat[pick(2)] + ". ";
  }
  torch::Tensor result = torch::empty({length}, torch::kInt64);
  for (std::int64_t i = 0; i < length; ++i) {
    result.data_ptr<std::int64_t>()[i] = all[static_cast<std::size_t>(i)];
  }
  return result;
}

}  // namespace examples
