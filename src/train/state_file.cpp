#include "train/state_file.h"

#include <torch/types.h>

#include <map>
#include <vector>

#include "elastic/model/model_reader.h"
#include "train/torch_compat.h"

namespace rubato::train {

namespace {

using elastic::LoadedTensor;
using torch::Tensor;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return c10::str(at::IntArrayRef(shape));
}

Status check(const Tensor& target, const LoadedTensor& loaded) {
  if (target.sizes() != at::IntArrayRef(loaded.shape)) {
    return invalid_input("'" + loaded.name + "' has the shape " + shape_text(loaded.shape) +
                         "; the model's is " + c10::str(target.sizes()));
  }
  if (compat::tensor_type(target.scalar_type()) != loaded.type) {
    return invalid_input("'" + loaded.name + "' is " + loaded.type + "; the model's is " +
                         std::string(c10::toString(target.scalar_type())));
  }
  return ok_status();
}

}  // namespace

Status load_state(torch::nn::Module& module, const std::string& path) {
  Result<std::vector<LoadedTensor>> state = elastic::read_model_file(path);
  if (!state) return state.error();
  std::map<std::string, Tensor> targets;
  for (const auto& item : module.named_parameters()) targets.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) targets.emplace(item.key(), item.value());
  std::map<std::string, LoadedTensor*> found;
  for (LoadedTensor& loaded : *state) {
    const auto target = targets.find(loaded.name);
    if (target == targets.end()) {
      return invalid_input(path + ": '" + loaded.name + "' is no parameter or buffer of the model");
    }
    if (Status fits = check(target->second, loaded); !fits) {
      return invalid_input(path + ": " + fits.error().message);
    }
    found[loaded.name] = &loaded;
  }
  for (const auto& [name, target] : targets) {
    if (!found.contains(name)) return invalid_input(path + ": has no '" + name + "'");
  }
  const torch::NoGradGuard no_grad;
  for (auto& [name, target] : targets) {
    target.copy_(torch::from_blob(found[name]->bytes.data(), target.sizes(), target.scalar_type()));
  }
  return ok_status();
}

}  // namespace rubato::train
