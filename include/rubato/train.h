// Elastic training with LibTorch: what a training program includes.
//
//   int main(int argc, char** argv) {
//     rubato::Job job(argc, argv, {.name = "mlp", .epochs = 2, .batch = 32});
//     auto model = ...;      // after the job: it has seeded LibTorch
//     auto optimizer = ...;
//     return job.train({.model = model, .optimizer = optimizer, .samples = n,
//                       .loss = [&](const rubato::Batch& batch) { ...; return loss; }});
//   }
//
// The runtime owns the loop and all state. The program says what a mini-batch's loss is. The final
// parameters depend on the arguments alone, never on how many workers ran the job or when they
// came and went. For that the loss function must be a function of the model, the batch and the
// generators that the runtime seeds: no clocks, no state of its own, no random source besides
// LibTorch's default generators and `Batch::generator`.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "rubato/job_defaults.h"

namespace rubato {

// One mini-batch: the share of one logical worker in one step. In an adaptive job (rubato run
// --mode adaptive) its size and the number of logical workers change with the workers.
struct Batch {
  std::span<const std::int64_t> samples;  // which samples, 0 <= id < Training::samples
  torch::Tensor indices;                  // the same as an int64 tensor on `device`
  std::int64_t step = 0;                  // global, from 0
  std::int64_t epoch = 0;                 // from 0
  int logical = 0;                        // which logical worker's share it is
  int logical_workers = 1;
  torch::Device device{torch::kCPU};  // where the model is
  // For augmentation: a CPU generator seeded for this mini-batch. LibTorch's default generators
  // (dropout) are seeded for it as well, with another seed.
  mutable torch::Generator generator;
};

// Where training is when a learning rate is asked for. In an adaptive job these are steps of the
// job's first batch: `step` tells how many of them have as many samples as were used so far. So a
// schedule goes with the data, however large the batches are that use it.
struct Progress {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t steps_per_epoch = 1;
  std::int64_t total_steps = 1;
};

struct Training {
  // float32 parameters; buffers of any type. Both must stay the same tensors: update in place.
  std::shared_ptr<torch::nn::Module> model;
  // SGD, Adam, AdamW, RMSprop or Adagrad over parameters of the model.
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::int64_t samples = 0;  // size of the data set
  bool shuffle = true;
  // The rate of a step, for all parameter groups; a pure function. Empty: the optimizer's own. An
  // adaptive job multiplies it by its rule for the batch.
  std::function<double(const Progress&)> learning_rate;
  // The mean loss of the batch: one floating-point number. The batch is never empty.
  std::function<torch::Tensor(const Batch&)> loss;
  // Optional: samples that this worker will probably use in its next step, to be read or decoded
  // ahead into a cache of the program's own. Called on a thread of the runtime while `loss` runs;
  // when it is slow, some are left out. It must not change what `loss` returns: no use of the model
  // or of LibTorch's default generators, and `loss` must do without it.
  std::function<void(std::span<const std::int64_t> samples)> prefetch;
};

struct JobOptions;

class Job {
 public:
  // Reads the command line (--help lists it), pins what decides bits (threads, BLAS, algorithms;
  // the program may be executed anew once for that, so call it first in main) and seeds LibTorch.
  // Ends the program with code 2 and a message when an argument is wrong.
  Job(int argc, char** argv, const JobDefaults& defaults = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  torch::Device device() const;  // where to keep data that the loss function uses
  // Trains to the end and returns the exit code of the program: 0 done, 1 failed, 2 wrong input.
  int train(const Training& training);

 private:
  std::unique_ptr<JobOptions> options_;
};

}  // namespace rubato
