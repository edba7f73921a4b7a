#include "train/optimizer_state.h"

#include <c10/util/Type.h>
#include <torch/optim.h>

#include <cstdlib>
#include <string>
#include <typeinfo>
#include <utility>

#include "base/check.h"
#include "train/torch_compat.h"

namespace rubato::train {
namespace {

using torch::Tensor;
namespace optim = torch::optim;

// The tensors of a state, given the options of its parameter group. The order is part of the format
// of units and checkpoints.
std::vector<Tensor*> fields(optim::SGDParamState& state, const optim::SGDOptions& options) {
  if (options.momentum() == 0) return {};
  return {&state.momentum_buffer()};
}
template <typename State, typename Options>
std::vector<Tensor*> adam_fields(State& state, const Options& options) {
  std::vector<Tensor*> result{&state.exp_avg(), &state.exp_avg_sq()};
  if (options.amsgrad()) result.push_back(&state.max_exp_avg_sq());
  return result;
}
std::vector<Tensor*> fields(optim::AdamParamState& state, const optim::AdamOptions& options) {
  return adam_fields(state, options);
}
std::vector<Tensor*> fields(optim::AdamWParamState& state, const optim::AdamWOptions& options) {
  return adam_fields(state, options);
}
std::vector<Tensor*> fields(optim::RMSpropParamState& state, const optim::RMSpropOptions& options) {
  std::vector<Tensor*> result{&state.square_avg()};
  if (options.momentum() > 0) result.push_back(&state.momentum_buffer());
  if (options.centered()) result.push_back(&state.grad_avg());
  return result;
}
std::vector<Tensor*> fields(optim::AdagradParamState& state, const optim::AdagradOptions&) {
  return {&state.sum()};
}

template <typename State>
std::int64_t get_step(const State& state) {
  if constexpr (requires { state.step(); }) {
    return state.step();
  } else {
    return 0;
  }
}
template <typename State>
void set_step(State& state, std::int64_t step) {
  if constexpr (requires { state.step(); }) state.step(step);
}

}  // namespace

template <typename Visitor>
auto OptimizerState::visit(Visitor visitor) const {
  switch (kind_) {
    case Kind::kSgd:
      return visitor.template operator()<optim::SGDOptions, optim::SGDParamState>();
    case Kind::kAdam:
      return visitor.template operator()<optim::AdamOptions, optim::AdamParamState>();
    case Kind::kAdamW:
      return visitor.template operator()<optim::AdamWOptions, optim::AdamWParamState>();
    case Kind::kRmsProp:
      return visitor.template operator()<optim::RMSpropOptions, optim::RMSpropParamState>();
    case Kind::kAdagrad:
      return visitor.template operator()<optim::AdagradOptions, optim::AdagradParamState>();
  }
  std::abort();
}

Result<OptimizerState> OptimizerState::make(std::shared_ptr<optim::Optimizer> optimizer) {
  optim::Optimizer* const o = optimizer.get();
  if (o == nullptr) {
    return invalid_input("training: no optimizer; set Training::optimizer");
  }
  // Check the exact class: a subclass may keep state that we would not transfer.
  const std::type_info& type = typeid(*o);
  if (type == typeid(optim::SGD)) return OptimizerState(std::move(optimizer), Kind::kSgd);
  if (type == typeid(optim::Adam)) return OptimizerState(std::move(optimizer), Kind::kAdam);
  if (type == typeid(optim::AdamW)) return OptimizerState(std::move(optimizer), Kind::kAdamW);
  if (type == typeid(optim::RMSprop)) return OptimizerState(std::move(optimizer), Kind::kRmsProp);
  if (type == typeid(optim::Adagrad)) return OptimizerState(std::move(optimizer), Kind::kAdagrad);
  return invalid_input(
      std::string("training: the optimizer class ") + c10::demangle(type.name()) +
      " is not supported, because the runtime must transfer its state from worker to "
      "worker; use SGD, Adam, AdamW, RMSprop or Adagrad");
}

OptimizerState::OptimizerState(std::shared_ptr<optim::Optimizer> optimizer, Kind kind)
    : optimizer_(std::move(optimizer)), kind_(kind) {
  for (std::size_t g = 0; g < optimizer_->param_groups().size(); ++g) {
    for (const Tensor& parameter : optimizer_->param_groups()[g].params()) {
      group_.emplace(parameter.unsafeGetTensorImpl(), g);
    }
  }
}

optim::OptimizerParamState* OptimizerState::find(const Tensor& parameter) const {
  const auto it = optimizer_->state().find(compat::state_key(parameter));
  return it == optimizer_->state().end() ? nullptr : it->second.get();
}

const optim::OptimizerOptions* OptimizerState::options(const Tensor& parameter) const {
  const auto it = group_.find(parameter.unsafeGetTensorImpl());
  return it == group_.end() ? nullptr : &optimizer_->param_groups()[it->second].options();
}

std::size_t OptimizerState::tensor_count(const Tensor& parameter) const {
  const optim::OptimizerOptions* const group = options(parameter);
  if (group == nullptr) return 0;
  return visit([&]<typename Options, typename State>() {
    State state;
    return fields(state, static_cast<const Options&>(*group)).size();
  });
}

bool OptimizerState::exists(const Tensor& parameter) const { return find(parameter) != nullptr; }

std::vector<Tensor*> OptimizerState::tensors(const Tensor& parameter) const {
  return visit([&]<typename Options, typename State>() {
    return fields(static_cast<State&>(*find(parameter)),
                  static_cast<const Options&>(*options(parameter)));
  });
}

std::int64_t OptimizerState::step(const Tensor& parameter) const {
  return visit([&]<typename Options, typename State>() {
    return get_step(static_cast<const State&>(*find(parameter)));
  });
}

void OptimizerState::create(const Tensor& parameter, std::int64_t step,
                            std::span<const Tensor> tensors) {
  visit([&]<typename Options, typename State>() {
    auto state = std::make_unique<State>();
    set_step(*state, step);
    const std::vector<Tensor*> targets =
        fields(*state, static_cast<const Options&>(*options(parameter)));
    RUBATO_CHECK(targets.size() == tensors.size(),
                 "optimizer state with the wrong number of tensors");
    for (std::size_t i = 0; i < targets.size(); ++i) *targets[i] = tensors[i];
    optimizer_->state()[compat::state_key(parameter)] = std::move(state);
  });
}

void OptimizerState::remove(const Tensor& parameter) {
  optimizer_->state().erase(compat::state_key(parameter));
}

}  // namespace rubato::train
