// How long the daemon keeps what has ended. docs/retention.md is for operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::control {

// Whatever is older, or beyond this many, goes. 0: no limit.
struct KeepLimit {
  double age_s = 0;
  std::int64_t count = 0;

  bool limited() const { return age_s > 0 || count > 0; }
  bool operator==(const KeepLimit&) const = default;
};
// "30d", "1000", "30d,1000" or "all".
Result<KeepLimit> parse_keep_limit(std::string_view text);

struct Retention {
  // Folders of ended jobs, by the time since their end and the number of ended jobs.
  KeepLimit folders{};
  // Events, by their age and number.
  KeepLimit events{};
};
inline constexpr const char* kDefaultFolders = "all";
inline constexpr const char* kDefaultEvents = "90d,5000000";

// A folder that waits to be removed.
struct Removal {
  std::int64_t job = 0;
  std::string uid{};  // to whom it must belong
};

}  // namespace rubato::control
