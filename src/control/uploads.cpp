#include "control/uploads.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "base/sha256.h"

namespace rubato::control {

namespace {

using elastic::Descriptor;

constexpr auto kCollectEvery = std::chrono::hours(1);
constexpr std::size_t kShownStore = 16;

Error upload_error(const char* what) {
  return {ErrorCode::kIo,
          fmt::format("the upload cannot be stored: cannot {}: {}", what, std::strerror(errno))};
}

std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status;
}

void touch(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::vector<std::string> names_in(const std::string& folder) {
  const Result<std::vector<std::string>> names = list_directory(folder);
  return names.ok() ? *names : std::vector<std::string>();
}

Result<std::string> digest_of(int file) {
  Sha256 sum;
  std::array<char, 256 * 1024> block{};
  for (off_t at = 0;;) {
    const ssize_t got = pread(file, block.data(), block.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return upload_error("read it back");
    if (got == 0) return to_hex(sum.finish());
    sum.update(std::string_view(block.data(), static_cast<std::size_t>(got)));
    at += got;
  }
}

bool is_part_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 &&
         id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

double age_of(const struct stat& status, double now) {
  return now - static_cast<double>(status.st_mtim.tv_sec);
}

}  // namespace

void Uploads::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  ends_.notify_all();
  if (collector_.joinable()) collector_.join();
}

std::string Uploads::store_of(const std::string& tenant, bool admin) {
  // Names of tenants have spaces and slashes.
  return admin ? "admin" : sha256_hex("tenant " + tenant).substr(0, kShownStore);
}

std::string Uploads::file_of(const std::string& store, const std::string& digest) const {
  return fmt::format("{}/{}/files/{}", folder_, store, digest);
}

Status Uploads::make_store(const std::string& store) const {
  Status made = ok_status();
  for (const char* part : {"files", "parts"}) {
    if (made.ok()) made = make_directories(fmt::format("{}/{}/{}", folder_, store, part));
  }
  if (made.ok() && chmod(folder_.c_str(), 0700) != 0) return upload_error("make it private");
  return made;
}

std::int64_t Uploads::measure(const std::string& store) {
  std::int64_t bytes = 0;
  for (const char* part : {"files", "parts"}) {
    const std::string folder = fmt::format("{}/{}/{}", folder_, store, part);
    for (const std::string& name : names_in(folder)) {
      if (const auto status = status_of(folder + "/" + name)) bytes += status->st_size;
    }
  }
  return used_[store] = bytes;
}

Status Uploads::check_space(const std::string& store, std::int64_t bytes) {
  const auto known = used_.find(store);
  const std::int64_t used = known == used_.end() ? measure(store) : known->second;
  if (bytes > limits_.store_bytes - used) {
    return Error{ErrorCode::kRefused,
                 fmt::format("your uploads have {} here, and this needs {} more; at most {} are "
                             "kept. Those that no job needs are removed after {:.0f} days",
                             gigabytes(used), gigabytes(bytes), gigabytes(limits_.store_bytes),
                             limits_.keep_s / 86'400)};
  }
  struct statvfs disk {};
  if (statvfs(folder_.c_str(), &disk) == 0) {
    const auto free = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
    if (free - bytes < limits_.free_bytes) {
      return Error{ErrorCode::kRefused,
                   fmt::format("the daemon's disk has {} free, which is too little for an upload "
                               "of {}; an administrator must make room",
                               gigabytes(free), gigabytes(bytes))};
    }
  }
  return ok_status();
}

Result<std::vector<std::string>> Uploads::missing(const std::string& store,
                                                  const std::vector<UploadPiece>& pieces) {
  if (auto status = make_store(store); !status) return status.error();
  std::vector<std::string> missing;
  std::set<std::string> seen;
  std::int64_t bytes = 0;
  const MutexLock lock(mutex_);
  measure(store);
  for (const UploadPiece& piece : pieces) {
    if (!is_digest(piece.sha256) || piece.size < 0) {
      return invalid_input("files: expected the SHA-256 and the size of each");
    }
    if (!seen.insert(piece.sha256).second) continue;
    if (status_of(file_of(store, piece.sha256))) {
      touch(file_of(store, piece.sha256));
      continue;
    }
    missing.push_back(piece.sha256);
    if (__builtin_add_overflow(bytes, piece.size, &bytes) || bytes > limits_.upload_bytes) {
      return Error{ErrorCode::kRefused,
                   fmt::format("the upload has more than {}; leave out what the job does not need "
                               "(.rubatoignore), or put large data where the job can read it",
                               gigabytes(limits_.upload_bytes))};
    }
  }
  if (auto status = check_space(store, bytes); !status) return status.error();
  return missing;
}

Result<bool> Uploads::put(const std::string& store, const UploadPiece& piece, const std::string& id,
                          std::int64_t offset, std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  if (!is_digest(piece.sha256) || !is_part_id(id)) {
    return invalid_input("expected a SHA-256 and an id, in hexadecimal digits");
  }
  if (piece.size > limits_.upload_bytes || offset < 0 || offset > piece.size - count) {
    return invalid_input("these bytes are not part of a file of that size");
  }
  if (auto status = make_store(store); !status) return status.error();
  {
    const MutexLock lock(mutex_);
    if (auto status = check_space(store, count); !status) return status.error();
    used_[store] += count;
  }
  const std::string part = fmt::format("{}/{}/parts/{}.{}", folder_, store, piece.sha256, id);
  const Descriptor file(::open(part.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0) return upload_error("create a file");
  if (offset == 0 && ftruncate(file.get(), 0) != 0) return upload_error("begin anew");
  if (offset > 0 && status.st_size != offset) {
    return Error{ErrorCode::kRefused, "these bytes do not follow those that came before"};
  }
  for (std::int64_t done = 0; done < count;) {
    const ssize_t wrote = pwrite(file.get(), bytes.data() + done,
                                 static_cast<std::size_t>(count - done), offset + done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return upload_error("write");
    done += wrote;
  }
  if (offset + count < piece.size) return false;
  const Result<std::string> digest = digest_of(file.get());
  if (!digest.ok()) return digest.error();
  if (*digest != piece.sha256) {
    unlink(part.c_str());
    return invalid_input("the bytes have another SHA-256 than the file; did it change meanwhile?");
  }
  if (fdatasync(file.get()) != 0) return upload_error("write");
  if (std::rename(part.c_str(), file_of(store, piece.sha256).c_str()) != 0) {
    return upload_error("rename");
  }
  return true;
}

Result<Descriptor> Uploads::open(const std::string& store, const std::string& digest) const {
  Descriptor file(::open(file_of(store, digest).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.valid()) return file;
  if (errno == ENOENT) return Error{ErrorCode::kNotFound, "it is not here any more"};
  return upload_error("open");
}

void Uploads::discard(const std::string& store, const std::string& digest) {
  unlink(file_of(store, digest).c_str());
}

Result<std::string> Uploads::read_list(const std::string& store, const std::string& digest) const {
  const auto status = status_of(file_of(store, digest));
  if (!status) return Error{ErrorCode::kNotFound, "upload: its list is not here; upload it again"};
  if (status->st_size > kMostManifestBytes) return invalid_input("upload: its list is too long");
  return read_file(file_of(store, digest));
}

Result<UploadManifest> Uploads::check(const std::string& store, const std::string& digest) {
  const MutexLock lock(mutex_);  // nothing is removed meanwhile
  const Result<std::string> text = read_list(store, digest);
  if (!text.ok()) return text.error();
  Result<UploadManifest> manifest = parse_manifest(*text);
  if (!manifest.ok()) return manifest;
  if (bytes_of(*manifest) > limits_.upload_bytes) {
    return Error{ErrorCode::kRefused,
                 fmt::format("upload: more than {}", gigabytes(limits_.upload_bytes))};
  }
  for (const UploadEntry& entry : *manifest) {
    if (!entry.link.empty()) continue;
    const std::string file = file_of(store, entry.sha256);
    const auto status = status_of(file);
    if (!status || status->st_size != entry.size) {
      return Error{ErrorCode::kRefused,
                   fmt::format("upload: {} is not here; upload it again", entry.path)};
    }
    touch(file);
  }
  touch(file_of(store, digest));
  return manifest;
}

// What active jobs need: their lists and the files in them.
std::set<std::string> Uploads::kept_files(const std::string& store, const Needed& needed) const {
  std::set<std::string> kept;
  for (const auto& [its_store, digest] : needed) {
    if (its_store != store) continue;
    kept.insert(digest);
    const Result<std::string> text = read_list(store, digest);
    const Result<UploadManifest> manifest =
        text.ok() ? parse_manifest(*text) : Result<UploadManifest>(text.error());
    if (!manifest.ok()) continue;
    for (const UploadEntry& entry : *manifest) kept.insert(entry.sha256);
  }
  return kept;
}

void Uploads::collect(const Needed& needed, double now) {
  for (const std::string& store : names_in(folder_)) {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    const std::set<std::string> kept = kept_files(store, needed);
    const std::string files = fmt::format("{}/{}/files", folder_, store);
    for (const std::string& name : names_in(files)) {
      const auto status = status_of(files + "/" + name);
      if (!status || kept.contains(name) || age_of(*status, now) <= limits_.keep_s) continue;
      unlink((files + "/" + name).c_str());
    }
    const std::string parts = fmt::format("{}/{}/parts", folder_, store);
    for (const std::string& name : names_in(parts)) {
      const auto status = status_of(parts + "/" + name);
      if (status && age_of(*status, now) > limits_.part_s) unlink((parts + "/" + name).c_str());
    }
    used_.erase(store);
  }
}

void Uploads::collect_regularly(std::function<Needed()> needed, std::function<double()> now) {
  collector_ = std::thread([this, needed = std::move(needed), now = std::move(now)] {
    for (;;) {
      collect(needed(), now());
      const auto until = std::chrono::steady_clock::now() + kCollectEvery;
      const MutexLock lock(mutex_);
      while (!stopping_ && ends_.wait_until(mutex_, until)) {
      }
      if (stopping_) return;
    }
  });
}

}  // namespace rubato::control
