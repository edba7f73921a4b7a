// A mark in the executable of a C++ program that uses the runtime.
//
// A program may turn out to be one that does not use the runtime, so the launcher does not set
// variables for the first process that would slow such a program down
// (elastic/worker/pinned_environment.h). A program of the runtime then has to set them and to
// execute itself again, which loads LibTorch twice. The mark tells the launcher beforehand. Nothing
// else depends on it: a program behind a wrapper has none.
#pragma once

#include <string>

namespace rubato::elastic {

inline constexpr const char* kProgramMarkSection = "rubato_program";

// Whether the ELF file has a section of this name. False for whatever cannot be read.
bool has_program_mark(const std::string& path);

}  // namespace rubato::elastic
