#include "train/torch_program.h"

#include <gtest/gtest.h>

#include <array>

#include "train/emulated_job.h"
#include "train/environment.h"
#include "train/models.h"
#include "train/solo.h"

namespace rubato::train {
namespace {

class TorchProgramTest : public testing::Test {
 protected:
  void SetUp() override { pin_torch(); }
};
class EveryOptimizer : public TorchProgramTest,
                       public testing::WithParamInterface<OptimizerKind> {};

std::string run(const ProgramSpec& spec, const std::vector<int>& sizes, std::int64_t steps,
                std::string* private_state = nullptr) {
  EmulatedJob job([&] { return make_program(spec); }, sizes);
  for (std::int64_t step = 0; step < steps; ++step) job.step(step);
  for (std::size_t w = 1; w < sizes.size(); ++w) {
    EXPECT_EQ(job.worker(0).state(), job.worker(w).state()) << "worker " << w;
  }
  int logical = 0;
  for (const int size : sizes) logical += size;
  for (int i = 0; private_state != nullptr && i < logical; ++i) {
    *private_state += job.private_state(i);
  }
  return job.worker(0).state();
}

std::string bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::string bytes;
  for (const torch::Tensor& tensor : tensors) {
    bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return bytes;
}

// One logical worker equals the loop that anybody would write.
TEST_P(EveryOptimizer, EqualsThePlainLoop) {
  for (const ModelKind kind : {ModelKind::kMlp, ModelKind::kCnn}) {
    const ProgramSpec spec{.model = kind, .optimizer = GetParam(), .samples = 30, .schedule = true};
    auto program = make_program(spec);
    Solo solo(*program, 1);
    for (std::int64_t step = 0; step < 20; ++step) solo.step(step);

    torch::nn::Sequential model = make_model(kind);
    auto optimizer = make_optimizer(GetParam(), model->parameters());
    const TestData data = make_data(kind, spec.samples);
    const elastic::DataOrder order({.seed = spec.seed, .samples = 30, .batch = spec.batch});
    elastic::MiniBatch batch;
    for (std::int64_t step = 0; step < 20; ++step) {
      order.share(step, 0, batch);
      for (auto& group : optimizer->param_groups()) group.options().set_lr(test_rate(step));
      optimizer->zero_grad();
      torch::manual_seed(batch.random_seed);
      const torch::Tensor ids = torch::tensor(batch.samples);
      torch::cross_entropy_loss(model->forward(data.inputs.index_select(0, ids)),
                                data.labels.index_select(0, ids))
          .backward();
      optimizer->step();
    }
    EXPECT_EQ(program->parameter_bytes(), bytes_of(model->parameters()));
  }
}

TEST_P(EveryOptimizer, BitsDoNotDependOnHosting) {
  const ProgramSpec spec{.optimizer = GetParam(), .samples = 90, .augment = true, .schedule = true};
  const std::string expected = run(spec, {8}, 7);  // 90 = 2 x 32 + 26: a short last step
  for (const std::vector<int>& sizes :
       {std::vector<int>{4, 4}, {3, 3, 2}, {1, 1, 1, 1, 1, 1, 1, 1}, {5, 3}, {1, 7}}) {
    EXPECT_EQ(run(spec, sizes, 7), expected) << sizes.size() << " workers";
  }
}

// A newcomer's units arrive one by one while training continues; it repeats the updates they
// missed.
TEST_P(EveryOptimizer, NewcomerCatchesUpUnitByUnit) {
  for (const bool separate : {false, true}) {
    const std::int64_t first = separate ? 3 : 0;
    const ProgramSpec spec{.optimizer = GetParam(), .schedule = true, .separate_memory = separate};
    EmulatedJob job([&] { return make_program(spec); }, {4});
    for (std::int64_t step = 0; step < first; ++step) job.step(step);

    EmulatedWorker newcomer(make_program(spec));
    std::vector<std::uint8_t> has(newcomer.unit_count(), 0);
    for (std::int64_t step = first; step < first + 6; ++step) {
      const auto next = static_cast<std::size_t>(step - first);
      if (next < newcomer.unit_count()) {
        newcomer.copy_unit_from(job.worker(0), newcomer.unit_count() - 1 - next);
        has[newcomer.unit_count() - 1 - next] = 1;
      }
      job.step(step);
      newcomer.program().apply(job.info(step), job.gradient(), has);
    }
    EXPECT_EQ(newcomer.state(), job.worker(0).state()) << "from step " << first;
  }
}

// State outside the units' memory, as on a GPU, has the same bits.
TEST_P(EveryOptimizer, BitsDoNotDependOnWhereStateIs) {
  ProgramSpec spec{.model = ModelKind::kCnn, .optimizer = GetParam(), .samples = 90};
  const std::string expected = run(spec, {4}, 7);
  spec.separate_memory = true;
  EXPECT_EQ(run(spec, {4}, 7), expected);
  EXPECT_EQ(run(spec, {1, 3}, 7), expected);
}

TEST_P(EveryOptimizer, CopiedStateGoesOnWithTheSameBits) {
  const ProgramSpec spec{.model = ModelKind::kCnn, .optimizer = GetParam()};
  EmulatedJob job([&] { return make_program(spec); }, {2});
  for (std::int64_t step = 0; step < 5; ++step) job.step(step);
  EmulatedWorker copy(make_program(spec));
  for (std::size_t k = 0; k < copy.unit_count(); ++k) copy.copy_unit_from(job.worker(0), k);
  EXPECT_EQ(copy.state(), job.worker(0).state());
  for (std::int64_t step = 5; step < 10; ++step) {
    job.step(step);
    copy.program().apply(job.info(step), job.gradient(), {});
  }
  EXPECT_EQ(copy.state(), job.worker(0).state());
}

// For adaptive jobs: the batch's factor acts on the optimizer's own rate and is removed again.
TEST_P(EveryOptimizer, TheRateFactorMultipliesTheRate) {
  const std::vector<double> factors{1.0, 2.0, 0.5, 1.0, 1.0, 3.0};
  const ProgramSpec spec{.optimizer = GetParam()};
  EmulatedJob job([&] { return make_program(spec); }, {2});
  EmulatedWorker scaled(make_program(spec));
  const torch::Tensor some = torch::zeros({1}, torch::requires_grad());
  const double own = make_optimizer(GetParam(), {some})->param_groups()[0].options().get_lr();
  ProgramSpec scheduled = spec;
  scheduled.rate = [&](std::int64_t step) { return own * factors[static_cast<std::size_t>(step)]; };
  EmulatedWorker expected(make_program(scheduled));
  for (std::int64_t step = 0; step < static_cast<std::int64_t>(factors.size()); ++step) {
    job.step(step);
    elastic::StepInfo info = job.info(step);
    expected.program().apply(info, job.gradient(), {});
    info.rate_factor = factors[static_cast<std::size_t>(step)];
    scaled.program().apply(info, job.gradient(), {});
    EXPECT_EQ(scaled.state(), expected.state()) << "step " << step;
  }
}

TEST_F(TorchProgramTest, TheRateFactorMultipliesTheScheduleToo) {
  ProgramSpec spec;
  spec.rate = [](std::int64_t step) { return 0.01 * static_cast<double>(step + 1); };
  EmulatedJob job([&] { return make_program(spec); }, {2});
  EmulatedWorker scaled(make_program(spec));
  spec.rate = [](std::int64_t step) { return 0.04 * static_cast<double>(step + 1); };
  EmulatedWorker expected(make_program(spec));
  for (std::int64_t step = 0; step < 4; ++step) {
    job.step(step);
    elastic::StepInfo info = job.info(step);
    expected.program().apply(info, job.gradient(), {});
    info.rate_factor = 4.0;
    scaled.program().apply(info, job.gradient(), {});
  }
  EXPECT_EQ(scaled.state(), expected.state());
}

TEST_F(TorchProgramTest, PrefetchReachesTheUser) {
  EXPECT_FALSE(make_program({})->wants_prefetch());
  std::vector<std::int64_t> told;
  torch::nn::Sequential model = make_model(ModelKind::kMlp);
  const auto program =
      TorchProgram::make({.model = model.ptr(),
                          .optimizer = make_optimizer(OptimizerKind::kSgd, model->parameters()),
                          .samples = 10,
                          .loss = [](const Batch&) { return torch::Tensor(); },
                          .prefetch =
                              [&](std::span<const std::int64_t> samples) {
                                told.assign(samples.begin(), samples.end());
                              }},
                         {});
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE((*program)->wants_prefetch());
  const std::vector<std::int64_t> ids{3, 1, 4};
  (*program)->prefetch(ids);
  EXPECT_EQ(told, ids);
}

std::string optimizer_name(const testing::TestParamInfo<OptimizerKind>& tested) {
  static const std::vector<std::string> names = {"Sgd",     "Momentum", "Adam",   "AdamW",
                                                 "Amsgrad", "RmsProp",  "Adagrad"};
  return names[static_cast<std::size_t>(tested.param)];
}
INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOptimizer,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                         OptimizerKind::kAdam, OptimizerKind::kAdamW,
                                         OptimizerKind::kAmsgrad, OptimizerKind::kRmsProp,
                                         OptimizerKind::kAdagrad),
                         optimizer_name);

