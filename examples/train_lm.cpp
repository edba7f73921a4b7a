// A small character-level transformer language model, trained with AdamW.
#include "data.h"
#include "rubato/train.h"

namespace {

constexpr std::int64_t kContext = 32;  // characters that the model sees
constexpr std::int64_t kWidth = 64;

struct LanguageModelImpl : torch::nn::Module {
  LanguageModelImpl() {
    using namespace torch::nn;
    characters = register_module("characters", Embedding(128, kWidth));
    positions = register_module("positions", Embedding(kContext, kWidth));
    blocks = register_module("blocks", ModuleList());
    for (int i = 0; i < 2; ++i) {
      blocks->push_back(TransformerEncoderLayer(
          TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth).dropout(0.1)));
    }
    head = register_module("head", Linear(kWidth, 128));
  }
  torch::Tensor forward(const torch::Tensor& text) {  // [batch, context] -> [batch, context, 128]
    const torch::Tensor at = torch::arange(kContext, text.options());
    // Minus infinity where a position would see its future.
    const torch::Tensor mask = torch::full({kContext, kContext}, -INFINITY, at.device()).triu(1);
    torch::Tensor x = (characters(text) + positions(at)).transpose(0, 1);
    for (const auto& block : *blocks) {
      x = block->as<torch::nn::TransformerEncoderLayer>()->forward(x, mask);
    }
    return head(x.transpose(0, 1));
  }
  torch::nn::Embedding characters{nullptr}, positions{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(LanguageModel);

}  // namespace

int main(int argc, char** argv) {
  rubato::Job job(argc, argv, {.name = "lm", .epochs = 1, .batch = 8, .logical = 4});

  // Sample i is the text starting at character 8 i.
  const torch::Tensor text = examples::text(20'000).to(job.device());
  const torch::Tensor windows = text.unfold(0, kContext + 1, 8);

  LanguageModel model;
  auto optimizer = std::make_shared<torch::optim::AdamW>(
      model->parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(0.01));

  return job.train(
      {.model = model.ptr(),
       .optimizer = optimizer,
       .samples = windows.size(0),
       .loss = [&](const rubato::Batch& batch) {
         const torch::Tensor sample = windows.index_select(0, batch.indices);
         const torch::Tensor x = sample.narrow(1, 0, kContext);
         const torch::Tensor next = sample.narrow(1, 1, kContext);
         return torch::cross_entropy_loss(model->forward(x).reshape({-1, 128}), next.reshape({-1}));
       }});
}
