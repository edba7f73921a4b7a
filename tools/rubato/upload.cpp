#include "upload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "control/uploads.h"
#include "elastic/transport/descriptor.h"
#include "elastic/transport/secret.h"
#include "file_fetch.h"

namespace rubato::cli {

namespace {

using control::UploadEntry;
using control::UploadManifest;
using elastic::Descriptor;
using nlohmann::json;

constexpr const char* kIgnoreFile = ".rubatoignore";
constexpr std::array<const char*, 8> kAlwaysIgnored{
    ".git", ".hg", ".svn", ".jj", "__pycache__", ".pytest_cache", ".mypy_cache", ".venv"};
constexpr std::size_t kFilesPerQuestion = 5000;
constexpr std::size_t kPartBytes = 768 * 1024;  // a request takes at most 1 MiB

Error unreadable(const std::string& path) {
  return {ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(errno))};
}

// Patterns as in .gitignore: with a '/' inside they begin at the folder, otherwise they match a
// name anywhere; with one at the end they match folders only.
class Ignored {
 public:
  static Result<Ignored> read(const std::string& folder) {
    Ignored ignored;
    for (const char* name : kAlwaysIgnored) ignored.patterns_.push_back({name, false, false});
    const std::string path = fmt::format("{}/{}", folder, kIgnoreFile);
    if (!is_file(path)) return ignored;
    const Result<std::string> text = read_file(path);
    if (!text.ok()) return text.error();
    int line_number = 0;
    for (const std::string_view line : split(*text, '\n')) {
      ++line_number;
      std::string_view pattern = trim(line);
      if (pattern.empty() || pattern.starts_with('#')) continue;
      if (pattern.starts_with('!')) {
        return invalid_input(fmt::format(
            "{}:{}: '!' is not supported; write what to leave out, a pattern on each line", path,
            line_number));
      }
      const bool folders_only = pattern.ends_with('/');
      while (pattern.ends_with('/')) pattern.remove_suffix(1);
      const bool from_top = pattern.find('/') != std::string_view::npos;
      if (pattern.starts_with('/')) pattern.remove_prefix(1);
      ignored.patterns_.push_back({std::string(pattern), from_top, folders_only});
    }
    return ignored;
  }
  bool matches(const std::string& path, bool is_folder) const {
    const std::string name = path.substr(path.rfind('/') + 1);
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
      if (pattern.folders_only && !is_folder) return false;
      return fnmatch(pattern.text.c_str(), pattern.from_top ? path.c_str() : name.c_str(),
                     FNM_PATHNAME) == 0;
    });
  }

 private:
  struct Pattern {
    std::string text;
    bool from_top = false;
    bool folders_only = false;
  };
  std::vector<Pattern> patterns_;
};

Error not_wanted(const std::string& path, std::string_view problem) {
  return invalid_input(
      fmt::format("{}: {}; name it in {} to leave it out", shown_name(path), problem, kIgnoreFile));
}

Status add_entry(const std::string& folder, const std::string& path, const struct stat& status,
                 UploadManifest& manifest) {
  const std::string full = folder + "/" + path;
  UploadEntry entry{.path = path};
  if (S_ISLNK(status.st_mode)) {
    std::array<char, 4096> target{};
    const ssize_t size = readlink(full.c_str(), target.data(), target.size());
    if (size < 0) return unreadable(full);
    entry.link.assign(target.data(), static_cast<std::size_t>(size));
    const std::string_view problem = control::link_problem(path, entry.link);
    if (!problem.empty()) return not_wanted(path, problem);
  } else if (S_ISREG(status.st_mode)) {
    entry.size = status.st_size;
    entry.executable = (status.st_mode & S_IXUSR) != 0;
  } else {
    return not_wanted(path, "is neither a file nor a folder");
  }
  manifest.push_back(std::move(entry));
  if (static_cast<std::int64_t>(manifest.size()) > control::kMostUploadFiles) {
    return invalid_input(fmt::format(
        "{}: more than {} files; is it the right folder? Name in {} what the job does not need",
        folder, control::kMostUploadFiles, kIgnoreFile));
  }
  return ok_status();
}

