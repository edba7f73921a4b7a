#include "elastic/model/tensor_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace rubato::elastic {

namespace {

constexpr std::array kTypes{
    TensorType{"F32", 4, "FloatStorage"},     TensorType{"F16", 2, "HalfStorage"},
    TensorType{"BF16", 2, "BFloat16Storage"}, TensorType{"F64", 8, "DoubleStorage"},
    TensorType{"I64", 8, "LongStorage"},      TensorType{"I32", 4, "IntStorage"},
    TensorType{"I16", 2, "ShortStorage"},     TensorType{"I8", 1, "CharStorage"},
    TensorType{"U8", 1, "ByteStorage"},       TensorType{"BOOL", 1, "BoolStorage"},
};

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 48;
constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kMostDimensions = 64;

// Whether every element has a place of its own in the tensor's memory.
bool strides_fit(const TensorPlace& place) {
  if (place.strides.empty()) return true;
  if (place.strides.size() != place.shape.size()) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // stride, size
  for (std::size_t i = 0; i < place.shape.size(); ++i) {
    if (place.shape[i] == 0) return true;
    if (place.shape[i] > 1) order.emplace_back(place.strides[i], place.shape[i]);
  }
  std::sort(order.begin(), order.end());
  std::int64_t expected = 1;
  for (const auto& [stride, size] : order) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

bool in_usual_order(const TensorPlace& place) {
  if (place.strides.empty()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = place.shape.size(); i-- > 0;) {
    if (place.shape[i] > 1 && place.strides[i] != expected) return false;
    expected *= place.shape[i];
  }
  return true;
}

std::string problem_of(const TensorPlace& place) {
  if (place.name.empty() || place.name.size() > kLongestName) {
    return fmt::format("a name has {} bytes; expected 1 to {}", place.name.size(), kLongestName);
  }
  if (find_tensor_type(place.type) == nullptr) {
    return fmt::format(
        "'{}' is of type '{}'; expected F32, F16, BF16, F64, I64, I32, I16, I8, U8 "
        "or BOOL",
        place.name, place.type);
  }
  if (place.shape.size() > kMostDimensions) {
    return fmt::format("'{}' has {} dimensions; expected at most {}", place.name,
                       place.shape.size(), kMostDimensions);
  }
  std::int64_t numbers = 1;
  for (const std::int64_t size : place.shape) {
    if (size < 0 || (size > 0 && numbers > kMostNumbers / size)) {
      return fmt::format("'{}' has a dimension of {}, or is too large", place.name, size);
    }
    numbers *= size;
  }
  return strides_fit(place) ? ""
                            : fmt::format("the strides of '{}' do not fit its shape", place.name);
}

}  // namespace

const TensorType* find_tensor_type(std::string_view name) {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const TensorType& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

const TensorType* find_storage_type(std::string_view storage) {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TensorType& type) {
    return type.storage == storage;
  });
  return found == kTypes.end() ? nullptr : found;
}

std::size_t TensorPlace::bytes() const {
  std::size_t bytes = find_tensor_type(type)->bytes;
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

std::vector<std::byte> contiguous(const TensorPlace& place, std::span<const std::byte> memory) {
  const std::size_t bytes = place.bytes();
  const std::size_t size = find_tensor_type(place.type)->bytes;
  std::vector<std::byte> out(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(bytes));
  if (in_usual_order(place)) return out;
  std::vector<std::int64_t> at(place.shape.size());
  for (std::size_t element = 0; element < bytes / size; ++element) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < at.size(); ++i) from += at[i] * place.strides[i];
    std::copy_n(memory.begin() + from * static_cast<std::ptrdiff_t>(size), size,
                out.begin() + static_cast<std::ptrdiff_t>(element * size));
    for (std::size_t i = at.size(); i-- > 0 && ++at[i] == place.shape[i];) at[i] = 0;
  }
  return out;
}

Status check_places(const std::vector<TensorPlace>& places,
                    const std::vector<std::size_t>& unit_bytes, std::size_t private_bytes) {
  std::set<std::string> names;
  for (const TensorPlace& place : places) {
    if (const std::string problem = problem_of(place); !problem.empty()) {
      return invalid_input("tensors: " + problem);
    }
    if (!names.insert(place.name).second) {
      return invalid_input(fmt::format("tensors: '{}' is named twice", place.name));
    }
    const bool known = place.unit >= -1 && place.unit < static_cast<int>(unit_bytes.size());
    const std::size_t room = !known           ? 0
                             : place.unit < 0 ? private_bytes
                                              : unit_bytes[static_cast<std::size_t>(place.unit)];
    if (!known || place.offset > room || place.bytes() > room - place.offset) {
      return invalid_input(fmt::format("tensors: '{}' reaches beyond the {} bytes of unit {}",
                                       place.name, room, place.unit));
    }
  }
  return ok_status();
}

nlohmann::json to_json(const TensorPlace& place) {
  return {{"name", place.name},       {"type", place.type}, {"shape", place.shape},
          {"strides", place.strides}, {"unit", place.unit}, {"offset", place.offset}};
}

Result<TensorPlace> parse_place(const nlohmann::json& value, const std::string& where) {
  TensorPlace place;
  try {
    place = {.name = value.at("name").get<std::string>(),
             .type = value.at("type").get<std::string>(),
             .shape = value.at("shape").get<std::vector<std::int64_t>>(),
             .strides = value.at("strides").get<std::vector<std::int64_t>>(),
             .unit = value.at("unit").get<int>(),
             .offset = value.at("offset").get<std::size_t>()};
  } catch (const nlohmann::json::exception&) {
    return invalid_input(
        fmt::format("{}: expected name, type, shape, strides, unit and offset of a tensor", where));
  }
  if (const std::string problem = problem_of(place); !problem.empty()) {
    return invalid_input(fmt::format("{}: {}", where, problem));
  }
  return place;
}

}  // namespace rubato::elastic