TEST_F(TorchProgramTest, PrivateStateDoesNotDependOnHosting) {
  const ProgramSpec spec{.model = ModelKind::kCnn, .samples = 90};
  std::string expected_private;
  const std::string expected = run(spec, {8}, 7, &expected_private);
  for (const std::vector<int>& sizes : {std::vector<int>{4, 4}, {3, 3, 2}, {2, 5, 1}}) {
    std::string private_state;
    EXPECT_EQ(run(spec, sizes, 7, &private_state), expected);
    EXPECT_EQ(private_state, expected_private);
  }
  // Logical workers saw different samples, so their statistics differ.
  const std::size_t one = expected_private.size() / 8;
  EXPECT_NE(expected_private.substr(0, one), expected_private.substr(one, one));
}

TEST_F(TorchProgramTest, SoloEqualsWorkers) {
  const ProgramSpec spec{.model = ModelKind::kCnn, .optimizer = OptimizerKind::kAdam};
  auto program = make_program(spec);
  Solo solo(*program, 6);
  for (std::int64_t step = 0; step < 5; ++step) solo.step(step);
  EmulatedJob job([&] { return make_program(spec); }, {2, 4});
  for (std::int64_t step = 0; step < 5; ++step) job.step(step);
  EXPECT_EQ(program->parameter_bytes(), job.worker(0).program().parameter_bytes());
}

