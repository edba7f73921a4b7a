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

struct Training {
  // Parameters must be float32; buffers may have any type. Update both in place: they must stay the
  // same tensors.
  std::shared_ptr<torch::nn::Module> model;
  // SGD, Adam, AdamW, RMSprop or Adagrad over the model's parameters.
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::int64_t samples = 0;  // size of the data set
  bool shuffle = true;
  // The learning rate of a step, for all parameter groups. Must be a pure function. Empty: the
  // optimizer's own rate. An adaptive job multiplies the rate by the factor of its batch rule.
  std::function<double(const Progress&)> learning_rate;
  // The mean loss of the batch, as one floating-point number. The batch is never empty.
  std::function<torch::Tensor(const Batch&)> loss;
  // Optional: receives samples that this worker will probably use in its next step, so that the
  // program can read or decode them ahead into a cache of its own. The runtime calls it on a thread
  // of its own while `loss` runs, and skips samples when it is slow. It must not affect what `loss`
  // returns: it must not use the model or LibTorch's default generators, and `loss` must work
  // without it.
  std::function<void(std::span<const std::int64_t> samples)> prefetch;
};

struct JobOptions;

class Job {
 public:
  // Reads the command line (--help lists the options), pins the settings that affect the bits of
  // the result (threads, BLAS, algorithms) and seeds LibTorch. Pinning may execute the program once
  // more, so construct the job first in main. Wrong arguments end the program with a message and
  // exit code 2.
  Job(int argc, char** argv, const JobDefaults& defaults = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  torch::Device device() const;  // where to keep data that the loss function uses
  // Trains to the end and returns the program's exit code: 0 done, 1 failed, 2 wrong input.
  int train(const Training& training);

 private:
  std::unique_ptr<JobOptions> options_;
};

}  // namespace rubato
