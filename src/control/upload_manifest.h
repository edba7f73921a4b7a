// What travels with `rubato submit --upload`: the list of a folder's files, each by its SHA-256.
// The list is stored like the files, and its own digest names the whole upload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::control {

inline constexpr std::int64_t kMostUploadFiles = 100'000;
inline constexpr std::int64_t kMostManifestBytes = 32 << 20;

struct UploadEntry {
  std::string path;       // relative, "src/train.py"
  std::string sha256{};   // of a file, 64 hexadecimal digits
  std::int64_t size = 0;  // of a file
  bool executable = false;
  std::string link{};  // target of a link; empty: it is a file
};
using UploadManifest = std::vector<UploadEntry>;

bool is_digest(std::string_view text);
// Why a link at `path` may not travel; empty if it may: it leads to something in the folder,
// whatever other links there are.
std::string_view link_problem(std::string_view path, std::string_view target);
// Canonical: the same folder gives the same text.
std::string manifest_text(UploadManifest manifest);
// Refuses what cannot be unpacked below one folder: paths that leave it, that occur twice, or that
// lead through a file or a link.
Result<UploadManifest> parse_manifest(std::string_view text);
std::int64_t bytes_of(const UploadManifest& manifest);

}  // namespace rubato::control