TEST_F(TorchProgramTest, APaceTakesTimeAndChangesNoBit) {
  const auto pace = std::chrono::milliseconds(5);
  const auto start = std::chrono::steady_clock::now();
  const std::string paced = run({.pace = pace}, {2, 1}, 4);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 4 * 3 * pace);  // steps x logical workers
  EXPECT_EQ(paced, run({}, {2, 1}, 4));
}

TEST_F(TorchProgramTest, EmptyBatchLeavesZeroAndPrivateState) {
  EmulatedWorker worker(make_program({.model = ModelKind::kCnn}));
  TorchProgram& program = worker.program();
  float* const gradient = worker.buffer(0);
  gradient[0] = 5;
  const AlignedMemory before(program.shape().private_bytes);
  const AlignedMemory after(program.shape().private_bytes);
  program.initial_private(before.bytes());
  double loss = 1;
  program.compute({.samples = {}, .weight = 0}, before.bytes(), after.bytes(), loss, 0, false);
  program.settle();
  program.publish(0);
  EXPECT_EQ(loss, 0.0);
  for (std::size_t i = 0; i < program.shape().gradient_floats; ++i) ASSERT_EQ(gradient[i], 0.0F);
  EXPECT_TRUE(std::equal(before.bytes().begin(), before.bytes().end(), after.bytes().begin()));
}

// On a device, results stay there until somebody needs them, whatever happens in between.
TEST_F(TorchProgramTest, ResultsThatAreFetchedLateAreTheSame) {
  const auto train = [](bool separate, bool late) {
    EmulatedWorker worker(
        make_program({.model = ModelKind::kCnn, .samples = 90, .separate_memory = separate}));
    TorchProgram& program = worker.program();
    elastic::DataOrder::Options options = program.data();
    options.logical_workers = 2;
    const elastic::DataOrder order(options);
    // Two slots for each of two logical workers, as on the board.
    std::vector<AlignedMemory> places;
    std::array<double, 4> losses{};
    for (int i = 0; i < 4; ++i) {
      program.initial_private(places.emplace_back(program.shape().private_bytes).bytes());
    }
    elastic::MiniBatch batch;
    std::string seen;
    for (std::int64_t step = 0; step < 14; ++step) {
      const bool repeated = step % 5 == 2;  // as if it had been interrupted
      for (int attempt = repeated ? 0 : 1; attempt < 2; ++attempt) {
        for (int logical = 0; logical < 2; ++logical) {
          order.share(step, logical, batch);
          const auto before = static_cast<std::size_t>(2 * logical + step % 2);
          const auto after = static_cast<std::size_t>(2 * logical + (step + 1) % 2);
          program.compute(batch, places[before].bytes(), places[after].bytes(), losses[after], 0,
                          logical == 1);
          if (!late) program.settle();
        }
      }
      program.apply_buffer({.step = step}, 0, 0.5F);
      if (step % 6 != 5) continue;
      program.settle();
      for (const AlignedMemory& place : places) {
        seen.append(reinterpret_cast<const char*>(place.bytes().data()), place.bytes().size());
      }
      for (const double loss : losses) seen += std::to_string(loss) + " ";
      // As if another worker had computed this one meanwhile: the host's content counts.
      std::copy_n(places[0].bytes().begin(), places[0].bytes().size(), places[2].bytes().begin());
    }
    return seen + worker.state();
  };
  const std::string expected = train(false, false);
  EXPECT_EQ(train(true, false), expected);
  EXPECT_EQ(train(true, true), expected);
}