Status add_folder(const std::string& folder, const std::string& below, const Ignored& ignored,
                  UploadManifest& manifest) {
  const std::string here = below.empty() ? folder : folder + "/" + below;
  const Result<std::vector<std::string>> names = list_directory(here);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    const std::string path = below.empty() ? name : below + "/" + name;
    struct stat status {};
    if (lstat((folder + "/" + path).c_str(), &status) != 0) {
      if (errno == ENOENT) continue;  // gone meanwhile
      return unreadable(folder + "/" + path);
    }
    if (ignored.matches(path, S_ISDIR(status.st_mode))) continue;
    if (shown_name(name) != name) return not_wanted(path, "its name is not plain text");
    const Status added = S_ISDIR(status.st_mode) ? add_folder(folder, path, ignored, manifest)
                                                 : add_entry(folder, path, status, manifest);
    if (!added.ok()) return added;
  }
  return ok_status();
}

Status hash_file(const std::string& folder, UploadEntry& entry) {
  const std::string full = folder + "/" + entry.path;
  const Descriptor file(open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return unreadable(full);
  Sha256 sum;
  std::array<char, 256 * 1024> block{};
  entry.size = 0;
  for (;;) {
    const ssize_t got = read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(full);
    if (got == 0) break;
    sum.update(std::string_view(block.data(), static_cast<std::size_t>(got)));
    entry.size += got;
  }
  entry.sha256 = to_hex(sum.finish());
  return ok_status();
}

// Asks in several requests if there are many.
Result<std::set<std::string>> ask_missing(Client& client,
                                          const std::vector<control::UploadPiece>& pieces) {
  std::set<std::string> missing;
  for (std::size_t begin = 0; begin < pieces.size(); begin += kFilesPerQuestion) {
    json files = json::array();
    for (std::size_t i = begin; i < std::min(pieces.size(), begin + kFilesPerQuestion); ++i) {
      files.push_back({{"sha256", pieces[i].sha256}, {"size", pieces[i].size}});
    }
    const Result<json> answer =
        client.send("POST", "/uploads/missing", {{"files", std::move(files)}});
    if (!answer.ok()) return answer.error();
    for (const json& each : answer->value("missing", json::array())) {
      if (each.is_string()) missing.insert(each.get<std::string>());
    }
  }
  return missing;
}

// Sends what `read` gives for an offset. A part that was lost is sent again with the others.
Status send_parts(Client& client, const control::UploadPiece& piece, const std::string& id,
                  const std::function<Result<std::string>(std::int64_t)>& read) {
  constexpr int kTries = 3;
  for (int tries = 1;; ++tries) {
    std::int64_t offset = 0;
    Error problem;
    bool complete = false;
    bool failed = false;
    while (!complete && !failed) {
      const Result<std::string> bytes = read(offset);
      if (!bytes.ok()) return bytes.error();
      const Result<json> answer = client.put_bytes(
          fmt::format("/uploads/{}?size={}&offset={}&id={}", piece.sha256, piece.size, offset, id),
          *bytes);
      if (!answer.ok()) {
        problem = answer.error();
        failed = true;
      } else {
        complete = answer->value("complete", false);
        offset += static_cast<std::int64_t>(bytes->size());
        failed = !complete && offset >= piece.size;
        if (failed) problem = invalid_input("the daemon did not take an uploaded file");
      }
    }
    if (complete) return ok_status();
    const bool again = problem.code == ErrorCode::kIo || problem.code == ErrorCode::kRefused;
    if (!again || tries == kTries) return problem;
  }
}

Status send_file(Client& client, const std::string& folder, const UploadEntry& entry,
                 const std::string& id) {
  const std::string full = folder + "/" + entry.path;
  const Descriptor file(open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return unreadable(full);
  const Status sent = send_parts(
      client, {entry.sha256, entry.size}, id, [&](std::int64_t offset) -> Result<std::string> {
        std::string bytes(
            static_cast<std::size_t>(std::clamp<std::int64_t>(entry.size - offset, 0, kPartBytes)),
            '\0');
        const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), offset);
        if (got != static_cast<ssize_t>(bytes.size())) {
          return invalid_input("it became shorter meanwhile");
        }
        return bytes;
      });
  if (sent.ok()) return sent;
  return Error{sent.error().code,
               fmt::format("upload of {}: {}", shown_name(entry.path), sent.error().message)};
}

