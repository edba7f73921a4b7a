// Wraps a program as if it ran on a device: its state is outside the memory that others read, and
// the results of a computation arrive only when requested. Tests without a GPU thus exercise what
// the runtime does for one.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "elastic/worker/program.h"

namespace rubato::elastic {

class ToyDevice final : public Program {
 public:
  explicit ToyDevice(Program& inner) : inner_(inner) {}

  const ProgramShape& shape() const override { return inner_.shape(); }
  DataOrder::Options data() const override { return inner_.data(); }
  void bind_state(std::span<const std::span<std::byte>> units) override {
    host_.assign(units.begin(), units.end());
    std::vector<std::span<std::byte>> spans;
    for (const std::span<std::byte> unit : units) device_.emplace_back(unit.size());
    for (auto& unit : device_) spans.emplace_back(unit);
    inner_.bind_state(spans);
    for (std::size_t k = 0; k < host_.size(); ++k) store_unit(k);
  }
  void unit_replaced(std::size_t unit) override {
    std::copy(host_[unit].begin(), host_[unit].end(), device_[unit].begin());
    inner_.unit_replaced(unit);
  }
  bool state_in_host_memory() const override { return false; }
  void store_unit(std::size_t unit) override {
    std::copy(device_[unit].begin(), device_[unit].end(), host_[unit].begin());
  }
  void initial_private(std::span<std::byte> out) override { inner_.initial_private(out); }
  void bind_buffer(int index, float* memory) override {
    auto& buffer = buffers_[index];
    buffer.first = memory;
    buffer.second.resize(shape().gradient_floats);
    inner_.bind_buffer(index, buffer.second.data());
  }
  void compute(const MiniBatch& batch, std::span<const std::byte> before,
               std::span<std::byte> after, double& loss, int buffer, bool accumulate) override {
    const auto found = late_.find(before.data());
    const std::vector<std::byte> state = found == late_.end()
                                             ? std::vector<std::byte>(before.begin(), before.end())
                                             : found->second.state;
    Result result{std::vector<std::byte>(after.size()), after, 0, &loss};
    inner_.compute(batch, state, result.state, result.value, buffer, accumulate);
    late_[after.data()] = std::move(result);
  }
  void settle() override {
    for (const auto& [place, result] : late_) {
      std::copy(result.state.begin(), result.state.end(), result.after.begin());
      *result.loss = result.value;
    }
    late_.clear();
  }
  void merge(int into, int from) override { inner_.merge(into, from); }
  void publish(int buffer) override {
    const auto& [memory, content] = buffers_.at(buffer);
    std::copy(content.begin(), content.end(), memory);
  }
  void apply(const StepInfo& info, const float* gradient,
             std::span<const std::uint8_t> update) override {
    inner_.apply(info, gradient, update);
  }
  void apply_buffer(const StepInfo& info, int buffer, float scale) override {
    inner_.apply_buffer(info, buffer, scale);
  }
  std::vector<Trait> fingerprint() const override { return inner_.fingerprint(); }

 private:
  struct Result {
    std::vector<std::byte> state;
    std::span<std::byte> after;
    double value = 0;
    double* loss = nullptr;
  };
  Program& inner_;
  std::vector<std::span<std::byte>> host_;
  std::vector<std::vector<std::byte>> device_;
  std::map<int, std::pair<float*, std::vector<float>>> buffers_;  // host memory, content
  std::map<const std::byte*, Result> late_;                       // by `after`
};

}  // namespace rubato::elastic
