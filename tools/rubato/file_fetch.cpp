#include "file_fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "control/job_files.h"
#include "interrupt.h"

namespace rubato::cli {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr int kMostTries = 40;  // of one file, without a byte in between
constexpr auto kPauseBetweenTries = std::chrono::milliseconds(500);
constexpr auto kDrawEvery = std::chrono::milliseconds(100);

Error file_error(const std::string& path, const char* what) {
  return {ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno))};
}

Error stopped() { return {ErrorCode::kRefused, "interrupted; complete files are kept"}; }

// A job chose the name, and a server that is not ours may have sent anything.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

mode_t current_umask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

// A file under a temporary name, removed unless it is given its own.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& target) {
    const std::size_t slash = target.rfind('/');
    std::string path = target.substr(0, slash + 1) + ".rubato-XXXXXX";
    const int file = mkostemp(path.data(), O_CLOEXEC);
    if (file < 0) return file_error(target, "create the file");
    return NewFile(file, path, target);
  }
  NewFile(NewFile&& other) noexcept
      : file_(std::exchange(other.file_, -1)),
        path_(std::exchange(other.path_, {})),
        target_(std::move(other.target_)) {}
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (file_ >= 0) close(file_);
    if (!path_.empty()) unlink(path_.c_str());
  }

  Status start_at(std::int64_t offset) {
    if (ftruncate(file_, offset) != 0 || lseek(file_, offset, SEEK_SET) != offset) {
      return file_error(target_, "write");
    }
    return ok_status();
  }
  Status write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(file_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return file_error(target_, "write");
      bytes.remove_prefix(static_cast<std::size_t>(done));
    }
    return ok_status();
  }
  Status finish(bool executable) {
    const mode_t mode = (executable ? 0777U : 0666U) & ~current_umask();
    if (fchmod(file_, mode) != 0) return file_error(target_, "change the mode");
    // Some file systems report a full disk only now.
    if (close(std::exchange(file_, -1)) != 0) return file_error(target_, "write");
    if (rename(path_.c_str(), target_.c_str()) != 0) return file_error(target_, "replace");
    path_.clear();
    return ok_status();
  }

 private:
  NewFile(int file, std::string path, std::string target)
      : file_(file), path_(std::move(path)), target_(std::move(target)) {}
  int file_;
  std::string path_;
  std::string target_;
};

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string shown_name(const std::string& name) {
  std::string text = control::plain_text(name, 4096);
  for (char& c : text) {
    if (c == '\n') c = '?';
  }
  return text;
}

// A restarted daemon may have another address, so there is a new one after a broken connection.
Status FileFetch::connect() {
  if (client_) return ok_status();
  Result<Client> client = Client::make(server_);
  if (!client.ok()) return client.error();
  client_.emplace(std::move(*client));
  return ok_status();
}

Result<json> FileFetch::list(const std::string& path) {
  json all;
  json next = "";
  while (next.is_string()) {
    std::string query =
        fmt::format("/jobs/{}/files?limit=10000&path={}", url_quoted(job_), url_quoted(path));
    const std::string after = next.get<std::string>();
    if (!after.empty()) query += "&after=" + url_quoted(after);
    if (const Status connected = connect(); !connected.ok()) return connected.error();
    Result<json> page = client_->get(query);
    if (!page.ok()) return page;
    if (!page->is_object() || !page->contains("entries") || !(*page)["entries"].is_array()) {
      return invalid_input("the server's list of files is not one");
    }
    next = page->value("next", json());
    if (all.is_null()) {
      all = std::move(*page);
    } else {
      for (json& entry : (*page)["entries"]) all["entries"].push_back(std::move(entry));
    }
    if (next.is_string() && next.get_ref<const std::string&>() <= after) break;  // no way on
  }
  return all;
}

Result<RemoteTree> FileFetch::find(const std::string& path) {
  RemoteTree tree;
  const Result<json> top = list(path);
  if (!top.ok()) return top.error();
  const std::string full = top->value("path", "");
  const std::string name = full.substr(full.rfind('/') + 1);
  if (top->value("kind", "") == "file") {
    const json entry = (*top)["entries"].at(0);
    if (!is_plain_name(name)) return invalid_input("the server sent the name " + shown_name(name));
    tree.files.push_back(
        {full, name, entry.value("size", std::int64_t{0}), entry.value("executable", false)});
    return tree;
  }
  const bool outputs = full == "outputs";
  if (!outputs) {
    if (!is_plain_name(name)) return invalid_input("the server sent the name " + shown_name(name));
    tree.folders.push_back(name);
  }
  const Status added = add_folder(full, outputs ? "" : name + "/", tree);
  if (!added.ok()) return added.error();
  return tree;
}

