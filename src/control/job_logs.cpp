#include "control/job_logs.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

#include "base/text.h"
#include "control/as_user.h"
#include "control/job_files.h"

namespace rubato::control {

std::vector<std::string> job_log_files(const std::string& folder) {
  const AsUser rights = AsUser::owner_of(folder);
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> files;
  for (const std::string& name : list_job_folder(folder, "logs")) {
    const auto parts = split(name, '.');
    if (!name.starts_with("worker-") || parts.size() < 2 || parts[1] != "log") continue;
    const auto worker = parse_int(parts[0].substr(7));
    const auto age = parts.size() == 3 ? parse_int(parts[2]) : std::optional<std::int64_t>(0);
    if (worker && age && parts.size() <= 3) files.emplace_back(*worker, -*age, name);
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> paths;
  paths.reserve(files.size());
  for (const auto& file : files) paths.push_back(folder + "/logs/" + std::get<2>(file));
  return paths;
}

}  // namespace rubato::control
