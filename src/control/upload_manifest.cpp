#include "control/upload_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/text.h"
#include "control/job_files.h"
#include "control/json_fields.h"
#include "control/result_files.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr int kManifestDepth = 4;

Error bad_entry(const std::string& path, std::string_view problem) {
  return invalid_input(fmt::format("upload: {}: {}", plain_text(path, 200), problem));
}

Result<UploadEntry> parse_entry(const json& object) {
  UploadEntry entry{.path = text_of(object, "path"),
                    .sha256 = text_of(object, "sha256"),
                    .size = whole_in(object, "size"),
                    .executable = object.is_object() && object.value("executable", json()) == true,
                    .link = text_of(object, "link")};
  if (const auto problem = relative_path_problem(entry.path); !problem.empty()) {
    return bad_entry(entry.path, problem);
  }
  if (!entry.link.empty()) {
    const std::string_view problem = link_problem(entry.path, entry.link);
    return problem.empty() ? Result<UploadEntry>(entry) : bad_entry(entry.path, problem);
  }
  if (!is_digest(entry.sha256)) return bad_entry(entry.path, "expected its SHA-256");
  if (entry.size < 0) return bad_entry(entry.path, "expected its size");
  return entry;
}

}  // namespace

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string_view link_problem(std::string_view path, std::string_view target) {
  if (target.empty() || target.starts_with('/')) return "a link to an absolute path";
  if (target.size() > 4096 || target.find('\0') != std::string_view::npos) {
    return "a link that cannot be made";
  }
  std::ptrdiff_t depth = std::count(path.begin(), path.end(), '/');
  bool down = false;
  for (const std::string_view part : split(target, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      down = true;
      continue;
    }
    // Behind a name, which may be a link itself, '..' could lead anywhere.
    if (down || --depth < 0) return "a link that leads out of the folder";
  }
  return {};
}

std::string manifest_text(UploadManifest manifest) {
  std::sort(manifest.begin(), manifest.end(),
            [](const UploadEntry& a, const UploadEntry& b) { return a.path < b.path; });
  json files = json::array();
  for (const UploadEntry& entry : manifest) {
    if (!entry.link.empty()) {
      files.push_back({{"path", entry.path}, {"link", entry.link}});
      continue;
    }
    files.push_back({{"path", entry.path},
                     {"sha256", entry.sha256},
                     {"size", entry.size},
                     {"executable", entry.executable}});
  }
  return compact_json({{"version", 1}, {"files", std::move(files)}});
}

Result<UploadManifest> parse_manifest(std::string_view text) {
  const json object = parse_untrusted(text, kManifestDepth);
  const json* files = field_of(object, "files");
  if (files == nullptr || !files->is_array() || whole_in(object, "version") != 1) {
    return invalid_input("upload: expected a list of files, version 1");
  }
  if (static_cast<std::int64_t>(files->size()) > kMostUploadFiles) {
    return invalid_input(
        fmt::format("upload: {} files; expected at most {}", files->size(), kMostUploadFiles));
  }
  UploadManifest manifest;
  std::set<std::string, std::less<>> paths;
  for (const json& each : *files) {
    auto entry = parse_entry(each);
    if (!entry.ok()) return entry.error();
    if (!paths.insert(entry->path).second) return bad_entry(entry->path, "is there twice");
    manifest.push_back(std::move(*entry));
  }
  for (const UploadEntry& entry : manifest) {
    const std::string_view path = entry.path;
    for (std::size_t at = path.find('/'); at != std::string_view::npos;
         at = path.find('/', at + 1)) {
      if (paths.contains(path.substr(0, at))) {
        return bad_entry(entry.path, "leads through something that is no folder");
      }
    }
  }
  return manifest;
}

std::int64_t bytes_of(const UploadManifest& manifest) {
  std::int64_t sum = 0;
  for (const UploadEntry& entry : manifest) {
    if (__builtin_add_overflow(sum, entry.size, &sum))
      return std::numeric_limits<std::int64_t>::max();
  }
  return sum;
}

}  // namespace rubato::control