Status FileFetch::add_folder(const std::string& path, const std::string& local, RemoteTree& tree) {
  if (interrupted()) return stopped();
  const Result<json> listed = list(path);
  if (!listed.ok()) return listed.error();
  if (const auto unnamed = listed->value("unnamed", std::int64_t{0}); unnamed > 0) {
    tree.left_out.push_back(
        fmt::format("{}: {} with names that are not plain text", shown_name(path), unnamed));
  }
  for (const json& entry : (*listed)["entries"]) {
    const std::string name = entry.value("name", "");
    const std::string kind = entry.value("kind", "");
    if (!is_plain_name(name)) return invalid_input("the server sent the name " + shown_name(name));
    const std::string there = fmt::format("{}/{}", path, name);
    if (kind == "file") {
      tree.files.push_back({there, local + name, entry.value("size", std::int64_t{0}),
                            entry.value("executable", false)});
    } else if (kind == "folder") {
      tree.folders.push_back(local + name);
      const Status added = add_folder(there, local + name + "/", tree);
      if (!added.ok()) return added;
    } else {
      tree.left_out.push_back(
          fmt::format("{}: {}", shown_name(there), kind == "link" ? "a link" : "not a file"));
    }
  }
  return ok_status();
}

Status FileFetch::fetch(const RemoteTree& tree, const std::string& folder) {
  const InterruptNoted noted;
  Status made = make_directories(folder);
  for (const std::string& each : tree.folders) {
    if (made.ok()) made = make_directories(folder + "/" + each);
  }
  if (!made.ok()) return made;
  bytes_ = 0;
  total_bytes_ = 0;
  for (const RemoteFile& file : tree.files) total_bytes_ += file.size;
  Status done = ok_status();
  for (const RemoteFile& file : tree.files) {
    if (interrupted()) done = stopped();
    if (done.ok()) done = fetch_one(file, folder);
    if (!done.ok()) break;
  }
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
  return done;
}

Status FileFetch::fetch_one(const RemoteFile& remote, const std::string& folder) {
  Result<NewFile> file = NewFile::create(folder + "/" + remote.local);
  if (!file.ok()) return file.error();
  const std::string path =
      fmt::format("/jobs/{}/file?path={}", url_quoted(job_), url_quoted(remote.path));
  Client::FilePart at;
  Status local = ok_status();
  for (int tries = 1;; ++tries) {
    const std::int64_t before = at.first;
    if (const Status connected = connect(); !connected.ok()) return connected;
    const Status received = client_->receive_file(
        path, at,
        [&](const Client::FilePart& part) {
          bytes_ += part.first - at.first;
          at = part;
          local = file->start_at(part.first);
          return local.ok() && !interrupted();
        },
        [&](std::string_view bytes) {
          local = file->write(bytes);
          at.first += static_cast<std::int64_t>(bytes.size());
          bytes_ += static_cast<std::int64_t>(bytes.size());
          show(remote.local);
          return local.ok() && !interrupted();
        });
    if (interrupted()) return stopped();
    if (!local.ok()) return local;
    if (received.ok()) return file->finish(remote.executable);
    if (at.first > before) tries = 0;
    const bool known = !at.etag.empty();  // the daemon was there
    if (received.error().code != ErrorCode::kIo || !known || tries >= kMostTries) return received;
    client_.reset();
    std::this_thread::sleep_for(kPauseBetweenTries);
  }
}

void FileFetch::show(const std::string& name) {
  const auto now = steady_clock::now();
  if (isatty(STDERR_FILENO) == 0 || now - drawn_ < kDrawEvery) return;
  drawn_ = now;
  fmt::print(stderr, "\r\x1b[K{} of {}  {}", bytes_text(bytes_), bytes_text(total_bytes_),
             shown_name(name).substr(0, 50));
  std::fflush(stderr);
}

}  // namespace rubato::cli
