#include "elastic/model/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "elastic/model/pickle_text.h"
#include "elastic/model/zip_file.h"

namespace rubato::elastic {

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Status write_torch(OutputFile& file, std::span<const NamedTensor> tensors) {
  // One entry for each piece of memory.
  std::map<std::pair<const std::byte*, std::size_t>, std::string> keys;
  std::vector<std::span<const std::byte>> storages;
  PickleText pickle;
  pickle.begin_ordered_dict();
  for (const NamedTensor& tensor : tensors) {
    // An empty tensor may have the address of its neighbour.
    const auto [known, fresh] = keys.try_emplace({tensor.bytes.data(), tensor.bytes.size()},
                                                 std::to_string(storages.size()));
    if (fresh) storages.push_back(tensor.bytes);
    const TensorType& type = *find_tensor_type(tensor.type);
    pickle.text(tensor.name);
    pickle.tensor(type.storage, known->second, tensor.bytes.size() / type.bytes, tensor.shape);
  }
  pickle.end_ordered_dict();
  const std::string text = pickle.finish();
  ZipFile zip(file);
  zip.add("model/data.pkl", bytes_of(text));
  zip.add("model/byteorder", bytes_of("little"));
  for (std::size_t i = 0; i < storages.size(); ++i) {
    zip.add(fmt::format("model/data/{}", i), storages[i]);
  }
  zip.add("model/version", bytes_of("3\n"));
  return zip.finish();
}

Status write_safetensors(OutputFile& file, std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::size_t at = 0;
  for (const NamedTensor* tensor : sorted) {
    header[tensor->name] = {{"dtype", tensor->type},
                            {"shape", tensor->shape},
                            {"data_offsets", {at, at + tensor->bytes.size()}}};
    at += tensor->bytes.size();
  }
  std::string text = compact_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  Status written = file.write(std::as_bytes(std::span(&length, 1)));
  if (written.ok()) written = file.write(bytes_of(text));
  for (const NamedTensor* tensor : sorted) {
    if (written.ok()) written = file.write(tensor->bytes);
  }
  return written;
}

}  // namespace

NamedTensors::NamedTensors(std::span<const TensorPlace> places, const Memory& memory) {
  for (const TensorPlace& place : places) {
    std::span<const std::byte> bytes = memory(place).subspan(place.offset, place.bytes());
    if (!place.strides.empty()) bytes = copies_.emplace_back(contiguous(place, bytes));
    tensors_.push_back(
        {.name = place.name, .type = place.type, .shape = place.shape, .bytes = bytes});
  }
}

Result<ModelFormat> parse_model_format(std::string_view name) {
  if (name == "torch") return ModelFormat::kTorch;
  if (name == "safetensors") return ModelFormat::kSafetensors;
  return invalid_input(fmt::format("'{}'; expected torch or safetensors", name));
}

Status write_model_file(const std::string& path, ModelFormat format,
                        std::span<const NamedTensor> tensors) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.error();
  Status written = format == ModelFormat::kTorch ? write_torch(*file, tensors)
                                                 : write_safetensors(*file, tensors);
  if (!written.ok()) return written;
  return file->commit();
}

}  // namespace rubato::elastic
