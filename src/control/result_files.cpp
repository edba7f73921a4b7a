#include "control/result_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace rubato::control {

namespace {

constexpr std::size_t kLongestResultPath = 4096;
constexpr std::size_t kLongestPart = 255;
constexpr std::int64_t kMostScanned = 1'000'000;

// The model that the runtime wrote, unless the program has written one of that name.
constexpr std::string_view kModel = "model.pt";
constexpr std::array<std::string_view, 8> kServed{"checkpoints",  "events.jsonl", "logs",
                                                  kModel,         "outputs",      "result.json",
                                                  "tensors.json", "work"};
// Folders of a job that hold something else; `work` may hold the outputs.
constexpr std::array<std::string_view, 5> kTaken{"checkpoints", "logs", "registry", "nodes",
                                                 "owner"};

std::string_view first_part(std::string_view path) { return path.substr(0, path.find('/')); }

bool served(std::string_view name) {
  return std::find(kServed.begin(), kServed.end(), name) != kServed.end();
}

// `path` as shown, and relative to the job's folder.
struct Place {
  std::string shown;
  std::string inside;
};

Result<Place> place_of(const ResultPlace& job, std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  if (const std::string_view problem = relative_path_problem(path); !problem.empty()) {
    return invalid_input(fmt::format("path: {}", problem));
  }
  const std::string_view first = first_part(path);
  if (first == kOutputs) {
    return Place{std::string(path), job.outputs + std::string(path.substr(kOutputs.size()))};
  }
  if (served(first) &&
      !(path == kModel && is_file(fmt::format("{}/{}/{}", job.folder, job.outputs, path)))) {
    return Place{std::string(path), std::string(path)};
  }
  return Place{fmt::format("{}/{}", kOutputs, path), fmt::format("{}/{}", job.outputs, path)};
}

// Where the daemon keeps jobs is nobody's business.
Error in_the_owners_words(const Error& error, const ResultPlace& job, const Place& place) {
  const std::string prefix = fmt::format("{}/{}", job.folder, place.inside);
  if (!error.message.starts_with(prefix)) return {error.code, place.shown + ": cannot be read"};
  return {error.code, place.shown + error.message.substr(prefix.size())};
}

// UTF-8 without control characters.
bool can_be_shown(const std::string& name) {
  return plain_text(name, name.size()) == name && name.find('\n') == std::string::npos;
}

ResultEntry entry_of(std::string name, const struct stat& status) {
  using Kind = ResultEntry::Kind;
  return {.name = std::move(name),
          .kind = S_ISREG(status.st_mode)   ? Kind::kFile
                  : S_ISDIR(status.st_mode) ? Kind::kFolder
                  : S_ISLNK(status.st_mode) ? Kind::kLink
                                            : Kind::kOther,
          .size = S_ISREG(status.st_mode) ? status.st_size : 0,
          .modified = static_cast<double>(status.st_mtim.tv_sec) +
                      1e-9 * static_cast<double>(status.st_mtim.tv_nsec),
          .executable = S_ISREG(status.st_mode) && (status.st_mode & S_IXUSR) != 0};
}

struct CloseListing {
  void operator()(DIR* folder) const { closedir(folder); }
};

// The first `most` + 1 names after `after`, whatever the folder's size.
Result<std::set<std::string>> names_after(const elastic::Descriptor& folder,
                                          const std::string& after, std::size_t most,
                                          std::int64_t& unnamed) {
  const int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseListing> entries(copy < 0 ? nullptr : fdopendir(copy));
  if (!entries) {
    if (copy >= 0) close(copy);
    return Error{ErrorCode::kIo, std::strerror(errno)};
  }
  std::set<std::string> names;
  std::int64_t scanned = 0;
  while (const dirent* entry = readdir(entries.get())) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++scanned > kMostScanned) {
      return invalid_input(fmt::format(": has more than {} entries", kMostScanned));
    }
    if (!can_be_shown(name)) {
      ++unnamed;
      continue;
    }
    if (name <= after && !after.empty()) continue;
    names.insert(std::move(name));
    if (names.size() > most + 1) names.erase(std::prev(names.end()));
  }
  return names;
}

