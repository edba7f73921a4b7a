#include "agent/folder_mirror.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include "base/file.h"
#include "control/job_files.h"

namespace rubato::agent {

namespace {

using control::JobNumber;
using control::kMostPartBytes;
using control::OpenFile;
using control::ResultEntry;

constexpr int kDeepest = 16;  // folders below `outputs`
constexpr std::string_view kEvents = "events.jsonl";
// What the node has on which the job was begun, and what the leader's has.
constexpr std::array<std::string_view, 5> kFilesOfFirst{"job.json", "secret", "hello", "hopeless",
                                                        "tries.json"};
constexpr std::array<std::string_view, 4> kFiles{"result.json", "model.pt", "tensors.json",
                                                 "replay.json"};
// What workers need to join.
constexpr std::array<std::string_view, 3> kFilesOfGuest{"job.json", "secret", "hello"};

// What never changes once it has its name.
bool is_checkpoint(std::string_view path) { return path.starts_with("checkpoints/"); }
bool is_final(std::string_view path) {
  return path.starts_with("registry/") || is_checkpoint(path) || path == "secret";
}

bool is_kept(std::string_view path) { return path.starts_with("logs/") || path == kEvents; }

Status write_all(int file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      return Error{ErrorCode::kIo, fmt::format("{}: cannot write: {}", path, std::strerror(errno))};
    }
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return ok_status();
}

Status fetch_file(DaemonLink& link, JobNumber job, const control::CopiedFile& source,
                  const std::string& path) {
  Status made = make_directories(path.substr(0, path.rfind('/')));
  if (!made.ok()) return made;
  const elastic::Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot write: {}", path, std::strerror(errno))};
  }
  for (std::int64_t at = 0; at < source.size;) {
    auto bytes = link.get(job, source.path, at);
    if (!bytes.ok()) return bytes.error();
    if (bytes->empty()) break;
    if (Status written = write_all(file.get(), path, *bytes); !written.ok()) return written;
    at += static_cast<std::int64_t>(bytes->size());
  }
  return ok_status();
}

Status lengthen_events(const std::string& folder, std::int64_t length) {
  const std::string path = folder + "/" + std::string(kEvents);
  const elastic::Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot write: {}", path, std::strerror(errno))};
  }
  const off_t size = lseek(file.get(), 0, SEEK_END);
  if (size >= length) return ok_status();
  return write_all(file.get(), path, std::string(static_cast<std::size_t>(length - size), '\n'));
}

}  // namespace

Status fetch_folder(DaemonLink& link, JobNumber job, const std::string& folder,
                    const FetchOptions& options) {
  auto files = link.list(job);
  if (!files.ok()) return files.error();
  for (const control::CopiedFile& file : *files) {
    const std::string_view problem = control::relative_path_problem(file.path);
    if (!problem.empty() || file.path == "owner") continue;
    const bool guest = !options.guest_of.empty();
    const std::string own_events = fmt::format("nodes/{}/{}", options.guest_of, kEvents);
    const bool events = guest && file.path == own_events;
    const bool needed =
        !guest || events || file.path.starts_with("registry/view.") ||
        std::find(kFilesOfGuest.begin(), kFilesOfGuest.end(), file.path) != kFilesOfGuest.end();
    if (!needed || (file.path.starts_with("nodes/") && !events)) continue;
    Status fetched =
        fetch_file(link, job, file, folder + "/" + (events ? std::string(kEvents) : file.path));
    if (!fetched.ok()) return fetched;
  }
  return options.events_length > 0 ? lengthen_events(folder, options.events_length) : ok_status();
}

Status FolderMirror::ask_what_is_there(DaemonLink& link) {
  if (asked_) return ok_status();
  const auto files = link.list(job_);
  if (!files.ok()) return files.error();
  for (const control::CopiedFile& file : *files) {
    Sent& sent = sent_[file.path];
    sent.bytes = file.size;
    const Result<OpenFile> here = open(file.path);
    if (!here.ok()) continue;
    sent.version = {here->status.st_ino, 0, here->size()};
    if (!is_final(file.path) || here->size() != file.size) continue;
    sent.version.changed_ns =
        here->status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + here->status.st_mtim.tv_nsec;
    sent.whole = true;
  }
  asked_ = true;
  return ok_status();
}

void FolderMirror::add_outputs(std::vector<Source>& all, const std::string& path, int depth) const {
  std::string after;
  for (bool more = true; more;) {
    const auto list = control::list_results(place_, path, after, 1000);
    if (!list.ok()) return;
    for (const ResultEntry& entry : list->entries) {
      const std::string below = path + "/" + entry.name;
      if (entry.kind == ResultEntry::Kind::kFile) {
        all.push_back(
            {.path = place_.outputs + below.substr(control::kOutputs.size()), .file = {}});
      }
      if (entry.kind == ResultEntry::Kind::kFolder && depth < kDeepest) {
        add_outputs(all, below, depth + 1);
      }
    }
    more = list->more && !list->entries.empty();
    if (more) after = list->entries.back().name;
  }
}

