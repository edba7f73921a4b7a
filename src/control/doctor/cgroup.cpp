#include "control/doctor/cgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace rubato::control::doctor {

namespace {

const std::string kRoot = "/sys/fs/cgroup";

// The path behind "NUMBER:CONTROLLERS:" in /proc/self/cgroup; version 2 has no controllers there.
std::optional<std::string> own_path(const MachineView& view, std::string_view controller) {
  const auto text = view.read("/proc/self/cgroup");
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::vector<std::string_view> names =
        split(line.substr(first + 1, second - first - 1), ',');
    if (std::find(names.begin(), names.end(), controller) == names.end()) continue;
    const std::string_view path = line.substr(second + 1);
    if (path.starts_with('/')) return std::string(path == "/" ? "" : path);
  }
  return std::nullopt;
}

// The group's folder and those above it, up to the root of the hierarchy.
std::vector<std::string> folders_of(const std::string& hierarchy, std::string path) {
  std::vector<std::string> folders;
  while (!path.empty()) {
    folders.push_back(hierarchy + path);
    path.resize(path.find_last_of('/'));
  }
  folders.push_back(hierarchy);
  return folders;
}

// The smallest limit that `limit_in` finds in a hierarchy.
std::optional<double> tightest(
    const MachineView& view, const std::string& hierarchy, std::string_view controller,
    const std::function<std::optional<double>(const std::string&)>& limit_in) {
  const auto path = own_path(view, controller);
  if (!path) return std::nullopt;
  std::optional<double> least;
  for (const std::string& folder : folders_of(hierarchy, *path)) {
    const std::optional<double> limit = limit_in(folder);
    if (limit && *limit > 0) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

std::optional<double> number_in(const MachineView& view, const std::string& path) {
  const auto text = view.read(path);
  return text ? parse_double(trim(*text)) : std::nullopt;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

Cgroups find_cgroups(const MachineView& view) {
  const auto controllers = [&](const std::string& hierarchy) {
    const std::string text = view.read(hierarchy + "/cgroup.controllers").value_or("");
    std::vector<std::string> names;
    for (const std::string_view name : split(trim(text), ' ')) {
      if (!name.empty()) names.emplace_back(name);
    }
    return names;
  };
  const std::string path = own_path(view, "").value_or("");
  if (view.file(kRoot + "/cgroup.controllers").exists) {
    return {Cgroups::Version::kV2, controllers(kRoot), kRoot + path};
  }
  if (view.file(kRoot + "/unified/cgroup.controllers").exists) {
    return {Cgroups::Version::kHybrid, controllers(kRoot + "/unified"), kRoot + "/unified" + path};
  }
  if (const auto memory = own_path(view, "memory"); memory && view.file(kRoot + "/memory").folder) {
    return {Cgroups::Version::kV1, {}, kRoot + "/memory" + *memory};
  }
  return {};
}

std::optional<double> cpu_limit(const MachineView& view) {
  const auto of_v2 = tightest(view, kRoot, "", [&](const std::string& folder) {
    const std::string text = view.read(folder + "/cpu.max").value_or("");
    const auto words = split(trim(text), ' ');  // "QUOTA PERIOD" or "max PERIOD"
    if (words.size() != 2) return std::optional<double>();
    const auto quota = parse_double(words[0]);
    const auto period = parse_double(words[1]);
    return quota && period && *period > 0 ? std::optional(*quota / *period) : std::nullopt;
  });
  const auto of_v1 = tightest(view, kRoot + "/cpu", "cpu", [&](const std::string& folder) {
    const auto quota = number_in(view, folder + "/cpu.cfs_quota_us");  // -1: no limit
    const auto period = number_in(view, folder + "/cpu.cfs_period_us");
    return quota && period && *quota > 0 && *period > 0 ? std::optional(*quota / *period)
                                                        : std::nullopt;
  });
  return smaller(of_v2, of_v1);
}

std::optional<double> memory_limit_bytes(const MachineView& view) {
  constexpr double kUnlimited = 1e18;  // version 1 says "no limit" with a huge number
  const auto of_v2 = tightest(view, kRoot, "", [&](const std::string& folder) {
    return number_in(view, folder + "/memory.max");
  });
  const auto of_v1 = tightest(view, kRoot + "/memory", "memory", [&](const std::string& folder) {
    const auto limit = number_in(view, folder + "/memory.limit_in_bytes");
    return limit && *limit < kUnlimited ? limit : std::nullopt;
  });
  return smaller(of_v2, of_v1);
}

}  // namespace rubato::control::doctor
