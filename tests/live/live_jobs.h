// Real training jobs for the live tests, and the bits that they must produce.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "base/parallel.h"
#include "base/sha256.h"

namespace rubato::live {

struct LiveProgram {
  std::vector<std::string> run;
  int logical_workers = 4;
  double target_loss = 0;  // above 0: an adaptive job, which must end below this loss
  std::string batch{};     // of an adaptive job: "32..256"
};

inline nlohmann::json document_of(const LiveProgram& program, int most_devices) {
  if (program.target_loss > 0) {
    return {{"run", program.run},
            {"mode", "adaptive"},
            {"devices", fmt::format("1..{}", most_devices)},
            {"batch", program.batch},
            {"checkpoint", {{"every", 2}}}};
  }
  return {{"run", program.run},
          {"devices", fmt::format("1..{}", most_devices)},
          {"logical_workers", program.logical_workers},
          {"checkpoint", {{"every", 2}}}};
}

// Final hashes of undisturbed runs on one worker, computed once each. Test cases are processes of
// their own, so hashes can also be kept in a folder for the next one that needs them. A kept hash
// counts for the very same program file, and for an hour.
class Undisturbed {
 public:
  // `prefix` precedes every command, such as "nice -n 5 ".
  Undisturbed(std::string rubato, std::string folder, std::string kept_folder = "",
              std::string prefix = "")
      : rubato_(std::move(rubato)),
        folder_(std::move(folder)),
        kept_folder_(std::move(kept_folder)),
        prefix_(std::move(prefix)) {}

  std::string hash(const LiveProgram& program) {
    const auto known = hashes_.find(key_of(program));
    if (known != hashes_.end()) return known->second;
    return hashes_[key_of(program)] = run(program, hashes_.size());
  }
  // Computes several at a time, as many as there are processors.
  void compute(const std::vector<LiveProgram>& programs) {
    std::map<std::string, LiveProgram> unknown;
    for (const LiveProgram& program : programs) {
      if (!hashes_.contains(key_of(program))) unknown[key_of(program)] = program;
    }
    const std::vector<std::pair<std::string, LiveProgram>> todo(unknown.begin(), unknown.end());
    std::vector<std::string> found(todo.size());
    parallel_for(todo.size(), hardware_threads(),
                 [&](std::size_t i) { found[i] = run(todo[i].second, hashes_.size() + i); });
    for (std::size_t i = 0; i < todo.size(); ++i) hashes_[todo[i].first] = found[i];
  }

 private:
  static std::string key_of(const LiveProgram& program) {
    return compact_json(nlohmann::json{{"run", program.run}, {"n", program.logical_workers}});
  }
  std::string kept_file(const LiveProgram& program) const {
    const Result<std::string> binary = read_file(program.run.front());
    return kept_folder_ + "/" + sha256_hex(key_of(program) + (binary.ok() ? *binary : ""));
  }
  static bool fresh(const std::string& file) {
    std::error_code none;
    const auto written = std::filesystem::last_write_time(file, none);
    return !none && std::filesystem::file_time_type::clock::now() - written < std::chrono::hours(1);
  }
  std::string run(const LiveProgram& program, std::size_t index) const {
    if (kept_folder_.empty()) return run_alone(program, index);
    const std::string kept = kept_file(program);
    if (fresh(kept)) return read_file(kept).value();
    std::string hash = run_alone(program, index);
    std::filesystem::create_directories(kept_folder_);
    if (hash.size() == 64) static_cast<void>(write_file(kept, hash));
    return hash;
  }
  std::string run_alone(const LiveProgram& program, std::size_t index) const {
    const std::string folder = fmt::format("{}/undisturbed-{}", folder_, index);
    std::filesystem::create_directories(folder);
    std::string command = fmt::format(
        "RUBATO_HOME='{0}/home' {1}'{2}' run --dir '{0}/job' --workers 1 --logical {3} --", folder,
        prefix_, rubato_, program.logical_workers);
    for (const std::string& word : program.run) command += fmt::format(" '{}'", word);
    command += fmt::format(" >'{}/log' 2>&1", folder);
    if (std::system(command.c_str()) != 0) return "the undisturbed run failed: " + folder;
    const Result<std::string> text = read_file(folder + "/job/result.json");
    const auto result = parse_json(text.ok() ? *text : "{}");
    return result.value("state_sha256", "no hash");
  }

  std::string rubato_;
  std::string folder_;
  std::string kept_folder_;
  std::string prefix_;
  std::map<std::string, std::string> hashes_;
};

}  // namespace rubato::live
