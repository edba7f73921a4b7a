// Whole-file reading and all-or-nothing writing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato {

Result<std::string> read_file(const std::string& path);
// Writes a temporary file beside the target and renames it: a reader never sees a partial file.
Status write_file(const std::string& path, std::string_view content);
// The same for a file that only its owner may read (mode 0600).
Status write_private_file(const std::string& path, std::string_view content);
Status make_directories(const std::string& path);
// Removes a file, or a folder with everything in it, as far as possible. Does not report errors.
void remove_tree(const std::string& path);
bool is_directory(const std::string& path);
bool is_file(const std::string& path);
// Names (not paths) of the entries, sorted.
Result<std::vector<std::string>> list_directory(const std::string& path);

}  // namespace rubato
