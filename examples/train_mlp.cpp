// A multi-layer perceptron with dropout, trained with Adam.
#include "data.h"
#include "rubato/train.h"

int main(int argc, char** argv) {
  rubato::Job job(argc, argv, {.name = "mlp", .epochs = 4, .batch = 32, .logical = 4});

  const examples::Labelled data = examples::clusters(8192, 32, 10);
  const torch::Tensor inputs = data.inputs.to(job.device());
  const torch::Tensor labels = data.labels.to(job.device());

  torch::nn::Sequential model(torch::nn::Linear(32, 128), torch::nn::ReLU(),
                              torch::nn::Dropout(0.2), torch::nn::Linear(128, 128),
                              torch::nn::ReLU(), torch::nn::Dropout(0.2),
                              torch::nn::Linear(128, 10));
  auto optimizer = std::make_shared<torch::optim::Adam>(model->parameters(), 1e-3);

  return job.train({.model = model.ptr(),
                    .optimizer = optimizer,
                    .samples = inputs.size(0),
                    .loss = [&](const rubato::Batch& batch) {
                      const torch::Tensor x = inputs.index_select(0, batch.indices);
                      const torch::Tensor y = labels.index_select(0, batch.indices);
                      return torch::cross_entropy_loss(model->forward(x), y);
                    }});
}
