// Reads a model from a file that PyTorch or a job wrote.
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "base/result.h"

namespace rubato::train {

// Copies the tensors of a state_dict (torch.save() or safetensors) into the module's parameters and
// buffers of the same names. Names, shapes and types must be the same; otherwise the module is
// unchanged.
Status load_state(torch::nn::Module& module, const std::string& path);

}  // namespace rubato::train
