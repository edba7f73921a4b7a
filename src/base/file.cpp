#include "base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace rubato {

namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

Error io_error(const std::string& path, const char* doing) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {code, path + ": cannot " + doing + ": " + std::strerror(errno)};
}

Status write_with_mode(const std::string& path, std::string_view content, mode_t mode) {
  static std::atomic<int> counter{0};
  const std::string beside =
      path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
  ::unlink(beside.c_str());  // of an earlier process with this number
  {
    const int fd =
        ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) return io_error(beside, "create");
    const File file(::fdopen(fd, "wb"));
    if (!file) return io_error(beside, "create");
    if (std::fwrite(content.data(), 1, content.size(), file.get()) != content.size() ||
        std::fflush(file.get()) != 0) {
      Error error = io_error(beside, "write");
      std::remove(beside.c_str());
      return error;
    }
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    Error error = io_error(path, "replace");
    std::remove(beside.c_str());
    return error;
  }
  return ok_status();
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  if (is_directory(path)) {
    return Error{ErrorCode::kInvalidInput, path + ": is a directory; expected a file"};
  }
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) return io_error(path, "open");
  std::string content;
  char buffer[1 << 16];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
    content.append(buffer, count);
  }
  if (std::ferror(file.get()) != 0) return io_error(path, "read");
  return content;
}

Status write_file(const std::string& path, std::string_view content) {
  return write_with_mode(path, content, 0666);
}

Status write_private_file(const std::string& path, std::string_view content) {
  return write_with_mode(path, content, 0600);
}

Status make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Error{ErrorCode::kIo, path + ": cannot create: " + error.message()};
  return ok_status();
}

// Not std::filesystem::remove_all: pip's LibTorch exports a broken copy of it, and programs that
// link LibTorch would call that copy.
void remove_tree(const std::string& path) {
  nftw(
      path.c_str(),
      [](const char* entry, const struct stat*, int, struct FTW*) {
        static_cast<void>(std::remove(entry));
        return 0;
      },
      16, FTW_DEPTH | FTW_PHYS);
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return Error{ErrorCode::kNotFound, path + ": cannot list: " + error.message()};
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rubato
