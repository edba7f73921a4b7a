#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "elastic/launcher.h"

namespace rubato::elastic {

namespace {

std::filesystem::path names_folder() {
  if (const char* home = std::getenv("RUBATO_HOME")) return std::filesystem::path(home) / "jobs";
  if (const char* state = std::getenv("XDG_STATE_HOME")) {
    return std::filesystem::path(state) / "rubato" / "jobs";
  }
  if (const char* home = std::getenv("HOME")) {
    return std::filesystem::path(home) / ".local" / "state" / "rubato" / "jobs";
  }
  return std::filesystem::temp_directory_path() / fmt::format("rubato-{}", getuid()) / "jobs";
}

}  // namespace

Status register_job(const std::string& name, const std::string& folder) {
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') {
    return invalid_input(fmt::format(
        "'{}' is not a valid job name: it must not be empty, start with '.' or contain '/'", name));
  }
  const std::filesystem::path names = names_folder();
  Status made = make_directories(names.string());
  if (!made.ok()) return made.error();
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
               fmt::format("'{}' is neither a job folder nor a job name{}; 'rubato ps' lists "
                           "the jobs",
                           job, did_you_mean(job, names))};
}

}  // namespace rubato::elastic
