// The per-parameter state of a LibTorch optimizer, as a step count and a fixed list of tensors of
// the parameter's shape:
//   SGD      momentum buffer, if momentum != 0
//   Adam(W)  first and second moment; with amsgrad also the maximum of the second
//   RMSprop  mean square, then momentum buffer and mean gradient if used
//   Adagrad  sum of squares
//   others   what OptimizerStateRules says
// LibTorch creates the state of a parameter at its first update (Adagrad: at construction).
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "rubato/train.h"

namespace rubato::train {

class OptimizerState {
 public:
  // An error if the class of the optimizer is not supported and there are no rules for it.
  static Result<OptimizerState> make(std::shared_ptr<torch::optim::Optimizer> optimizer,
                                     const OptimizerStateRules& own = {});

  // The number of tensors in the parameter's state once it exists; 0 for a parameter that the
  // optimizer does not update.
  std::size_t tensor_count(const torch::Tensor& parameter) const;
  bool exists(const torch::Tensor& parameter) const;
  // For existing state. The pointers are valid until the state is replaced or removed.
  std::vector<torch::Tensor*> tensors(const torch::Tensor& parameter) const;
  std::int64_t step(const torch::Tensor& parameter) const;  // 0 if the optimizer has no step count
  // Replaces or creates the state.
  void create(const torch::Tensor& parameter, std::int64_t step,
              std::span<const torch::Tensor> tensors);
  // Restores the situation before the first update.
  void remove(const torch::Tensor& parameter);

 private:
  using State = torch::optim::OptimizerParamState;
  // How to treat the states of one class of optimizer.
  struct Rules {
    std::function<std::unique_ptr<State>()> make;
    std::function<std::vector<torch::Tensor*>(State&, const torch::optim::OptimizerOptions&)>
        tensors;
    std::function<std::int64_t(State&)> step;
    std::function<void(State&, std::int64_t)> set_step;
  };
  template <typename Options, typename ParamState>
  static Rules rules_for();
  static Rules rules_of(const OptimizerStateRules& own);
  OptimizerState(std::shared_ptr<torch::optim::Optimizer> optimizer, Rules rules);

  State* find(const torch::Tensor& parameter) const;
  const torch::optim::OptimizerOptions* options(const torch::Tensor& parameter) const;

  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Rules rules_;
  std::unordered_map<const void*, std::size_t> group_;  // index of each parameter's group
};

}  // namespace rubato::train
