// What the runtime costs beside the same loop in plain LibTorch, alternating in one process:
//   8 logical workers on one worker    against gradient accumulation of 8 micro-batches
//   1 logical worker                   against a plain training loop
// how memory grows from 1 to 16 logical workers, in sizes of the gradient, and what consistency d2
// (the common denominator of processors) costs beside d1.
//
// usage: train_overhead [SECONDS per comparison, default 20]
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "elastic/pinned_environment.h"
#include "rubato/train.h"
#include "train/environment.h"
#include "train/solo.h"
#include "train/torch_program.h"

namespace {

using rubato::train::Solo;
using rubato::train::TorchProgram;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kSamples = 4096;

torch::Device device() { return torch::cuda::is_available() ? torch::kCUDA : torch::kCPU; }

// About 0.8 million parameters.
torch::nn::Sequential make_cnn() {
  using namespace torch::nn;
  const auto conv = [](std::int64_t in, std::int64_t out) {
    return Conv2d(Conv2dOptions(in, out, 3).padding(1).bias(false));
  };
  torch::manual_seed(1);
  return Sequential(conv(3, 32), BatchNorm2d(32), ReLU(), MaxPool2d(2), conv(32, 64),
                    BatchNorm2d(64), ReLU(), MaxPool2d(2), conv(64, 128), BatchNorm2d(128), ReLU(),
                    Flatten(), Linear(128 * 8 * 8, 64), ReLU(), Linear(64, 10));
}

struct Data {
  torch::Tensor images = torch::randn({kSamples, 3, 32, 32}).to(device());
  torch::Tensor labels = torch::randint(0, 10, {kSamples}, torch::kInt64).to(device());
};

std::shared_ptr<torch::optim::SGD> make_sgd(torch::nn::Sequential& model) {
  return std::make_shared<torch::optim::SGD>(model->parameters(),
                                             torch::optim::SGDOptions(0.01).momentum(0.9));
}

// Under the runtime.
struct Ours {
  Ours(const Data& data, int logical) {
    torch::nn::Sequential model = make_cnn();
    program = std::move(
        *TorchProgram::make({.model = model.ptr(),
                             .optimizer = make_sgd(model),
                             .samples = kSamples,
                             .loss =
                                 [=](const rubato::Batch& batch) mutable {
                                   return torch::cross_entropy_loss(
                                       model->forward(data.images.index_select(0, batch.indices)),
                                       data.labels.index_select(0, batch.indices));
                                 }},
                            {.batch = kBatch, .device = device()}));
    solo = std::make_unique<Solo>(*program, logical);
  }
  double step() { return solo->step(next++); }
  std::unique_ptr<TorchProgram> program;
  std::unique_ptr<Solo> solo;
  std::int64_t next = 0;
};

// The loop that a person would write; it reads the loss of each micro-batch, too.
struct Plain {
  Plain(const Data& all, int micro_batches) : data(all), count(micro_batches) {
    model->to(device());
    optimizer = make_sgd(model);
  }
  double step() {
    optimizer->zero_grad();
    double sum = 0;
    for (int i = 0; i < count; ++i) {
      const std::int64_t begin = (next + i) * kBatch % kSamples;
      const torch::Tensor ids =
          torch::arange(begin, begin + kBatch, torch::dtype(torch::kInt64).device(device()));
      const torch::Tensor loss = torch::cross_entropy_loss(
          model->forward(data.images.index_select(0, ids)), data.labels.index_select(0, ids));
      (count == 1 ? loss : loss / count).backward();
      sum += loss.item<double>();
    }
    optimizer->step();
    next += count;
    return sum / count;
  }
  Data data;
  int count;
  torch::nn::Sequential model = make_cnn();
  std::shared_ptr<torch::optim::SGD> optimizer;
  std::int64_t next = 0;
};

double milliseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  if (torch::cuda::is_available()) torch::cuda::synchronize();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Pairs of steps, one after the other in changing order; the median of the pairs' ratios is what
// other load on the machine disturbs least.
void compare(const char* what, const std::function<void()>& ours,
             const std::function<void()>& plain, double target, double seconds) {
  for (int i = 0; i < 3; ++i) {
    ours();
    plain();
  }
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  const auto start = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    if (a.size() % 2 == 0) {
      a.push_back(milliseconds(ours));
      b.push_back(milliseconds(plain));
    } else {
      b.push_back(milliseconds(plain));
      a.push_back(milliseconds(ours));
    }
    ratios.push_back(a.back() / b.back());
  }
  fmt::print("{:<34} {:>9.2f} ms {:>9.2f} ms   {:.4f} (target {:.2f}, {} pairs)\n", what, median(a),
             median(b), median(ratios), target, ratios.size());
}

