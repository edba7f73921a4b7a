#include "control/upload_unpack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "control/as_user.h"
#include "control/job_files.h"

namespace rubato::control {

namespace {

using elastic::Descriptor;

constexpr const char* kUnpacking = "work.new.";

Error unpack_error(const std::string& path, const char* what) {
  return {ErrorCode::kIo, fmt::format("its upload cannot be unpacked: {}: cannot {}: {}", path,
                                      what, std::strerror(errno))};
}

// Copies and returns the digest of what was read.
Result<std::string> copy_bytes(int from, int to, const std::string& path,
                               const std::atomic<bool>& stop) {
  Sha256 sum;
  std::array<char, 256 * 1024> block{};
  for (;;) {
    if (stop) return Error{ErrorCode::kIo, "its upload is not unpacked yet; the daemon stops"};
    const ssize_t got = read(from, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unpack_error(path, "read");
    if (got == 0) return to_hex(sum.finish());
    sum.update(std::string_view(block.data(), static_cast<std::size_t>(got)));
    for (ssize_t done = 0; done < got;) {
      const ssize_t wrote = write(to, block.data() + done, static_cast<std::size_t>(got - done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return unpack_error(path, "write");
      done += wrote;
    }
  }
}

Status unpack_file(Uploads& uploads, const std::string& store, const UploadEntry& entry,
                   const std::string& fresh, const std::atomic<bool>& stop) {
  const Result<Descriptor> from = uploads.open(store, entry.sha256);  // as the daemon
  if (!from.ok()) {
    return Error{from.error().code, fmt::format("its upload cannot be unpacked: {}: {}", entry.path,
                                                from.error().message)};
  }
  Descriptor to;
  {
    const AsUser rights = AsUser::owner_of(fresh.substr(0, fresh.rfind('/')));
    const std::string path = fresh + "/" + entry.path;
    Status made = make_directories(path.substr(0, path.rfind('/')));
    if (!made.ok()) return made;
    to = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           entry.executable ? 0700 : 0600));
    if (!to.valid()) return unpack_error(entry.path, "create");
  }
  const Result<std::string> digest = copy_bytes(from->get(), to.get(), entry.path, stop);
  if (!digest.ok()) return digest.error();
  if (*digest == entry.sha256) return ok_status();
  uploads.discard(store, entry.sha256);
  return invalid_input(fmt::format(
      "its upload is damaged: {} has another SHA-256 than when it came; submit it again",
      entry.path));
}

}  // namespace

std::optional<UploadName> parse_upload(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  UploadName name{std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
  const bool store =
      !name.store.empty() && name.store.size() <= 64 &&
      name.store.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == std::string::npos;
  if (!store || !is_digest(name.digest)) return std::nullopt;
  return name;
}

Status unpack_upload(Uploads& uploads, const UploadName& upload, const std::string& folder,
                     const std::atomic<bool>& stop) {
  const Result<UploadManifest> manifest = uploads.check(upload.store, upload.digest);
  if (!manifest.ok()) return manifest.error();
  // Another thread of this daemon may still be about to end, so it has a name of its own.
  std::string fresh = folder + "/" + kUnpacking + "XXXXXX";
  {
    const AsUser rights = AsUser::owner_of(folder);
    for (const std::string& name : list_job_folder(folder, "")) {
      if (name.starts_with(kUnpacking)) remove_tree(folder + "/" + name);
    }
    if (mkdtemp(fresh.data()) == nullptr) return unpack_error("work", "create");
  }
  for (const UploadEntry& entry : *manifest) {
    if (!entry.link.empty()) continue;
    const Status unpacked = unpack_file(uploads, upload.store, entry, fresh, stop);
    if (!unpacked.ok()) return unpacked;
  }
  const AsUser rights = AsUser::owner_of(folder);
  // Links last: no file is created through one.
  for (const UploadEntry& entry : *manifest) {
    if (entry.link.empty()) continue;
    const std::string path = fresh + "/" + entry.path;
    const Status made = make_directories(path.substr(0, path.rfind('/')));
    if (!made.ok()) return made;
    if (symlink(entry.link.c_str(), path.c_str()) != 0) return unpack_error(entry.path, "create");
  }
  if (std::rename(fresh.c_str(), (folder + "/work").c_str()) != 0) {
    return unpack_error("work", "rename");
  }
  return ok_status();
}

UploadUnpack::~UploadUnpack() {
  if (work_) work_->stop = true;
}

std::optional<Status> UploadUnpack::look(const std::shared_ptr<Uploads>& uploads,
                                         const std::string& upload, const std::string& folder) {
  if (work_) {
    if (!work_->done) return std::nullopt;
    return std::exchange(work_, nullptr)->result;
  }
  struct stat status {};
  if (lstat((folder + "/work").c_str(), &status) == 0) return ok_status();
  const std::optional<UploadName> name = parse_upload(upload);
  if (!name || !uploads) return Status(invalid_input("its upload is not known here: " + upload));
  work_ = std::make_shared<Work>();
  std::thread([work = work_, uploads, name = *name, folder] {
    const AsUser daemon = AsUser::daemon();  // a thread begins with the rights of its creator
    work->result = unpack_upload(*uploads, name, folder, work->stop);
    work->done = true;
  }).detach();
  return std::nullopt;
}

}  // namespace rubato::control
