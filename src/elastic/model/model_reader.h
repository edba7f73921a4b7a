// Reads a model from a file: a state_dict of torch.save() or safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

struct LoadedTensor {
  std::string name;
  std::string type;  // TensorType::name
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // contiguous, little-endian
};

// Recognizes the format by the file's first bytes. The error begins with the path.
Result<std::vector<LoadedTensor>> read_model_file(const std::string& path);

}  // namespace rubato::elastic
