// A perceptron of 100.8 million parameters with SGD and momentum, for bench/elastic_changes.cpp:
// 0.8 GB of state that must not be moved inside a pause. Its batch is small, so a step is little
// more than a few passes over the parameters.
//
// usage: rubato run ... -- build/bin/train_large [--steps N]
#include "../examples/data.h"
#include "rubato/train.h"

int main(int argc, char** argv) {
  rubato::Job job(argc, argv, {.name = "large", .epochs = 100'000, .batch = 2, .logical = 2});

  constexpr std::int64_t kWidth = 2048;
  constexpr std::int64_t kFeatures = 32;
  constexpr std::int64_t kClasses = 8;
  const examples::Labelled data = examples::clusters(512, kFeatures, kClasses);

  torch::nn::Sequential model(torch::nn::Linear(kFeatures, kWidth), torch::nn::ReLU());
  for (int layer = 0; layer < 24; ++layer) {
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
    model->push_back(torch::nn::ReLU());
  }
  model->push_back(torch::nn::Linear(kWidth, kClasses));
  auto optimizer = std::make_shared<torch::optim::SGD>(
      model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));

  return job.train({.model = model.ptr(),
                    .optimizer = optimizer,
                    .samples = data.labels.size(0),
                    .loss = [&](const rubato::Batch& batch) {
                      const torch::Tensor ids = batch.indices.cpu();
                      const torch::Tensor x = data.inputs.index_select(0, ids).to(batch.device);
                      const torch::Tensor y = data.labels.index_select(0, ids).to(batch.device);
                      return torch::cross_entropy_loss(model->forward(x), y);
                    }});
}