void show_upload(std::int64_t bytes, std::int64_t total, const std::string& name) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r\x1b[Kuploading {} of {}  {}", bytes_text(bytes), bytes_text(total),
             shown_name(name).substr(0, 50));
  std::fflush(stderr);
}

}  // namespace

Result<UploadManifest> list_for_upload(const std::string& folder) {
  if (!is_directory(folder)) return invalid_input(folder + ": is not a folder");
  const Result<Ignored> ignored = Ignored::read(folder);
  if (!ignored.ok()) return ignored.error();
  UploadManifest manifest;
  Status done = add_folder(folder, "", *ignored, manifest);
  if (!done.ok()) return done.error();
  // Before everything is read: somebody's home folder is soon named by mistake.
  const std::int64_t most = control::UploadLimits{}.upload_bytes;
  if (control::bytes_of(manifest) > most) {
    return invalid_input(fmt::format(
        "{}: {}, and an upload has at most {}; name in {} what the job does not need, or put large "
        "data where the job can read it",
        folder, bytes_text(control::bytes_of(manifest)), bytes_text(most), kIgnoreFile));
  }
  for (UploadEntry& entry : manifest) {
    if (entry.link.empty()) done = hash_file(folder, entry);
    if (!done.ok()) return done.error();
  }
  return manifest;
}

Result<Uploaded> upload_folder(Client& client, const std::string& folder) {
  const Result<UploadManifest> manifest = list_for_upload(folder);
  if (!manifest.ok()) return manifest.error();
  const std::string list = control::manifest_text(*manifest);
  Uploaded done{.digest = sha256_hex(list), .files = static_cast<std::int64_t>(manifest->size())};
  std::vector<control::UploadPiece> pieces{{done.digest, static_cast<std::int64_t>(list.size())}};
  for (const UploadEntry& entry : *manifest) {
    if (entry.link.empty()) pieces.push_back({entry.sha256, entry.size});
  }
  Result<std::set<std::string>> missing = ask_missing(client, pieces);
  if (!missing.ok()) return missing.error();
  const auto random = elastic::random_nonce();
  if (!random.ok()) return random.error();
  const std::string id = to_hex(*random).substr(0, 32);
  std::int64_t total = 0;
  for (const control::UploadPiece& piece : pieces) {
    if (missing->contains(piece.sha256)) total += piece.size;
  }
  for (const UploadEntry& entry : *manifest) {
    // Two files with the same content are one.
    if (!entry.link.empty() || missing->erase(entry.sha256) == 0) continue;
    show_upload(done.sent_bytes, total, entry.path);
    const Status sent = send_file(client, folder, entry, id);
    if (!sent.ok()) return sent.error();
    ++done.sent_files;
    done.sent_bytes += entry.size;
  }
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
  // Last, so that a list is there only if its files are.
  if (missing->contains(done.digest)) {
    const Status sent = send_parts(client, pieces.front(), id, [&](std::int64_t offset) {
      return Result<std::string>(list.substr(static_cast<std::size_t>(offset), kPartBytes));
    });
    if (!sent.ok()) return sent.error();
  }
  return done;
}

}  // namespace rubato::cli
