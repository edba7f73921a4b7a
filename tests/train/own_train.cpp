// A program with everything of its own: an optimizer class (Lion, with momentum and a count of
// updates), flags, gradient clipping, an evaluation after each epoch, reported metrics, and a loss
// that may become a NaN.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "rubato/train.h"

namespace {

using torch::Tensor;

struct LionOptions : torch::optim::OptimizerCloneableOptions<LionOptions> {
  explicit LionOptions(double rate) : lr(rate) {}
  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
  double lr;
};

struct LionState : torch::optim::OptimizerCloneableParamState<LionState> {
  Tensor momentum;
  std::int64_t updates = 0;
};

class Lion : public torch::optim::Optimizer {
 public:
  Lion(const std::vector<Tensor>& parameters, double rate)
      : Optimizer({torch::optim::OptimizerParamGroup(parameters)},
                  std::make_unique<LionOptions>(rate)) {}

  Tensor step(LossClosure /*closure*/ = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups_) {
      const double rate = group.options().get_lr();
      for (Tensor& parameter : group.params()) {
        if (parameter.grad().defined()) update(parameter, rate);
      }
    }
    return {};
  }

 private:
  void update(Tensor& parameter, double rate) {
#if TORCH_VERSION_MAJOR < 2
    auto& slot = state_[c10::guts::to_string(parameter.unsafeGetTensorImpl())];
#else
    auto& slot = state_[parameter.unsafeGetTensorImpl()];
#endif
    if (!slot) {
      auto fresh = std::make_unique<LionState>();
      fresh->momentum = torch::zeros_like(parameter);
      slot = std::move(fresh);
    }
    auto& state = static_cast<LionState&>(*slot);
    const double fading = 1.0 / std::sqrt(static_cast<double>(++state.updates));
    parameter.add_((state.momentum * 0.9 + parameter.grad() * 0.1).sign(), -rate * fading);
    state.momentum.mul_(0.99).add_(parameter.grad(), 0.01);
  }
};

}  // namespace

int main(int argc, char** argv) {
  // Later workers are forked when a job has begun, so they do not come here.
  if (std::getenv("RUBATO_WORKER") != nullptr) std::fputs("main begins\n", stdout);
  std::int64_t width = 16;
  double clip = 0.5;
  std::int64_t nan_at = -1;
  bool reports = true;
  std::string notes;  // gets a line per evaluation, and one at the end
  rubato::Job job(argc, argv, {.name = "own", .epochs = 4, .batch = 8, .logical = 4},
                  {{"--width", "neurons of the hidden layer", &width},
                   {"--clip", "longest gradient", &clip},
                   {"--nan-at", "step whose loss is a NaN; -1: none", &nan_at},
                   {"--reports", "report metrics", &reports},
                   {"--notes", "file to write what was called", &notes}});
  const Tensor inputs = torch::randn({256, 8});
  const Tensor outputs = inputs.pow(2).sum(1, true);
  torch::nn::Sequential model(torch::nn::Linear(8, width), torch::nn::BatchNorm1d(width),
                              torch::nn::Tanh(), torch::nn::Linear(width, 1));
  const auto error_of = [&](const Tensor& x, const Tensor& y) {
    return (model->forward(x) - y).pow(2).mean();
  };
  const auto note = [&](const std::string& line) {
    if (!notes.empty()) std::ofstream(notes, std::ios::app) << line << std::endl;
  };
  const int code = job.train(
      {.model = model.ptr(),
       .optimizer = std::make_shared<Lion>(model->parameters(), 0.01),
       .optimizer_state =
           rubato::keeps<LionState>([](LionState& state) { return std::vector{&state.momentum}; },
                                    [](LionState& state) { return &state.updates; }),
       .samples = inputs.size(0),
       .loss =
           [&](const rubato::Batch& batch) {
             const Tensor loss = error_of(inputs.index_select(0, batch.indices),
                                          outputs.index_select(0, batch.indices));
             const bool broken = batch.step == nan_at && batch.logical == 1;
             return broken ? loss * std::numeric_limits<float>::quiet_NaN() : loss;
           },
       .before_update =
           [&](const rubato::Progress&) {
             torch::nn::utils::clip_grad_norm_(model->parameters(), clip);
           },
       .after_epoch =
           [&](const rubato::Progress& progress) {
             const torch::NoGradGuard no_grad;
             model->eval();
             const double error = error_of(inputs, outputs).item<double>();
             if (reports) job.report("error", error);
             note("epoch " + std::to_string(progress.epoch) + " error " + std::to_string(error));
           }});
  if (job.finished() && job.leads()) {
    model->eval();
    const torch::NoGradGuard no_grad;
    const double error = error_of(inputs, outputs).item<double>();
    if (reports) job.report("final", error);
    note("finished error " + std::to_string(error));
  }
  return code;
}