// In the order in which they are sent. Which checkpoints there are is found out first.
std::vector<FolderMirror::Source> FolderMirror::sources() const {
  const std::string& folder = place_.folder;
  const std::vector<std::string> checkpoints = control::list_job_folder(folder, "checkpoints");
  std::vector<Source> all;
  const auto add = [&](std::string path, bool grows) {
    if (control::is_job_file(folder, path)) {
      all.push_back({.path = std::move(path), .file = {}, .grows = grows});
    }
  };
  const bool guest = !how_.node.empty();
  if (guest) {
    if (control::is_job_file(folder, std::string(kEvents))) {
      all.push_back({.path = fmt::format("nodes/{}/{}", how_.node, kEvents),
                     .file = std::string(kEvents),
                     .grows = true});
    }
  } else {
    add(std::string(kEvents), true);
    for (const std::string_view file : kFilesOfFirst) add(std::string(file), false);
  }
  for (const char* name : {"registry", "audit"}) {
    if (how_.spread && name == std::string_view("registry")) continue;
    for (const std::string& file : control::list_job_folder(folder, name)) {
      if (!file.starts_with('.')) add(fmt::format("{}/{}", name, file), false);
    }
  }
  for (const std::string_view file : kFiles) add(std::string(file), false);
  for (const std::string& file : control::list_job_folder(folder, "logs")) {
    add("logs/" + file, true);
  }
  add_outputs(all, std::string(control::kOutputs), 0);
  for (const std::string& file : checkpoints) {
    // Drafts have other names when they are complete.
    if (!file.starts_with('.') && !file.ends_with(".tmp")) add("checkpoints/" + file, false);
  }
  return all;
}

Result<OpenFile> FolderMirror::open(const std::string& path) const {
  if (path.starts_with(place_.outputs + "/")) {
    return control::open_result(
        place_, std::string(control::kOutputs) + path.substr(place_.outputs.size()));
  }
  return control::open_job_file(place_.folder, path);
}

const std::pair<const std::string, FolderMirror::Sent>* FolderMirror::last_checkpoint() const {
  const std::pair<const std::string, Sent>* last = nullptr;
  for (const auto& entry : sent_) {
    if (is_checkpoint(entry.first) && entry.second.whole && !entry.second.parts.empty()) {
      last = &entry;
    }
  }
  return last;
}

Status FolderMirror::send_part(DaemonLink& link, const std::string& path, Sent& sent,
                               const std::string& bytes) {
  const std::int64_t total = sent.version.size;
  if (!is_checkpoint(path)) return link.put(job_, path, total, sent.bytes, bytes);
  const auto part = static_cast<std::size_t>(sent.bytes / kMostPartBytes);
  Sha256 hash;
  hash.update(bytes);
  sent.parts.resize(part);
  sent.parts.push_back(hash.finish());
  const auto* const last = last_checkpoint();
  if (last != nullptr && part < last->second.parts.size() &&
      last->second.parts[part] == sent.parts[part]) {
    const auto count = static_cast<std::int64_t>(bytes.size());
    Status same = link.put_same(job_, path, total, sent.bytes, count, last->first);
    if (same.ok() || same.error().code != ErrorCode::kRefused) return same;
  }
  return link.put(job_, path, total, sent.bytes, bytes);
}

Result<std::int64_t> FolderMirror::send_one(DaemonLink& link, const Source& source,
                                            std::int64_t most) {
  const Result<OpenFile> file = open(source.file.empty() ? source.path : source.file);
  if (!file.ok()) return most;  // it was removed a moment ago
  const struct stat& status = file->status;
  const Version version{
      status.st_ino, status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec,
      file->size()};
  const auto [entry, fresh] = sent_.try_emplace(source.path);
  Sent& sent = entry->second;
  sent.here = true;
  if (sent.whole && sent.version == version) return most;
  if (source.grows) {
    if (sent.version.inode != version.inode || sent.bytes > version.size) sent.bytes = 0;
  } else if (fresh || sent.version != version) {
    sent.bytes = 0;
  }
  sent.whole = false;
  sent.version = version;
  while (most > 0) {
    const std::string bytes =
        file->read(sent.bytes, std::min(kMostPartBytes, version.size - sent.bytes));
    const bool empty_file = version.size == 0 && (fresh || !source.grows);
    if (bytes.empty() && !empty_file) {  // all was sent, or it was cut meanwhile
      sent.whole = sent.bytes == version.size;
      return most;
    }
    const Status done = source.grows ? link.append(job_, source.path, sent.bytes, bytes)
                                     : send_part(link, source.path, sent, bytes);
    if (!done.ok()) {
      sent.bytes = source.grows ? sent.bytes : 0;
      return done.error();
    }
    sent.bytes += static_cast<std::int64_t>(bytes.size());
    most -= static_cast<std::int64_t>(bytes.size());
    if (empty_file || sent.bytes == version.size) {
      sent.whole = true;
      return most;
    }
  }
  return most;
}

Status FolderMirror::remove_missing(DaemonLink& link, const std::vector<Source>& present) {
  std::set<std::string_view> here;
  for (const Source& source : present) here.insert(source.path);
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    if (here.contains(sent->first) || is_kept(sent->first) || (how_.spread && !sent->second.here)) {
      ++sent;
      continue;
    }
    Status removed = link.remove(job_, sent->first);
    if (!removed.ok()) return removed;
    sent = sent_.erase(sent);
  }
  return ok_status();
}

Result<bool> FolderMirror::send(DaemonLink& link, std::int64_t most) {
  if (const Status asked = ask_what_is_there(link); !asked.ok()) return asked.error();
  const std::vector<Source> all = sources();
  for (const Source& source : all) {
    const Result<std::int64_t> left = send_one(link, source, most);
    if (!left.ok()) return left.error();
    most = *left;
    if (most <= 0) return false;
  }
  const Status removed = remove_missing(link, all);
  if (!removed.ok()) return removed.error();
  return true;
}

}  // namespace rubato::agent
