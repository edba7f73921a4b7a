// Models and data for the tests of the LibTorch adapter.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "train/torch_program.h"

namespace rubato::train {

enum class ModelKind { kMlp, kCnn };
enum class OptimizerKind { kSgd, kMomentum, kAdam, kAdamW, kAmsgrad, kRmsProp, kAdagrad };

inline torch::nn::Sequential make_model(ModelKind kind) {
  using namespace torch::nn;
  torch::manual_seed(7);
  if (kind == ModelKind::kMlp) {
    return Sequential(Linear(20, 33), ReLU(), Dropout(0.25), Linear(33, 5));
  }
  return Sequential(Conv2d(Conv2dOptions(1, 6, 3).padding(1)), BatchNorm2d(6), ReLU(), MaxPool2d(2),
                    Flatten(), Linear(6 * 4 * 4, 5));
}

inline std::shared_ptr<torch::optim::Optimizer> make_optimizer(
    OptimizerKind kind, const std::vector<torch::Tensor>& parameters) {
  namespace optim = torch::optim;
  switch (kind) {
    case OptimizerKind::kSgd:
      return std::make_shared<optim::SGD>(parameters, optim::SGDOptions(0.05).weight_decay(1e-3));
    case OptimizerKind::kMomentum:
      return std::make_shared<optim::SGD>(parameters, optim::SGDOptions(0.05).momentum(0.9));
    case OptimizerKind::kAdam:
      return std::make_shared<optim::Adam>(parameters, optim::AdamOptions(2e-3));
    case OptimizerKind::kAdamW:
      return std::make_shared<optim::AdamW>(parameters, optim::AdamWOptions(2e-3));
    case OptimizerKind::kAmsgrad:
      return std::make_shared<optim::Adam>(parameters, optim::AdamOptions(2e-3).amsgrad(true));
    case OptimizerKind::kRmsProp:
      return std::make_shared<optim::RMSprop>(
          parameters, optim::RMSpropOptions(1e-3).momentum(0.5).centered(true));
    case OptimizerKind::kAdagrad:
      return std::make_shared<optim::Adagrad>(parameters,
                                              optim::AdagradOptions(1e-2).lr_decay(0.1));
  }
  throw std::logic_error("unknown optimizer kind");
}

struct TestData {
  torch::Tensor inputs;
  torch::Tensor labels;
};

// Numbers without structure: the tests look at bits, not at learning.
inline TestData make_data(ModelKind kind, std::int64_t samples) {
  torch::Generator generator = at::detail::createCPUGenerator(11);
  TestData data;
  data.inputs = kind == ModelKind::kMlp ? torch::randn({samples, 20}, generator)
                                        : torch::randn({samples, 1, 8, 8}, generator);
  data.labels = torch::randint(0, 5, {samples}, generator, torch::kInt64);
  return data;
}

struct ProgramSpec {
  ModelKind model = ModelKind::kMlp;
  OptimizerKind optimizer = OptimizerKind::kMomentum;
  std::int64_t samples = 200;
  std::int64_t batch = 4;
  std::uint64_t seed = 3;
  bool augment = false;                                     // noise from the batch's generator
  bool schedule = false;                                    // a rate that changes every step
  std::function<double(std::int64_t step)> rate = nullptr;  // another rate
  bool separate_memory = false;
  std::chrono::milliseconds pace{0};
};

inline double test_rate(std::int64_t step) { return 0.01 / static_cast<double>(step + 1); }

inline std::unique_ptr<TorchProgram> make_program(const ProgramSpec& spec) {
  torch::nn::Sequential model = make_model(spec.model);
  const TestData data = make_data(spec.model, spec.samples);
  Training training{.model = model.ptr(),
                    .optimizer = make_optimizer(spec.optimizer, model->parameters()),
                    .samples = spec.samples};
  training.loss = [=](const Batch& batch) mutable {
    torch::Tensor x = data.inputs.index_select(0, batch.indices);
    if (spec.augment) x = x + torch::randn(x.sizes(), batch.generator);
    return torch::cross_entropy_loss(model->forward(x), data.labels.index_select(0, batch.indices));
  };
  if (spec.rate) training.learning_rate = [=](const Progress& p) { return spec.rate(p.step); };
  if (spec.schedule) training.learning_rate = [](const Progress& p) { return test_rate(p.step); };
  auto program = TorchProgram::make(training, {.seed = spec.seed,
                                               .batch = spec.batch,
                                               .pace = spec.pace,
                                               .separate_memory = spec.separate_memory});
  if (!program) throw std::runtime_error(program.error().message);
  return std::move(*program);
}

}  // namespace rubato::train
