// What is known about the program of a job.
#pragma once

#include <optional>
#include <string_view>

namespace rubato::elastic {

enum class ProgramKind {
  kRuntime,  // it uses the runtime: one worker process per device, which join the job
  // Its owner did not say. One process is started. If it calls the runtime (JobFolder::say_hello),
  // it is a worker and others follow; if it ends without having called it, its exit code counts.
  kUnknown,
  kOpaque,  // any program: one process with all devices, whose exit code counts
};
std::string_view to_string(ProgramKind kind);
std::optional<ProgramKind> parse_program_kind(std::string_view text);

}  // namespace rubato::elastic
