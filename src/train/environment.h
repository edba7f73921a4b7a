// What affects the bits of LibTorch's results in this process.
#pragma once

#include <torch/types.h>

#include <vector>

#include "elastic/worker/program.h"

namespace rubato::train {

// One thread, deterministic algorithms, no search for the fastest kernel. Call it before the first
// use of LibTorch; further calls have no effect.
void pin_torch();

// See elastic::Program::fingerprint. Two traits are measured rather than named: "libm" and
// "kernels" are checksums of the C library's functions and of a few LibTorch operations.
std::vector<elastic::Program::Trait> environment_traits(const torch::Device& device);

}  // namespace rubato::train
