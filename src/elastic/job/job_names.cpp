#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "elastic/launch/launcher.h"

namespace rubato::elastic {

namespace {

// The user's state folder, which is also that of a daemon that the user starts.
std::filesystem::path state_folder() {
  const auto given = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  for (const char* variable : {"RUBATO_HOME", "RUBATO_STATE"}) {
    if (std::filesystem::path folder = given(variable); !folder.empty()) return folder;
  }
  if (const auto folder = given("XDG_STATE_HOME"); !folder.empty()) return folder / "rubato";
  if (const auto home = given("HOME"); !home.empty()) return home / ".local/state/rubato";
  return std::filesystem::temp_directory_path() / fmt::format("rubato-{}", getuid());
}

// Not `jobs`: there a daemon keeps its jobs, by number.
std::filesystem::path names_folder() { return state_folder() / "runs"; }

// A daemon refuses a state folder that others may look into.
Status make_names_folder() {
  const std::filesystem::path state = state_folder();
  const bool is_new = !is_directory(state.string());
  Status made = make_directories(names_folder().string());
  if (!made.ok() || !is_new) return made;
  std::error_code error;
  std::filesystem::permissions(state, std::filesystem::perms::owner_all, error);
  if (!error) return ok_status();
  return Error{ErrorCode::kIo,
               fmt::format("{}: cannot make private: {}", state.string(), error.message())};
}

}  // namespace

Status register_job(const std::string& name, const std::string& folder) {
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') {
    return invalid_input(fmt::format(
        "'{}' is not a valid job name: it must not be empty, start with '.' or contain '/'", name));
  }
  Status made = make_names_folder();
  if (!made.ok()) return made;
  const std::filesystem::path names = names_folder();
  std::error_code error;
  const std::filesystem::path link = names / name;
  const std::filesystem::path draft = names / fmt::format(".{}.{}", name, getpid());
  std::filesystem::create_symlink(std::filesystem::absolute(folder), draft, error);
  if (!error) std::filesystem::rename(draft, link, error);  // the newest job gets the name
  if (error) {
    return Error{ErrorCode::kIo,
                 fmt::format("{}: cannot create: {}", link.string(), error.message())};
  }
  return ok_status();
}

std::vector<std::pair<std::string, std::string>> registered_jobs() {
  std::vector<std::pair<std::string, std::string>> jobs;
  const std::filesystem::path names = names_folder();
  const Result<std::vector<std::string>> entries = list_directory(names.string());
  if (!entries.ok()) return jobs;
  for (const std::string& entry : *entries) {
    if (entry.front() == '.') continue;
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(names / entry, error);
    if (!error && is_file(JobFolder(target.string()).settings_file())) {
      jobs.emplace_back(entry, target.string());
    }
  }
  return jobs;
}

Result<std::string> find_job(const std::string& job) {
  if (is_file(JobFolder(job).settings_file())) return job;
  std::vector<std::string> names;
  for (const auto& [name, folder] : registered_jobs()) {
    if (name == job) return folder;
    names.push_back(name);
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("there is no job '{}'{}; 'rubato ps' lists the jobs of 'rubato run'",
                           job, did_you_mean(job, names))};
}

}  // namespace rubato::elastic
