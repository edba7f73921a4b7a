#include "elastic/transport/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace rubato::elastic {

Result<Nonce> random_nonce() {
  static_assert(sizeof(Nonce) <= 256, "getrandom may return fewer bytes for longer requests");
  Nonce nonce;
  ssize_t count = 0;
  do {
    count = ::getrandom(nonce.data(), nonce.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(nonce.size())) {
    return Error{ErrorCode::kIo, fmt::format("cannot get random bytes: {}; the system must support "
                                             "getrandom(2)",
                                             std::strerror(errno))};
  }
  return nonce;
}

Status create_secret(const std::string& path) {
  static_assert(kSecretBytes == sizeof(Nonce));
  const auto secret = random_nonce();
  if (!secret) return secret.error();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Error{
        errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        fmt::format("{}: cannot create the job's secret: {}; choose a new file in a folder "
                    "with write permission",
                    path, std::strerror(errno))};
  }
  const ssize_t count = ::write(fd, secret->data(), secret->size());
  const int problem = errno;
  ::close(fd);
  if (count == static_cast<ssize_t>(secret->size())) return ok_status();
  ::unlink(path.c_str());
  return Error{ErrorCode::kIo, fmt::format("{}: cannot write the job's secret: {}; free some space",
                                           path, std::strerror(problem))};
}

Result<std::string> read_secret(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return Error{errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 fmt::format("{}: cannot read the job's secret: {}", path, std::strerror(errno))};
  }
  if (!S_ISREG(info.st_mode) || info.st_size != static_cast<off_t>(kSecretBytes)) {
    return invalid_input(
        fmt::format("{}: not a secret; expected the file of {} bytes created when "
                    "the job was started",
                    path, kSecretBytes));
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return invalid_input(
        fmt::format("{}: other users can read the job's secret; run: chmod 600 {}", path, path));
  }
  auto secret = read_file(path);
  if (secret && secret->size() != kSecretBytes) {
    return invalid_input(path + ": changed while it was read");
  }
  return secret;
}

}  // namespace rubato::elastic
