#include "control/job_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"

namespace rubato::control {

namespace {

using elastic::Descriptor;

constexpr int kCarefully = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
constexpr std::int64_t kTailBytes = 1 << 16;

// Where the search for a file starts: the folder that contains the job's folder, which no job can
// write (for a folder directly below /, which may be a file system of its own, that folder), and
// the rest of the path.
struct Way {
  std::string root;
  std::string path;
};

Way way_to(const std::string& folder, const std::string& name) {
  const std::size_t slash = folder.find_last_of('/');
  if (slash == std::string::npos) return {".", folder + "/" + name};
  if (slash == 0) return {folder, name};
  return {folder.substr(0, slash), folder.substr(slash + 1) + "/" + name};
}

// openat2() is missing in older kernels and in some sandboxes.
int open_step_by_step(int root, const std::string& path, int flags, dev_t device) {
  Descriptor at;
  int from = root;
  std::size_t begin = 0;
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       begin = slash + 1, slash = path.find('/', begin)) {
    if (slash == begin) continue;
    at = Descriptor(openat(from, path.substr(begin, slash - begin).c_str(),
                           O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!at.valid()) return -1;
    if (fstat(at.get(), &status) != 0 || status.st_dev != device) {
      errno = EXDEV;
      return -1;
    }
    from = at.get();
  }
  const std::string last = path.substr(begin);
  return openat(from, last.empty() ? "." : last.c_str(), flags);
}

// A descriptor, or -1 and errno.
int open_beneath(const Way& way, int flags) {
  const Descriptor root(::open(way.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return -1;
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  const auto opened =
      static_cast<int>(syscall(SYS_openat2, root.get(), way.path.c_str(), &how, sizeof how));
  if (opened >= 0 || (errno != ENOSYS && errno != EPERM)) return opened;
  struct stat status {};
  if (fstat(root.get(), &status) != 0) return -1;
  return open_step_by_step(root.get(), way.path, flags, status.st_dev);
}

Error refusal(const std::string& folder, const std::string& name, int code) {
  const std::string path = folder + "/" + name;
  switch (code) {
    case ENOENT:
      return {ErrorCode::kNotFound, path + ": no such file"};
    case ELOOP:
      return invalid_input(path + ": is a link; expected a file");
    case EXDEV:
      return invalid_input(path + ": lies in another file system; expected a file of the job");
    case ENOTDIR:
    case EISDIR:
    case ENXIO:  // a socket
    case ENODEV:
    case EACCES:
      return invalid_input(fmt::format("{}: {}; expected a file that the daemon can read", path,
                                       std::strerror(code)));
    default:
      return {ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(code))};
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Strict UTF-8: the length of the character that `text` begins with, or 0.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool too_long = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool too_large = first == 0xf4 && byte(1) >= 0x90;
  return too_long || surrogate || too_large ? 0 : length;
}

}  // namespace

std::string OpenFile::read(std::int64_t offset, std::int64_t most) const {
  std::string bytes;
  if (offset < 0 || offset >= size()) return bytes;
  bytes.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(size() - offset, 0, most)));
  const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), offset);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

Result<OpenFile> open_job_file(const std::string& folder, const std::string& name) {
  OpenFile opened;
  opened.file = Descriptor(open_beneath(way_to(folder, name), O_RDONLY | kCarefully));
  if (!opened.file.valid()) return refusal(folder, name, errno);
  if (fstat(opened.file.get(), &opened.status) != 0) return refusal(folder, name, errno);
  if (!S_ISREG(opened.status.st_mode)) {
    return invalid_input(
        fmt::format("{}/{}: is {}; expected a file", folder, name, kind_of(opened.status.st_mode)));
  }
  // A hard link to somebody else's file is not the job's.
  struct stat owner {};
  if (opened.status.st_uid != geteuid() &&
      (::stat(folder.c_str(), &owner) != 0 || owner.st_uid != opened.status.st_uid)) {
    return invalid_input(fmt::format("{}/{}: belongs to user {}; expected a file of the job",
                                     folder, name, opened.status.st_uid));
  }
  return opened;
}

Result<std::string> read_job_file(const std::string& folder, const std::string& name,
                                  std::int64_t most) {
  const Result<OpenFile> opened = open_job_file(folder, name);
  if (!opened.ok()) return opened.error();
  if (opened->size() > most) {
    return invalid_input(fmt::format("{}/{}: has {} bytes; expected at most {}", folder, name,
                                     opened->size(), most));
  }
  return opened->read(0, most);
}

Result<nlohmann::json> read_job_object(const std::string& folder, const std::string& name,
                                       std::int64_t most) {
  const Result<std::string> text = read_job_file(folder, name, most);
  if (!text.ok()) return text.error();
  nlohmann::json value = parse_untrusted(*text);
  if (value.is_object()) return value;
  return invalid_input(fmt::format("{}/{}: {}; expected a JSON object with at most {} levels",
                                   folder, name,
                                   text->empty()          ? "is empty"
                                   : value.is_discarded() ? "is not JSON"
                                                          : "is not an object",
                                   kMostDepth));
}

std::string last_line_of(const std::string& folder, const std::string& name) {
  const Result<OpenFile> opened = open_job_file(folder, name);
  if (!opened.ok()) return "";
  const std::string text =
      opened->read(std::max<std::int64_t>(0, opened->size() - kTailBytes), kTailBytes);
  std::string_view rest = text;
  while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  const std::size_t start = rest.rfind('\n');
  if (start != std::string_view::npos) rest.remove_prefix(start + 1);
  return plain_text(rest);
}

Result<Descriptor> open_job_folder(const std::string& folder, const std::string& name) {
  Descriptor opened(open_beneath(way_to(folder, name), O_RDONLY | O_DIRECTORY | kCarefully));
  if (!opened.valid()) return refusal(folder, name, errno);
  return opened;
}

std::vector<std::string> list_job_folder(const std::string& folder, const std::string& name) {
  std::vector<std::string> names;
  const int opened = open_beneath(way_to(folder, name), O_RDONLY | O_DIRECTORY | kCarefully);
  if (opened < 0) return names;
  DIR* entries = fdopendir(opened);
  if (entries == nullptr) {
    close(opened);
    return names;
  }
  while (const dirent* entry = readdir(entries)) {
    if (names.size() == kMostEntries) break;
    const std::string_view each = entry->d_name;
    if (each != "." && each != "..") names.emplace_back(each);
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_job_file(const std::string& folder, const std::string& name) {
  const Descriptor opened(open_beneath(way_to(folder, name), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  return opened.valid() && fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode);
}

void clear_way(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  if (!S_ISDIR(status.st_mode) && std::remove(path.c_str()) == 0) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::string aside = fmt::format("{}.refused.{}{:09}", path, now.tv_sec, now.tv_nsec);
  static_cast<void>(std::rename(path.c_str(), aside.c_str()));
}

nlohmann::json parse_untrusted(std::string_view text, int most_depth) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most_depth) return nlohmann::json(nlohmann::json::value_t::discarded);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return parse_json(text);
}

std::string plain_text(std::string_view text, std::size_t most) {
  std::string plain;
  while (!text.empty() && plain.size() < most) {
    const std::size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (first == '\n') {
      plain += '\n';
    } else if (length == 0 || first < 0x20 || first == 0x7f) {
      plain += first == '\t' ? ' ' : '?';
    } else if (plain.size() + length <= most) {
      plain.append(text.substr(0, length));
    } else {
      break;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return plain;
}

}  // namespace rubato::control
