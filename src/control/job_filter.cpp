#include "control/job_filter.h"

#include <algorithm>

#include "control/arrays.h"

namespace rubato::control {

bool JobFilter::any() const {
  return labels.empty() && name.empty() && phases.empty() && tenant.empty() && user.empty() &&
         array.empty() && since == 0 && before == 0;
}

bool matches(const JobFilter& filter, const JobRecord& job) {
  if (!filter.tenant.empty() && job.tenant != filter.tenant) return false;
  if (!filter.user.empty() && job.document.user != filter.user) return false;
  if (job.submitted_at < filter.since) return false;
  if (filter.before > 0 && job.submitted_at >= filter.before) return false;
  if (!filter.phases.empty() &&
      std::find(filter.phases.begin(), filter.phases.end(), job.phase) == filter.phases.end()) {
    return false;
  }
  if (!filter.array.empty() && !is_named(job.array, parse_array_name(filter.array))) return false;
  if (!has_labels(job.document.labels, filter.labels)) return false;
  return filter.name.empty() || matches_pattern(filter.name, job_title(job.document));
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // after the last one
  std::size_t tried = 0;                      // where its rest was tried last
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      tried = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star;
      t = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace rubato::control
