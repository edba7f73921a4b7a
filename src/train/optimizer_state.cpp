#include "train/optimizer_state.h"

#include <c10/util/Type.h>
#include <torch/optim.h>

#include <memory>
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

template <typename Options, typename ParamState>
OptimizerState::Rules OptimizerState::rules_for() {
  return {.make = [] { return std::make_unique<ParamState>(); },
          .tensors =
              [](State& state, const optim::OptimizerOptions& options) {
                return fields(static_cast<ParamState&>(state),
                              static_cast<const Options&>(options));
              },
          .step = [](State& state) { return get_step(static_cast<const ParamState&>(state)); },
          .set_step = [](State& state,
                         std::int64_t step) { set_step(static_cast<ParamState&>(state), step); }};
}

OptimizerState::Rules OptimizerState::rules_of(const OptimizerStateRules& own) {
  return {.make = own.make,
          .tensors = [tensors = own.tensors](
                         State& state, const optim::OptimizerOptions&) { return tensors(state); },
          .step = [steps = own.steps](State& state) { return steps ? *steps(state) : 0; },
          .set_step =
              [steps = own.steps](State& state, std::int64_t step) {
                if (steps) *steps(state) = step;
              }};
}

Result<OptimizerState> OptimizerState::make(std::shared_ptr<optim::Optimizer> optimizer,
                                            const OptimizerStateRules& own) {
  optim::Optimizer* const o = optimizer.get();
  if (o == nullptr) {
    return invalid_input("training: no optimizer; set Training::optimizer");
  }
  if (static_cast<bool>(own.make) != static_cast<bool>(own.tensors)) {
    return invalid_input(
        "training: Training::optimizer_state has only one of make and tensors; use "
        "rubato::keeps()");
  }
  const auto with = [&](Rules rules) {
    return OptimizerState(std::move(optimizer), std::move(rules));
  };
  if (own.make) return with(rules_of(own));
  // Check the exact class: a subclass may keep state that we would not transfer.
  const std::type_info& type = typeid(*o);
  if (type == typeid(optim::SGD)) return with(rules_for<optim::SGDOptions, optim::SGDParamState>());
  if (type == typeid(optim::Adam)) {
    return with(rules_for<optim::AdamOptions, optim::AdamParamState>());
  }
  if (type == typeid(optim::AdamW)) {
    return with(rules_for<optim::AdamWOptions, optim::AdamWParamState>());
  }
  if (type == typeid(optim::RMSprop)) {
    return with(rules_for<optim::RMSpropOptions, optim::RMSpropParamState>());
  }
  if (type == typeid(optim::Adagrad)) {
    return with(rules_for<optim::AdagradOptions, optim::AdagradParamState>());
  }
  return invalid_input(
      std::string("training: the optimizer class ") + c10::demangle(type.name()) +
      " is not known, and the runtime must transfer its state from worker to worker; say what it "
      "keeps (Training::optimizer_state), or use SGD, Adam, AdamW, RMSprop or Adagrad");
}

OptimizerState::OptimizerState(std::shared_ptr<optim::Optimizer> optimizer, Rules rules)
    : optimizer_(std::move(optimizer)), rules_(std::move(rules)) {
  for (std::size_t g = 0; g < optimizer_->param_groups().size(); ++g) {
    for (const Tensor& parameter : optimizer_->param_groups()[g].params()) {
      group_.emplace(parameter.unsafeGetTensorImpl(), g);
    }
  }
}

OptimizerState::State* OptimizerState::find(const Tensor& parameter) const {
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
  const std::unique_ptr<State> example = rules_.make();
  return rules_.tensors(*example, *group).size();
}

bool OptimizerState::exists(const Tensor& parameter) const { return find(parameter) != nullptr; }

std::vector<Tensor*> OptimizerState::tensors(const Tensor& parameter) const {
  return rules_.tensors(*find(parameter), *options(parameter));
}

std::int64_t OptimizerState::step(const Tensor& parameter) const {
  return rules_.step(*find(parameter));
}

void OptimizerState::create(const Tensor& parameter, std::int64_t step,
                            std::span<const Tensor> tensors) {
  std::unique_ptr<State> state = rules_.make();
  rules_.set_step(*state, step);
  const std::vector<Tensor*> targets = rules_.tensors(*state, *options(parameter));
  RUBATO_CHECK(targets.size() == tensors.size(),
               "optimizer state with the wrong number of tensors");
  for (std::size_t i = 0; i < targets.size(); ++i) *targets[i] = tensors[i];
  optimizer_->state()[compat::state_key(parameter)] = std::move(state);
}

void OptimizerState::remove(const Tensor& parameter) {
  optimizer_->state().erase(compat::state_key(parameter));
}

}  // namespace rubato::train
