// Jobs as JSON text. Lists are written directly as text, because building a tree of JSON values for
// 10,000 jobs is too slow. A test compares the output with control::to_json(JobRecord).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "control/state.h"

namespace rubato::api {

// Everything about one job.
std::string job_text(const control::JobRecord& job);
// {"jobs": [...], "next": n}. `next` is the `after` of the next page; it is null if there are fewer
// than `limit` jobs. Jobs in a list have no document, idempotency key or result.
std::string job_list_text(std::span<const control::JobRecord> jobs, int limit);

// Appends the text as a quoted JSON string. Bytes that are not UTF-8 are replaced.
void append_quoted(std::string& out, std::string_view text);

}  // namespace rubato::api