// The weight of a short last step scales the gradient, not the reported loss.
TEST_F(TorchProgramTest, WeightScalesTheGradient) {
  EmulatedWorker worker(make_program({.model = ModelKind::kMlp}));
  TorchProgram& program = worker.program();
  const float* const whole = worker.buffer(0);
  const float* const half = worker.buffer(1);
  elastic::MiniBatch batch{.samples = {1, 2, 3}, .random_seed = 5};
  double loss = 0;
  program.compute(batch, {}, {}, loss, 0, false);
  batch.weight = 0.5;
  double same_loss = 0;
  program.compute(batch, {}, {}, same_loss, 1, false);
  program.publish(0);
  program.publish(1);
  EXPECT_GT(loss, 0);
  EXPECT_EQ(same_loss, loss);
  for (std::size_t i = 0; i < program.shape().gradient_floats; ++i) {
    ASSERT_EQ(half[i], 0.5F * whole[i]);
  }
}

TEST_F(TorchProgramTest, FrozenAndUnusedParameters) {
  const auto make = [](bool use_second) {
    torch::manual_seed(1);
    auto frozen = torch::nn::Linear(4, 4);
    auto second = torch::nn::Linear(4, 4);
    torch::nn::Sequential model(frozen, second);
    for (auto& p : frozen->parameters()) p.set_requires_grad(false);
    auto unused = model->register_parameter("unused", torch::ones({3}));
    return std::make_pair(model, [=](const Batch& b) mutable {
      const torch::Tensor x = torch::ones({static_cast<std::int64_t>(b.samples.size()), 4});
      torch::Tensor loss = second->forward(frozen->forward(x)).pow(2).mean();
      // Only some logical workers use it.
      if (use_second && b.logical % 2 == 1) loss = loss + unused.sum();
      return loss;
    });
  };
  const auto maker = [&] {
    auto [model, loss] = make(true);
    auto program =
        TorchProgram::make({.model = model.ptr(),
                            .optimizer = make_optimizer(OptimizerKind::kAdamW, model->parameters()),
                            .samples = 40,
                            .loss = loss},
                           {.batch = 2});
    EXPECT_TRUE(program.ok()) << program.error().message;
    return std::move(*program);
  };
  const auto state = [&](const std::vector<int>& sizes) {
    EmulatedJob job(maker, sizes);
    for (std::int64_t step = 0; step < 4; ++step) job.step(step);
    return job.worker(0).state();
  };
  EXPECT_EQ(state({4}), state({1, 2, 1}));
  EmulatedWorker worker(maker());
  EXPECT_EQ(worker.unit_count(), 5U);
  EXPECT_EQ(worker.program().shape().gradient_floats, 3U + 16U + 4U);
}

TEST_F(TorchProgramTest, RefusesWhatItCannotCarry) {
  const auto loss = [](const Batch&) { return torch::zeros({}); };
  const auto error = [&](const torch::nn::Sequential& model,
                         std::shared_ptr<torch::optim::Optimizer> optimizer) {
    auto program = TorchProgram::make(
        {.model = model.ptr(), .optimizer = std::move(optimizer), .samples = 4, .loss = loss}, {});
    return program.ok() ? std::string("no error") : program.error().message;
  };
  torch::nn::Sequential model(torch::nn::Linear(2, 2));
  EXPECT_NE(error(model, std::make_shared<torch::optim::LBFGS>(model->parameters()))
                .find("LBFGS is not known"),
            std::string::npos);
  torch::nn::Sequential other(torch::nn::Linear(2, 2));
  EXPECT_NE(error(model, make_optimizer(OptimizerKind::kSgd, other->parameters()))
                .find("not one of the model's"),
            std::string::npos);
  model->to(torch::kFloat64);
  EXPECT_NE(error(model, make_optimizer(OptimizerKind::kSgd, model->parameters()))
                .find("parameter 0.weight is Double; only float32"),
            std::string::npos);
}

TEST_F(TorchProgramTest, LossWithoutGradientIsExplained) {
  torch::nn::Sequential model(torch::nn::Linear(2, 2));
  auto program =
      TorchProgram::make({.model = model.ptr(),
                          .optimizer = make_optimizer(OptimizerKind::kSgd, model->parameters()),
                          .samples = 4,
                          .loss = [](const Batch&) { return torch::zeros({3}); }},
                         {});
  ASSERT_TRUE(program.ok());
  EmulatedWorker worker(std::move(*program));
  worker.buffer(0);
  double loss = 0;
  EXPECT_THROW(worker.program().compute({.samples = {1}}, {}, {}, loss, 0, false),
               std::runtime_error);
}

TEST_F(TorchProgramTest, FingerprintIsSortedAndStable) {
  const auto traits = environment_traits(torch::kCPU);
  EXPECT_TRUE(std::is_sorted(traits.begin(), traits.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  EXPECT_EQ(traits, environment_traits(torch::kCPU));
}

}  // namespace
}  // namespace rubato::train
