// Elastic training with LibTorch: the header a training program includes.
//
//   int main(int argc, char** argv) {
//     rubato::Job job(argc, argv, {.name = "mlp", .epochs = 2, .batch = 32});
//     auto model = ...;      // after the job: it has seeded LibTorch
//     auto optimizer = ...;
//     return job.train({.model = model, .optimizer = optimizer, .samples = n,
//                       .loss = [&](const rubato::Batch& batch) { ...; return loss; }});
//   }
//
// The runtime owns the training loop and all state; the program supplies the loss of a mini-batch.
// The final parameters depend only on the arguments, never on how many workers ran the job or when
// they joined and left. This requires the loss to be a function of the model, the batch and the
// generators that the runtime seeds. It must not use clocks, state of its own, or any random source
// other than LibTorch's default generators and `Batch::generator`.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rubato/job_defaults.h"

namespace rubato {

// One mini-batch: the share of one logical worker in one step. In an adaptive job (rubato run
// --mode adaptive) the size of the batch and the number of logical workers change with the number
// of workers.
struct Batch {
  std::span<const std::int64_t> samples;  // which samples, 0 <= id < Training::samples
  torch::Tensor indices;                  // the same as an int64 tensor on `device`
  std::int64_t step = 0;                  // global, from 0
  std::int64_t epoch = 0;                 // from 0
  int logical = 0;                        // the logical worker whose share this is
  int logical_workers = 1;
  torch::Device device{torch::kCPU};  // where the model is
  // A CPU generator for augmentation, seeded for this mini-batch. LibTorch's default generators
  // (used by dropout, for example) are also seeded for it, with a different seed.
  mutable torch::Generator generator;
};

// The position at which a learning rate is requested. In an adaptive job, a step here means one
// step of the job's initial batch size: `step` is the number of such steps that would have used as
// many samples as were used so far. A schedule therefore follows the data, however large the
// batches are.
struct Progress {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t steps_per_epoch = 1;
  std::int64_t total_steps = 1;
};

// How the state that an optimizer class of one's own keeps for a parameter travels from worker to
// worker; see keeps().
struct OptimizerStateRules {
  std::function<std::unique_ptr<torch::optim::OptimizerParamState>()> make;
  // Always the same ones, each float32 and of the parameter's shape.
  std::function<std::vector<torch::Tensor*>(torch::optim::OptimizerParamState&)> tensors;
  std::function<std::int64_t*(torch::optim::OptimizerParamState&)> steps;  // empty: it counts none
};

// Rules for a state of type State:
//   .optimizer_state = rubato::keeps<LionState>(
//       [](LionState& state) { return std::vector{&state.momentum}; })
// The second function, if there is one, returns the address of the state's count of updates.
template <typename State>
OptimizerStateRules keeps(std::function<std::vector<torch::Tensor*>(State&)> tensors,
                          std::function<std::int64_t*(State&)> steps = nullptr) {
  using Base = torch::optim::OptimizerParamState;
  OptimizerStateRules rules{
      .make = [] { return std::make_unique<State>(); },
      .tensors = [tensors](Base& state) { return tensors(static_cast<State&>(state)); }};
  if (steps) rules.steps = [steps](Base& state) { return steps(static_cast<State&>(state)); };
  return rules;
}

struct Training {
  // Parameters must be float32; buffers may have any type. Update both in place: they must stay the
  // same tensors.
  std::shared_ptr<torch::nn::Module> model;
  // SGD, Adam, AdamW, RMSprop or Adagrad over the model's parameters, or a class of one's own with
  // `optimizer_state`. Its step() must update each parameter only from its own gradient and state.
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  OptimizerStateRules optimizer_state{};
  std::int64_t samples = 0;  // size of the data set
  bool shuffle = true;
  // The learning rate of a step, for all parameter groups. Must be a pure function. Empty: the
  // optimizer's own rate. An adaptive job multiplies the rate by the factor of its batch rule.
  std::function<double(const Progress&)> learning_rate{};
  // The mean loss of the batch, as one floating-point number. The batch is never empty.
  std::function<torch::Tensor(const Batch&)> loss;
  // Optional: receives samples that this worker will probably use in its next step, so that the
  // program can read or decode them ahead into a cache of its own. The runtime calls it on a thread
  // of its own while `loss` runs, and skips samples when it is slow. It must not affect what `loss`
  // returns: it must not use the model or LibTorch's default generators, and `loss` must work
  // without it.
  std::function<void(std::span<const std::int64_t> samples)> prefetch{};
  // Optional: called before each update, on every worker, with the gradient of the step in the
  // parameters' grad(), which it may change in place:
  //   .before_update = [&](const rubato::Progress&) {
  //     torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
  //   }
  // It must be a function of the gradient alone.
  std::function<void(const Progress&)> before_update{};
  // Optional: called after each epoch, and at the end, on the one worker that leads, while the
  // others wait: for an evaluation. The model has the buffers (BatchNorm) of logical worker 0. It
  // must not change the model; eval() is undone afterwards. If that worker dies meanwhile, nobody
  // makes up for it.
  std::function<void(const Progress&)> after_epoch{};
  // Whether a loss that is not a number ends the job, with a message that says where.
  bool stop_at_nan = true;
};

struct JobOptions;
namespace train {
class TorchProgram;
}

class Job {
 public:
  // Reads the command line (--help lists the options), pins the settings that affect the bits of
  // the result (threads, BLAS, algorithms) and seeds LibTorch. Pinning may execute the program once
  // more, so construct the job first in main. Wrong arguments end the program with a message and
  // exit code 2.
  Job(int argc, char** argv, const JobDefaults& defaults = {}, const std::vector<Flag>& flags = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  torch::Device device() const;  // where to keep data that the loss function uses
  // Trains to the end and returns the program's exit code: 0 done, 1 failed, 2 wrong input. A
  // worker that leaves a job which goes on without it returns 0, too, with a model that is not
  // trained to the end: only finished() tells. The trained model is in the job's folder as
  // model.pt, a state_dict that PyTorch loads; the option --init starts from such a file.
  int train(const Training& training);

  // Whether the job is finished, so that the model holds its final state.
  bool finished() const { return finished_; }
  // Whether this is the one worker of the job that evaluates and writes files.
  bool leads() const;
  // Reports a number about the training, which 'rubato status' and the API show. May be called by
  // every worker, in the functions above and after train(); it counts where leads() is true. Throws
  // std::invalid_argument if the name has a space or more than 64 characters, or is the 65th.
  void report(const std::string& name, double value);

 private:
  std::unique_ptr<JobOptions> options_;
  std::unique_ptr<train::TorchProgram> program_;
  bool finished_ = false;
};

}  // namespace rubato
