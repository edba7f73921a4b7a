// Real training jobs for the live tests, and the bits they must end with.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"

namespace rubato::live {

struct LiveProgram {
  std::vector<std::string> run;
  int logical_workers = 4;
};

inline nlohmann::json document_of(const LiveProgram& program, int most_devices) {
  return {{"run", program.run},
          {"devices", fmt::format("1..{}", most_devices)},
          {"logical_workers", program.logical_workers},
          {"checkpoint", {{"every", 2}}}};
}

// Final hashes of undisturbed runs on one worker, computed once each.
class Undisturbed {
 public:
  Undisturbed(std::string rubato, std::string folder)
      : rubato_(std::move(rubato)), folder_(std::move(folder)) {}

  std::string hash(const LiveProgram& program) {
    const std::string key =
        nlohmann::json{{"run", program.run}, {"n", program.logical_workers}}.dump();
    const auto known = hashes_.find(key);
    if (known != hashes_.end()) return known->second;
    const std::string folder = fmt::format("{}/undisturbed-{}", folder_, hashes_.size());
    std::filesystem::create_directories(folder);
    std::string command =
        fmt::format("RUBATO_HOME='{0}/home' '{1}' run --dir '{0}/job' --workers 1 --logical {2} --",
                    folder, rubato_, program.logical_workers);
    for (const std::string& word : program.run) command += fmt::format(" '{}'", word);
    command += fmt::format(" >'{}/log' 2>&1", folder);
    if (std::system(command.c_str()) != 0) return "the undisturbed run failed: " + folder;
    const Result<std::string> text = read_file(folder + "/job/result.json");
    const auto result = nlohmann::json::parse(text.ok() ? *text : "{}", nullptr, false);
    return hashes_[key] = result.value("state_sha256", "no hash");
  }

 private:
  std::string rubato_;
  std::string folder_;
  std::map<std::string, std::string> hashes_;
};

}  // namespace rubato::live
