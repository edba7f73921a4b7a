// A convolutional network and the loop that a person would write around it in plain LibTorch.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/train.h"

namespace bench {

using Clock = std::chrono::steady_clock;

inline constexpr std::int64_t kBatch = 16;
inline constexpr std::int64_t kSamples = 4096;

inline torch::Device device() { return torch::cuda::is_available() ? torch::kCUDA : torch::kCPU; }

// About 0.6 million parameters.
inline torch::nn::Sequential make_cnn() {
  using namespace torch::nn;
  const auto conv = [](std::int64_t in, std::int64_t out) {
    return Conv2d(Conv2dOptions(in, out, 3).padding(1).bias(false));
  };
  torch::manual_seed(1);
  return Sequential(conv(3, 32), BatchNorm2d(32), ReLU(), MaxPool2d(2), conv(32, 64),
                    BatchNorm2d(64), ReLU(), MaxPool2d(2), conv(64, 128), BatchNorm2d(128), ReLU(),
                    Flatten(), Linear(128 * 8 * 8, 64), ReLU(), Linear(64, 10));
}

struct Data {
  torch::Tensor images = torch::randn({kSamples, 3, 32, 32}).to(device());
  torch::Tensor labels = torch::randint(0, 10, {kSamples}, torch::kInt64).to(device());
};

inline std::shared_ptr<torch::optim::SGD> make_sgd(torch::nn::Sequential& model) {
  return std::make_shared<torch::optim::SGD>(model->parameters(),
                                             torch::optim::SGDOptions(0.01).momentum(0.9));
}

inline double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The loop that a person would write; it reads the loss of each micro-batch.
struct Plain {
  Plain(const Data& all, int micro_batches) : data(all), count(micro_batches) {
    model->to(device());
    optimizer = make_sgd(model);
  }
  void step() {
    double sum = 0;
    optimizer->zero_grad();
    for (int i = 0; i < count; ++i) {
      const auto micro = Clock::now();
      const std::int64_t first = (next + i) * kBatch % kSamples;
      const torch::Tensor ids =
          torch::arange(first, first + kBatch, torch::dtype(torch::kInt64).device(device()));
      const torch::Tensor loss = torch::cross_entropy_loss(
          model->forward(data.images.index_select(0, ids)), data.labels.index_select(0, ids));
      (count == 1 ? loss : loss / count).backward();
      compute += since(micro);
      const auto wait = Clock::now();
      sum += loss.item<double>();
      read_loss += since(wait);
    }
    const auto updating = Clock::now();
    optimizer->step();
    update += since(updating);
    next += count;
    last_loss = sum / count;
  }
  void forget_times() { compute = read_loss = update = 0; }

  Data data;
  int count;
  torch::nn::Sequential model = make_cnn();
  std::shared_ptr<torch::optim::SGD> optimizer;
  std::int64_t next = 0;
  double last_loss = 0;
  // Accumulated seconds.
  double compute = 0;
  double read_loss = 0;
  double update = 0;
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline void wait_for_device() {
  if (torch::cuda::is_available()) torch::cuda::synchronize();
}

}  // namespace bench
