// The state that a LibTorch optimizer keeps per parameter, as a step count and a fixed list of
// tensors of the parameter's shape:
//   SGD      momentum buffer, where momentum != 0
//   Adam(W)  first and second moment, with amsgrad the maximum of the second
//   RMSprop  mean square, then the momentum buffer and the mean gradient where they are used
//   Adagrad  sum of squares
// LibTorch creates the state of a parameter when it first updates it (Adagrad: at construction).
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace rubato::train {

class OptimizerState {
 public:
  // An error when the class of the optimizer is not known here.
  static Result<OptimizerState> make(std::shared_ptr<torch::optim::Optimizer> optimizer);

  // How many tensors the state of the parameter has once it exists; 0 for a parameter that the
  // optimizer does not update.
  std::size_t tensor_count(const torch::Tensor& parameter) const;
  bool exists(const torch::Tensor& parameter) const;
  // Of existing state. The pointers are valid until the state is created anew or removed.
  std::vector<torch::Tensor*> tensors(const torch::Tensor& parameter) const;
  std::int64_t step(const torch::Tensor& parameter) const;  // 0 where the optimizer counts none
  // Replaces or creates the state.
  void create(const torch::Tensor& parameter, std::int64_t step,
              std::span<const torch::Tensor> tensors);
  // As before the first update.
  void remove(const torch::Tensor& parameter);

 private:
  enum class Kind { kSgd, kAdam, kAdamW, kRmsProp, kAdagrad };
  OptimizerState(std::shared_ptr<torch::optim::Optimizer> optimizer, Kind kind);

  // Calls visitor.operator()<Options, State>() with the types of this kind of optimizer.
  template <typename Visitor>
  auto visit(Visitor visitor) const;
  torch::optim::OptimizerParamState* find(const torch::Tensor& parameter) const;
  const torch::optim::OptimizerOptions* options(const torch::Tensor& parameter) const;

  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Kind kind_;
  std::unordered_map<const void*, std::size_t> group_;  // of each parameter
};

}  // namespace rubato::train
