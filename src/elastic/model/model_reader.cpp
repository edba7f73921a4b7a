#include "elastic/model/model_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/model/pickle_reader.h"
#include "elastic/model/tensor_place.h"
#include "elastic/model/zip_reader.h"

namespace rubato::elastic {

namespace {

std::span<const std::byte> as_memory(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Status check_inside(const TensorPlace& place, std::size_t room) {
  return check_places({place}, {room}, 0);
}

// The numbers that a tensor spans in its storage need not be contiguous.
Result<LoadedTensor> load(const PickledTensor& pickled, std::string_view storage) {
  const TensorType* const type = find_storage_type(pickled.storage_type);
  if (type == nullptr) {
    return invalid_input(fmt::format("'{}' has a storage of the unknown type '{}'", pickled.name,
                                     pickled.storage_type));
  }
  if (pickled.offset < 0 || pickled.offset > static_cast<std::int64_t>(storage.size())) {
    return invalid_input(fmt::format("'{}' begins outside its storage", pickled.name));
  }
  TensorPlace place{.name = pickled.name,
                    .type = std::string(type->name),
                    .shape = pickled.shape,
                    .strides = pickled.strides,
                    .unit = 0,
                    .offset = static_cast<std::size_t>(pickled.offset) * type->bytes};
  if (Status inside = check_inside(place, storage.size()); !inside.ok()) return inside.error();
  return LoadedTensor{.name = place.name,
                      .type = place.type,
                      .shape = place.shape,
                      .bytes = contiguous(place, as_memory(storage).subspan(place.offset))};
}

Result<std::vector<LoadedTensor>> read_torch(std::string_view bytes) {
  const auto entries = zip_entries(bytes);
  if (!entries.ok()) return entries.error();
  const auto pickle = std::find_if(entries->begin(), entries->end(), [](const auto& entry) {
    return entry.first.ends_with("/data.pkl");
  });
  if (pickle == entries->end()) return invalid_input("not a file of torch.save()");
  const std::string folder = pickle->first.substr(0, pickle->first.size() - 8);
  const auto order = entries->find(folder + "byteorder");
  if (order != entries->end() && order->second != "little") {
    return invalid_input("its numbers are big-endian");
  }
  const auto pickled = read_pickled_state(pickle->second);
  if (!pickled.ok()) {
    return invalid_input("not a state_dict of torch.save(): " + pickled.error().message);
  }
  std::vector<LoadedTensor> tensors;
  for (const PickledTensor& tensor : *pickled) {
    const auto storage = entries->find(folder + "data/" + tensor.key);
    if (storage == entries->end()) {
      return invalid_input(fmt::format("the numbers of '{}' are missing", tensor.name));
    }
    Result<LoadedTensor> loaded = load(tensor, storage->second);
    if (!loaded.ok()) return loaded.error();
    tensors.push_back(std::move(*loaded));
  }
  return tensors;
}

Result<std::vector<LoadedTensor>> read_safetensors(std::string_view bytes) {
  const Error damaged = invalid_input("neither a state_dict of torch.save() nor safetensors");
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) return damaged;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) return damaged;
  const nlohmann::json header = parse_json(bytes.substr(sizeof length, length));
  if (!header.is_object()) return damaged;
  const std::string_view data = bytes.substr(sizeof length + length);
  std::vector<LoadedTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    TensorPlace place{.name = name, .unit = 0};
    std::size_t end = 0;
    try {
      place.type = entry.at("dtype").get<std::string>();
      place.shape = entry.at("shape").get<std::vector<std::int64_t>>();
      place.offset = entry.at("data_offsets").at(0).get<std::size_t>();
      end = entry.at("data_offsets").at(1).get<std::size_t>();
    } catch (const nlohmann::json::exception&) {
      return invalid_input(fmt::format("'{}': expected dtype, shape and data_offsets", name));
    }
    if (Status inside = check_inside(place, data.size()); !inside.ok()) return inside.error();
    if (end - place.offset != place.bytes()) {
      return invalid_input(fmt::format("'{}': its data_offsets do not fit its shape", name));
    }
    tensors.push_back({.name = name,
                       .type = place.type,
                       .shape = place.shape,
                       .bytes = contiguous(place, as_memory(data).subspan(place.offset))});
  }
  return tensors;
}

}  // namespace

Result<std::vector<LoadedTensor>> read_model_file(const std::string& path) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes.ok()) return bytes.error();
  Result<std::vector<LoadedTensor>> tensors =
      bytes->starts_with("PK") ? read_torch(*bytes) : read_safetensors(*bytes);
  if (!tensors.ok()) return Error{tensors.error().code, path + ": " + tensors.error().message};
  return tensors;
}

}  // namespace rubato::elastic
