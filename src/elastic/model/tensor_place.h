// Where the tensors of a model are in the state of its program, so that others can read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

// Number types of tensors, by the names that safetensors uses.
struct TensorType {
  std::string_view name;     // "F32"
  std::size_t bytes;         // of one number
  std::string_view storage;  // PyTorch's class of a storage: "FloatStorage"
};
const TensorType* find_tensor_type(std::string_view name);
const TensorType* find_storage_type(std::string_view storage);

struct TensorPlace {
  std::string name;  // as in a state_dict
  std::string type;  // TensorType::name
  std::vector<std::int64_t> shape;
  // Numbers from one element of a dimension to the next, if it is not contiguous. Whatever their
  // order, the elements fill the tensor's memory.
  std::vector<std::int64_t> strides{};
  int unit = -1;  // -1: in the private state
  std::size_t offset = 0;

  std::size_t bytes() const;
};

// The elements of a tensor in the usual order. `memory` begins at its offset.
std::vector<std::byte> contiguous(const TensorPlace& place, std::span<const std::byte> memory);

// Names are unique, and every tensor lies within its unit or the private state.
Status check_places(const std::vector<TensorPlace>& places,
                    const std::vector<std::size_t>& unit_bytes, std::size_t private_bytes);

nlohmann::json to_json(const TensorPlace& place);
// `where` is used in error messages.
Result<TensorPlace> parse_place(const nlohmann::json& value, const std::string& where);

}  // namespace rubato::elastic
