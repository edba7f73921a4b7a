#include "elastic/launch/command_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace rubato::elastic {

namespace {

// 0, or why the file cannot be executed.
int execution_problem(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

std::string below(const std::string& directory, const std::string& path) {
  std::error_code no_current_folder;
  const std::filesystem::path here = std::filesystem::current_path(no_current_folder);
  return (here / directory / path).lexically_normal().string();
}

}  // namespace

Status check_directory(const std::string& directory) {
  struct stat status {};
  int problem = stat(directory.c_str(), &status) != 0 ? errno : 0;
  if (problem == 0 && !S_ISDIR(status.st_mode)) problem = ENOTDIR;
  if (problem == 0 && faccessat(AT_FDCWD, directory.c_str(), X_OK, AT_EACCESS) != 0) {
    problem = errno;
  }
  if (problem == 0) return ok_status();
  return invalid_input(fmt::format("cannot run in {}: {}", directory, std::strerror(problem)));
}

Result<std::string> find_program(const std::vector<std::string>& command,
                                 const std::string& directory, const std::string& search_path) {
  const std::string& name = command.front();
  if (name.find('/') != std::string::npos) {
    const std::string path = below(directory, name);
    const int problem = execution_problem(path);
    if (problem == 0) return path;
    return invalid_input(fmt::format("cannot start {}: {}", path, std::strerror(problem)));
  }
  for (const std::string_view folder : split(search_path, ':')) {
    const std::string entry = folder.empty() ? "." : std::string(folder);
    std::string path = below(directory, entry + "/" + name);
    if (!name.empty() && execution_problem(path) == 0) return path;
  }
  return invalid_input(fmt::format(
      "cannot start {}: there is no such program in PATH ({}); give its path", name, search_path));
}

Status check_program(const std::vector<std::string>& command, const std::string& directory,
                     const std::string& search_path) {
  const Result<std::string> path = find_program(command, directory, search_path);
  return path.ok() ? ok_status() : Status(path.error());
}

std::string search_path_with(const std::vector<std::pair<std::string, std::string>>& environment) {
  for (const auto& [name, value] : environment) {
    if (name == "PATH") return value;
  }
  const char* inherited = std::getenv("PATH");
  return inherited != nullptr ? inherited : "/bin:/usr/bin";
}

}  // namespace rubato::elastic
