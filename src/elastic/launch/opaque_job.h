// Runs a job of the mode `opaque`: one process of any program, with all devices of the job in its
// environment. elastic/launch/ordinary_program.h says how often it is started and what its end
// means.
#pragma once

#include "base/result.h"
#include "elastic/launch/launcher.h"

namespace rubato::elastic {

// The names of these variables are part of docs/jobs.md.
inline constexpr const char* kDevicesVariable = "RUBATO_DEVICES";  // how many the job has
inline constexpr const char* kTryVariable = "RUBATO_TRY";          // 1, 2, ...

// Like launch(), with the same folder, registry and status.json; the target must be in the
// registry already. Returns when the job and the processes in the program's group have ended.
Result<LaunchResult> run_opaque(const LaunchOptions& options);

}  // namespace rubato::elastic
