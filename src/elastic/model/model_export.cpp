#include "elastic/model/model_export.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "elastic/job/checkpoint.h"
#include "elastic/job/checkpoint_place.h"

namespace rubato::elastic {

Status write_tensor_map(const JobFolder& folder, const TensorMap& map) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorPlace& place : map.tensors) tensors.push_back(to_json(place));
  const nlohmann::json value = {{"description", map.description},
                                {"state_bytes", map.state_bytes},
                                {"private_bytes", map.private_bytes},
                                {"private_part", map.private_part},
                                {"tensors", std::move(tensors)}};
  return write_file(folder.tensors_file(), indented_json(value) + "\n");
}

Result<TensorMap> read_tensor_map(const JobFolder& folder) {
  const std::string path = folder.tensors_file();
  Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  const nlohmann::json value = parse_json(*text);
  TensorMap map;
  try {
    map = {.description = value.at("description").get<std::string>(),
           .state_bytes = value.at("state_bytes").get<std::size_t>(),
           .private_bytes = value.at("private_bytes").get<std::size_t>(),
           .private_part = value.at("private_part").get<std::size_t>(),
           .tensors = {}};
    for (const nlohmann::json& entry : value.at("tensors")) {
      Result<TensorPlace> place = parse_place(entry, path);
      if (!place.ok()) return place.error();
      map.tensors.push_back(std::move(*place));
    }
  } catch (const nlohmann::json::exception&) {
    return invalid_input(fmt::format(
        "{}: expected description, state_bytes, private_bytes, private_part and tensors", path));
  }
  const Status fits = check_places(map.tensors, {map.state_bytes}, map.private_bytes);
  if (!fits.ok()) return invalid_input(fmt::format("{}: {}", path, fits.error().message));
  return map;
}

Result<ExportedModel> export_model(const JobFolder& folder, ModelFormat format,
                                   const std::string& path) {
  const Result<TensorMap> map = read_tensor_map(folder);
  if (!map.ok() && map.error().code == ErrorCode::kNotFound) {
    return invalid_input(fmt::format(
        "{}: the job has not started to train, or its program does not say where its tensors are",
        folder.path()));
  }
  if (!map.ok()) return map.error();
  const std::string checkpoints = checkpoints_of(folder);
  if (!is_directory(checkpoints)) {
    return invalid_input(checkpoints == folder.checkpoint_folder()
                             ? fmt::format("{}: there is no checkpoint yet", folder.path())
                             : fmt::format("{}: the job's checkpoints are there, and this machine "
                                           "does not have the folder",
                                           checkpoints));
  }
  Result<CheckpointFolder::Found> found =
      CheckpointFolder::for_reading(checkpoints).load_newest(map->description);
  if (!found.ok()) return found.error();
  if (!found->newest) {
    return invalid_input(found->refused.empty()
                             ? fmt::format("{}: there is no checkpoint yet", folder.path())
                             : rubato::join(found->refused, "; "));
  }
  const LoadedCheckpoint& checkpoint = *found->newest;
  const bool fits = checkpoint.parts.size() > map->private_part &&
                    checkpoint.parts[0].size() == map->state_bytes &&
                    checkpoint.parts[map->private_part].size() == map->private_bytes;
  if (!fits) {
    return invalid_input(fmt::format("{}: it does not describe the checkpoint of step {}",
                                     folder.tensors_file(), checkpoint.step));
  }
  const NamedTensors tensors(map->tensors, [&](const TensorPlace& place) {
    return std::span<const std::byte>(checkpoint.parts[place.unit < 0 ? map->private_part : 0]);
  });
  const Status written = write_model_file(path, format, tensors.all());
  if (!written.ok()) return written.error();
  ExportedModel exported{.step = checkpoint.step, .tensors = map->tensors.size()};
  for (const TensorPlace& place : map->tensors) exported.bytes += place.bytes();
  return exported;
}

}  // namespace rubato::elastic
