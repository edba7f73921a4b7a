// Versions of the rules for events. A log is kept for ever and must replay under every later
// program, so an event remembers the version under which it was written.
//
// What a change of the program may do:
//   - Without a new version: add an event type, an optional field, or a value that was refused
//     before. Old events mean what they meant.
//   - With a new version: add a required field, lower a limit, give a field another meaning, remove
//   a
//     type. Add one to kEventVersion and a step to event_versions.cpp that rewrites an event of the
//     version before into one that the new rules accept, with the same effect on the state. A step
//     never changes again.
//   - Limits that protect against people's mistakes belong to parse_job_json and parse_job_yaml,
//     which read what people write. stored_document (job_fields.h), which reads what the log has,
//     checks only what the program could not work with.
// tests/control/logs/ has a log of every version; a test replays them.
#pragma once

#include "base/result.h"
#include "control/state.h"

namespace rubato::control {

// 1: before versions were recorded. 2: `submitted` has a uid. 3: `granted` and `held` name nodes.
inline constexpr int kEventVersion = 3;

// Rewrites an event of the log to the current version. An error for an event of a newer program.
Status upgrade_event(Event& event);

}  // namespace rubato::control
