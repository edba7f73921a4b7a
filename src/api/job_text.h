// Jobs as JSON text. A list is appended piece by piece: 10,000 jobs through a tree of JSON values
// would take longer than people wait. A test holds it against control::to_json(JobRecord).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "control/state.h"

namespace rubato::api {

// Everything about one job.
std::string job_text(const control::JobRecord& job);
// {"jobs": [...], "next": n}: `next` is what to ask for `after`, and null when there were fewer
// than `limit`. A job of a list comes without its document, idempotency key and result.
std::string job_list_text(std::span<const control::JobRecord> jobs, int limit);

// The text as a JSON string, in quotes; bytes that are not UTF-8 are replaced.
void append_quoted(std::string& out, std::string_view text);

}  // namespace rubato::api
