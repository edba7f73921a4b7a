// A model as a file that others read: PyTorch's own format and safetensors.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "elastic/model/tensor_place.h"

namespace rubato::elastic {

struct NamedTensor {
  std::string name;
  std::string type;  // TensorType::name
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // contiguous, little-endian
};

// The tensors of a model, by a function that gives the memory of a place. Those that are not
// contiguous are copied.
class NamedTensors {
 public:
  using Memory = std::function<std::span<const std::byte>(const TensorPlace& place)>;
  NamedTensors(std::span<const TensorPlace> places, const Memory& memory);
  std::span<const NamedTensor> all() const { return tensors_; }

 private:
  std::vector<NamedTensor> tensors_;
  std::deque<std::vector<std::byte>> copies_;
};

enum class ModelFormat { kTorch, kSafetensors };
Result<ModelFormat> parse_model_format(std::string_view name);

// The file appears whole or not at all, and is durable.
//   torch:        a state_dict, an OrderedDict of tensors in this order. torch.load() reads it,
//   also
//                 with weights_only=True. Tensors with the same bytes in memory stay one tensor.
//   safetensors:  in the order of their names.
Status write_model_file(const std::string& path, ModelFormat format,
                        std::span<const NamedTensor> tensors);

}  // namespace rubato::elastic
