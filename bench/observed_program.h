// A training program under observation: forwards every call to another one, reports when a step
// begins, and adds up the time spent in each kind of call. The rest of a step's time is the
// runtime's own loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "elastic/worker/program.h"

namespace bench {

class ObservedProgram final : public rubato::elastic::Program {
 public:
  struct Seconds {
    double compute = 0;
    double settle = 0;  // waiting for a device
    double update = 0;
    double other = 0;  // merges, copies for other workers
  };

  // `step_begins` is called at the beginning of every step, `computed` (if given) after each
  // mini-batch; neither is included in the times.
  ObservedProgram(Program& inner, std::function<void(std::int64_t step)> step_begins,
                  std::function<void()> computed = {})
      : inner_(inner), step_begins_(std::move(step_begins)), computed_(std::move(computed)) {}

  const Seconds& seconds() const { return seconds_; }
  void forget_times() { seconds_ = {}; }

  const rubato::elastic::ProgramShape& shape() const override { return inner_.shape(); }
  rubato::elastic::DataOrder::Options data() const override { return inner_.data(); }
  void bind_state(std::span<const std::span<std::byte>> units) override {
    inner_.bind_state(units);
  }
  void unit_replaced(std::size_t unit) override { inner_.unit_replaced(unit); }
  bool state_in_host_memory() const override { return inner_.state_in_host_memory(); }
  void store_unit(std::size_t unit) override {
    timed(seconds_.other, [&] { inner_.store_unit(unit); });
  }
  void initial_private(std::span<std::byte> out) override { inner_.initial_private(out); }
  void bind_buffer(int index, float* memory) override { inner_.bind_buffer(index, memory); }
  void compute(const rubato::elastic::MiniBatch& batch, std::span<const std::byte> before,
               std::span<std::byte> after, double& loss, int buffer, bool accumulate) override {
    if (batch.step != step_) step_begins_(batch.step);
    step_ = batch.step;
    timed(seconds_.compute,
          [&] { inner_.compute(batch, before, after, loss, buffer, accumulate); });
    if (computed_) computed_();
  }
  void settle() override {
    timed(seconds_.settle, [&] { inner_.settle(); });
  }
  void merge(int into, int from) override {
    timed(seconds_.other, [&] { inner_.merge(into, from); });
  }
  void publish(int buffer) override {
    timed(seconds_.other, [&] { inner_.publish(buffer); });
  }
  void apply(const rubato::elastic::StepInfo& info, const float* gradient,
             std::span<const std::uint8_t> update) override {
    timed(seconds_.update, [&] { inner_.apply(info, gradient, update); });
  }
  void apply_buffer(const rubato::elastic::StepInfo& info, int buffer, float scale) override {
    timed(seconds_.update, [&] { inner_.apply_buffer(info, buffer, scale); });
  }
  std::vector<Trait> fingerprint() const override { return inner_.fingerprint(); }

 private:
  template <typename Work>
  static void timed(double& sum, const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Program& inner_;
  std::function<void(std::int64_t)> step_begins_;
  std::function<void()> computed_;
  std::int64_t step_ = -1;
  Seconds seconds_;
};

}  // namespace bench
