// A convolutional network with batch normalization, trained with SGD and momentum on randomly
// shifted and rotated images. The learning rate warms up and then follows a cosine.
#include <cmath>
#include <numbers>

#include "data.h"
#include "rubato/train.h"

namespace {

constexpr std::int64_t kSize = 16;

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
}

// Shifts each image by up to 2 pixels and rotates it by 180 degrees half of the time. All random
// numbers come from the generator of the batch.
torch::Tensor augment(const torch::Tensor& images, const rubato::Batch& batch) {
  const std::int64_t n = images.size(0);
  const torch::Tensor shift = torch::randint(0, 5, {n, 2}, batch.generator, torch::kInt64);
  const torch::Tensor mirror = torch::randint(0, 2, {n}, batch.generator, torch::kInt64);
  const torch::Tensor padded = torch::constant_pad_nd(images, {2, 2, 2, 2});
  std::vector<torch::Tensor> out;
  for (std::int64_t i = 0; i < n; ++i) {
    const torch::Tensor crop = padded[i]
                                   .narrow(1, shift[i][0].item<std::int64_t>(), kSize)
                                   .narrow(2, shift[i][1].item<std::int64_t>(), kSize);
    out.push_back(mirror[i].item<std::int64_t>() == 0 ? crop : crop.flip({1, 2}));
  }
  return torch::stack(out);
}

double learning_rate(const rubato::Progress& p) {
  constexpr double kPeak = 0.05;
  const auto warm_up = static_cast<double>(p.steps_per_epoch) / 2;
  const auto step = static_cast<double>(p.step + 1);
  if (step < warm_up) return kPeak * step / warm_up;
  const auto total = static_cast<double>(p.total_steps);
  return kPeak * 0.5 * (1 + std::cos(std::numbers::pi * (step - warm_up) / (total - warm_up + 1)));
}

}  // namespace

int main(int argc, char** argv) {
  rubato::Job job(argc, argv, {.name = "cnn", .epochs = 2, .batch = 16, .logical = 4});

  const examples::Labelled data = examples::stripes(1536, kSize, 8);
  const torch::Tensor labels = data.labels.to(job.device());

  using namespace torch::nn;
  Sequential model(convolution(1, 16), BatchNorm2d(16), ReLU(), MaxPool2d(2), convolution(16, 32),
                   BatchNorm2d(32), ReLU(), MaxPool2d(2), Flatten(), Linear(32 * 4 * 4, 8));
  auto optimizer = std::make_shared<torch::optim::SGD>(
      model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(5e-4));

  return job.train({.model = model.ptr(),
                    .optimizer = optimizer,
                    .samples = labels.size(0),
                    .learning_rate = learning_rate,
                    .loss = [&](const rubato::Batch& batch) {
                      const torch::Tensor ids = batch.indices.cpu();
                      const torch::Tensor images = data.inputs.index_select(0, ids);
                      const torch::Tensor x = augment(images, batch).to(batch.device);
                      const torch::Tensor y = labels.index_select(0, batch.indices);
                      return torch::cross_entropy_loss(model->forward(x), y);
                    }});
}
