// Reads a Python pickle that holds a state_dict, as torch.save() writes it. Nothing is executed:
// what is not a dictionary of tensors is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

struct PickledTensor {
  std::string name;
  std::string storage_type;  // PyTorch's class: "FloatStorage"
  std::string key;           // of its storage
  std::int64_t offset = 0;   // numbers from the storage's beginning
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

Result<std::vector<PickledTensor>> read_pickled_state(std::string_view pickle);

}  // namespace rubato::elastic
