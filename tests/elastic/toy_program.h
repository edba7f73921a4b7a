// A training program without LibTorch, for tests of the runtime: a few vectors with momentum and
// noisy gradients that depend on everything that must be reproduced (state, samples, seed, private
// state).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "elastic/data/reduction_tree.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

class ToyProgram final : public Program {
 public:
  struct Options {
    std::size_t floats = 64;  // per unit
    std::size_t units = 5;
    std::int64_t samples = 100;
    std::int64_t batch = 3;
    std::uint64_t seed = 1;
    int compute_us = 0;  // sleep per mini-batch, in place of computing
    // Once this file exists, mini-batches take no time. A job can thus be long enough for whatever
    // a test does to it on a busy machine, and still end soon afterwards. Empty: never.
    std::string hurry_file;
    std::string trait = "toy";
    // A file that describes a fault of a worker, read in every mini-batch:
    //   slow WORKER FACTOR | throw WORKER STEP | exit WORKER STEP | hang WORKER STEP
    // (-1: all workers; the fault begins at that step; a hanging worker continues when the file no
    // longer says so). Empty: none.
    std::string fault_file;
    // Where to log prefetched samples, one line per call; "throw": fail. Empty: not wanted.
    std::string prefetch;
    // Where every worker adds a line for every update: seconds since 1970, worker, step. Empty:
    // not.
    std::string trace;
    int worker = -1;
  };
  explicit ToyProgram(const Options& options) : options_(options) {
    shape_.gradient_floats = options.floats * options.units;
    shape_.unit_bytes.assign(options.units, 2 * options.floats * sizeof(float));
    shape_.private_bytes = kPrivate * sizeof(double);
    buffers_.resize(64);
  }

  const ProgramShape& shape() const override { return shape_; }
  DataOrder::Options data() const override {
    return {.seed = options_.seed, .samples = options_.samples, .batch = options_.batch};
  }
  void bind_state(std::span<const std::span<std::byte>> units) override {
    Random random(options_.seed);
    for (const std::span<std::byte> unit : units) {
      auto* values = reinterpret_cast<float*>(unit.data());
      units_.push_back(values);
      for (std::size_t i = 0; i < options_.floats; ++i) {
        values[i] = static_cast<float>(random.normal());
        values[options_.floats + i] = 0;
      }
    }
  }
  void unit_replaced(std::size_t) override {}
  void initial_private(std::span<std::byte> out) override {
    const std::vector<double> zero(kPrivate, 0.25);
    std::memcpy(out.data(), zero.data(), out.size());
  }
  void bind_buffer(int index, float* memory) override {
    buffers_[static_cast<std::size_t>(index)] = memory;
  }
  void compute(const MiniBatch& batch, std::span<const std::byte> before,
               std::span<std::byte> after, double& loss, int buffer, bool accumulate) override {
    std::vector<double> own(kPrivate);
    std::memcpy(own.data(), before.data(), before.size());
    Random random(batch.random_seed);
    double sum = 0;
    for (const std::int64_t sample : batch.samples) sum += static_cast<double>(sample % 17) / 17.0;
    for (double& value : own) value = 0.9 * value + 0.1 * (sum + random.uniform());
    std::memcpy(after.data(), own.data(), after.size());
    float* gradient = memory_of(buffer);
    loss = 0;
    for (std::size_t u = 0; u < options_.units; ++u) {
      for (std::size_t i = 0; i < options_.floats; ++i) {
        const std::size_t at = u * options_.floats + i;
        const float difference =
            units_[u][i] - static_cast<float>(own[at % kPrivate] + 0.1 * random.uniform());
        loss += static_cast<double>(difference) * difference;
        const float value =
            batch.samples.empty() ? 0.0F : static_cast<float>(batch.weight) * difference * 0.37F;
        gradient[at] = accumulate ? gradient[at] + value : value;
      }
    }
    const double slowness = fault(batch.step);
    if (options_.compute_us > 0 && !hurries()) {
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::micro>(options_.compute_us * slowness));
    }
  }
  bool wants_prefetch() const override { return !options_.prefetch.empty(); }
  void prefetch(std::span<const std::int64_t> samples) override {
    if (options_.prefetch == "throw") throw std::runtime_error("nothing can be read ahead");
    std::string line = "[";
    for (const std::int64_t sample : samples) {
      line += (line.size() > 1 ? "," : "") + std::to_string(sample);
    }
    std::ofstream(options_.prefetch, std::ios::app) << line + "]\n" << std::flush;
  }
  void merge(int into, int from) override {
    add_into(memory_of(into), memory_of(from), shape_.gradient_floats);
  }
  void apply(const StepInfo& info, const float* gradient,
             std::span<const std::uint8_t> update) override {
    if (!options_.trace.empty()) trace(info.step);
    const float rate = static_cast<float>(info.rate_factor) * 0.1F /
                       (1.0F + 0.01F * static_cast<float>(info.step));
    for (std::size_t u = 0; u < options_.units; ++u) {
      if (!update.empty() && update[u] == 0) continue;
      float* value = units_[u];
      float* momentum = value + options_.floats;
      for (std::size_t i = 0; i < options_.floats; ++i) {
        momentum[i] = 0.9F * momentum[i] + gradient[u * options_.floats + i];
        value[i] -= rate * momentum[i];
      }
    }
  }
  void apply_buffer(const StepInfo& info, int buffer, float scale) override {
    float* gradient = memory_of(buffer);
    for (std::size_t i = 0; i < shape_.gradient_floats; ++i) gradient[i] *= scale;
    apply(info, gradient, {});
  }
  std::vector<Trait> fingerprint() const override { return {{"arithmetic", options_.trait}}; }

 private:
  void trace(std::int64_t step) const {
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    char line[96];
    const int length = std::snprintf(line, sizeof line, "%.6f %d %lld\n", now, options_.worker,
                                     static_cast<long long>(step));
    const int file =
        ::open(options_.trace.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || ::write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
    ::close(file);
  }
  // Memory of a buffer; if it is never published, memory of this program.
  float* memory_of(int buffer) {
    const auto index = static_cast<std::size_t>(buffer);
    if (buffers_[index] == nullptr) {
      buffers_[index] = partial_sums_.emplace_back(shape_.gradient_floats).data();
    }
    return buffers_[index];
  }
  bool hurries() const {
    return !options_.hurry_file.empty() && access(options_.hurry_file.c_str(), F_OK) == 0;
  }
  // How many times slower than usual.
  double fault(std::int64_t step) const {
    double slowness = fault_now(step);
    while (slowness < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      slowness = fault_now(step);
    }
    return slowness;
  }
  // Negative: it hangs.
  double fault_now(std::int64_t step) const {
    if (options_.fault_file.empty()) return 1;
    std::ifstream file(options_.fault_file);
    std::string what;
    int worker = -1;
    double value = 0;
    if (!(file >> what >> worker >> value)) return 1;
    if (worker >= 0 && worker != options_.worker) return 1;
    if (what == "slow") return value;
    if (static_cast<double>(step) < value) return 1;
    if (what == "hang") return -1;
    if (what == "throw") throw std::runtime_error("no loss for this mini-batch\nat a place");
    std::_Exit(9);
  }

  static constexpr std::size_t kPrivate = 7;
  Options options_;
  ProgramShape shape_;
  std::vector<float*> units_;
  std::vector<float*> buffers_;
  std::list<std::vector<float>> partial_sums_;
};

}  // namespace rubato::elastic
