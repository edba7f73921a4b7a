#include "control/retention.h"

#include <fmt/format.h>

#include "base/text.h"
#include "control/job_document.h"

namespace rubato::control {

Result<KeepLimit> parse_keep_limit(std::string_view text) {
  const auto wrong = [&] {
    return invalid_input(
        fmt::format("'{}': expected an age (30d), a number (1000), both (30d,1000), or all", text));
  };
  if (trim(text) == "all") return KeepLimit{};
  KeepLimit limit;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view word = trim(part);
    if (const auto count = parse_int(word)) {
      if (*count < 1 || limit.count > 0) return wrong();
      limit.count = *count;
      continue;
    }
    const Result<double> age = parse_duration(word);
    if (!age.ok() || !(*age > 0) || limit.age_s > 0) return wrong();
    limit.age_s = *age;
  }
  return limit.limited() ? Result<KeepLimit>(limit) : wrong();
}

}  // namespace rubato::control
