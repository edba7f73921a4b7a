// Finds processes of jobs from outside.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/file.h"
#include "base/text.h"

namespace rubato::live {

// Processes whose command line or environment contains the text. One that ends while it is looked
// at is not there.
inline std::set<pid_t> processes_with(const std::string& text) {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto number = parse_int(entry.path().filename().string());
    if (!number) continue;
    for (const char* file : {"/cmdline", "/environ"}) {
      const Result<std::string> content = read_file(entry.path().string() + file);
      if (content.ok() && content->find(text) != std::string::npos) {
        found.insert(static_cast<pid_t>(*number));
      }
    }
  }
  found.erase(getpid());
  return found;
}

}  // namespace rubato::live