// Bytes that only this process has.
double anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kib = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib * 1024;
}

// A model of 33 MiB, so that gradients stand out from everything else.
int print_memory(int logical) {
  torch::nn::Sequential model(torch::nn::Linear(2048, 2048), torch::nn::ReLU(),
                              torch::nn::Linear(2048, 2048), torch::nn::BatchNorm1d(2048));
  const torch::Tensor inputs = torch::randn({kBatch, 2048}).to(device());
  auto program = std::move(*TorchProgram::make(
      {.model = model.ptr(),
       .optimizer = make_sgd(model),
       .samples = kSamples,
       .loss = [&](const rubato::Batch&) { return model->forward(inputs).pow(2).mean(); }},
      {.batch = kBatch, .device = device()}));
  Solo solo(*program, logical);
  for (int i = 0; i < 3; ++i) solo.step(i);
  fmt::print("{} {} {}\n", anonymous_bytes(), program->shape().gradient_floats * sizeof(float),
             program->shape().private_bytes);
  return 0;
}

// Each count in a process of its own: an allocator does not give everything back.
void compare_memory(const std::string& self) {
  double first = 0;
  for (const int logical : {1, 2, 4, 8, 16}) {
    std::fflush(stdout);
    FILE* const child = ::popen(fmt::format("'{}' memory {}", self, logical).c_str(), "r");
    double bytes = 0;
    double gradient = 0;
    double private_bytes = 0;
    const int read = std::fscanf(child, "%lf %lf %lf", &bytes, &gradient, &private_bytes);
    if (::pclose(child) != 0 || read != 3) {
      fmt::print("the process that measures memory failed\n");
      return;
    }
    if (logical == 1) first = bytes;
    fmt::print(
        "{:>2} logical workers: {:>6.1f} MiB of memory, {:+.2f} gradients of {:.1f} MiB "
        "(target {}; private state {:.2f} MiB each)\n",
        logical, bytes / 1048576, (bytes - first) / gradient, gradient / 1048576,
        std::bit_width(static_cast<unsigned>(logical)), private_bytes / 1048576);
  }
}

int print_step_time(const Data& data) {
  Ours ours(data, 1);
  std::vector<double> times;
  for (int i = 0; i < 40; ++i) times.push_back(milliseconds([&] { ours.step(); }));
  fmt::print("{}\n", median(times));
  return 0;
}

void compare_consistency(const std::string& self) {
  std::vector<double> d1;
  std::vector<double> d2;
  for (int round = 0; round < 6; ++round) {
    const bool second = round % 2 == 1;
    FILE* const child =
        ::popen(fmt::format("'{}' step {}", self, second ? "d2" : "d1").c_str(), "r");
    double time = 0;
    const int read = std::fscanf(child, "%lf", &time);
    if (::pclose(child) != 0 || read != 1) {
      fmt::print("the process that measures consistency d2 failed\n");
      return;
    }
    (second ? d2 : d1).push_back(time);
  }
  fmt::print("{:<34} {:>9.2f} ms {:>9.2f} ms   {:.2f} times as long\n", "consistency d2 beside d1",
             median(d2), median(d1), median(d2) / median(d1));
}

}  // namespace

int main(int argc, char** argv) {
  using rubato::elastic::Consistency;
  const bool step = argc == 3 && std::string(argv[1]) == "step";
  const auto pinned = rubato::elastic::pin_environment(
      argv, step && std::string(argv[2]) == "d2" ? Consistency::kD2 : Consistency::kD1);
  if (!pinned) {
    fmt::print(stderr, "{}\n", pinned.error().message);
    return 1;
  }
  if (argc == 3 && std::string(argv[1]) == "memory") return print_memory(std::atoi(argv[2]));
  const double seconds = argc > 1 ? std::atof(argv[1]) : 20;
  rubato::train::pin_torch();
  const Data data;
  if (step) return print_step_time(data);
  fmt::print("device {}; CNN, batch {} per logical worker\n", device().str(), kBatch);
  fmt::print("{:<34} {:>12} {:>12}   ratio\n", "median step", "rubato", "plain");
  {
    Ours ours(data, 8);
    Plain plain(data, 8);
    compare(
        "8 logical workers on 1 worker", [&] { ours.step(); }, [&] { plain.step(); }, 1.02,
        seconds);
  }
  {
    Ours ours(data, 1);
    Plain plain(data, 1);
    compare(
        "1 logical worker", [&] { ours.step(); }, [&] { plain.step(); }, 1.01, seconds);
  }
  compare_memory(argv[0]);
  if (!torch::cuda::is_available()) compare_consistency(argv[0]);
  return 0;
}