void list_folder(const elastic::Descriptor& folder, const std::set<std::string>& names,
                 std::size_t most, ResultList& list) {
  for (const std::string& name : names) {
    if (list.entries.size() == most) {
      list.more = true;
      return;
    }
    struct stat status {};
    if (fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    list.entries.push_back(entry_of(name, status));
  }
}

// The names that are served and exist.
ResultList list_names(const ResultPlace& job) {
  ResultList list;
  for (const std::string_view name : kServed) {
    const std::string inside = name == kOutputs ? job.outputs : std::string(name);
    if (const Result<OpenFile> file = open_job_file(job.folder, inside); file.ok()) {
      list.entries.push_back(entry_of(std::string(name), file->status));
    } else if (const auto folder = open_job_folder(job.folder, inside); folder.ok()) {
      struct stat status {};
      if (fstat(folder->get(), &status) != 0) continue;
      list.entries.push_back(entry_of(std::string(name), status));
    }
  }
  return list;
}

}  // namespace

std::string_view relative_path_problem(std::string_view path) {
  if (path.empty()) return "expected a path, such as model/weights.bin";
  if (path.size() > kLongestResultPath) return "longer than 4096 bytes";
  if (path.starts_with('/')) return "expected a relative path, without '/' at its beginning";
  if (path.find('\0') != std::string_view::npos) return "a path has no NUL";
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return "expected a path without '.', '..' and empty parts";
    }
    if (part.size() > kLongestPart) return "a name in it is longer than 255 bytes";
  }
  return {};
}

std::string_view outputs_problem(std::string_view path) {
  if (const std::string_view problem = relative_path_problem(path); !problem.empty()) {
    return problem;
  }
  const std::string_view first = first_part(path);
  const bool one_name = first.size() == path.size();
  if (std::find(kTaken.begin(), kTaken.end(), first) != kTaken.end() ||
      (one_name && (first == "work" || first.find('.') != std::string_view::npos ||
                    first == "secret" || first == "hello"))) {
    return "the job's folder has something else of that name; choose another, such as results";
  }
  return {};
}

std::string_view to_string(ResultEntry::Kind kind) {
  switch (kind) {
    case ResultEntry::Kind::kFile:
      return "file";
    case ResultEntry::Kind::kFolder:
      return "folder";
    case ResultEntry::Kind::kLink:
      return "link";
    case ResultEntry::Kind::kOther:
      return "other";
  }
  return "?";
}

Result<ResultList> list_results(const ResultPlace& job, std::string_view path,
                                const std::string& after, std::size_t most) {
  if (path.empty()) return list_names(job);
  const Result<Place> place = place_of(job, path);
  if (!place.ok()) return place.error();
  ResultList list{.path = place->shown};
  const Result<elastic::Descriptor> folder = open_job_folder(job.folder, place->inside);
  if (!folder.ok()) {
    const Result<OpenFile> file = open_job_file(job.folder, place->inside);
    if (!file.ok()) return in_the_owners_words(file.error(), job, *place);
    list.is_file = true;
    list.entries.push_back(
        entry_of(place->shown.substr(place->shown.rfind('/') + 1), file->status));
    return list;
  }
  const Result<std::set<std::string>> names = names_after(*folder, after, most, list.unnamed);
  if (!names.ok()) return Error{names.error().code, place->shown + names.error().message};
  list_folder(*folder, *names, most, list);
  return list;
}

Result<OpenFile> open_result(const ResultPlace& job, std::string_view path) {
  const Result<Place> place = place_of(job, path);
  if (!place.ok()) return place.error();
  Result<OpenFile> file = open_job_file(job.folder, place->inside);
  if (!file.ok()) return in_the_owners_words(file.error(), job, *place);
  return file;
}

}  // namespace rubato::control
