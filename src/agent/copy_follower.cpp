#include "agent/copy_follower.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "agent/fetch_upload.h"
#include "base/file.h"
#include "control/job_owner.h"
#include "control/job_reader.h"

namespace rubato::agent {

namespace {

using control::CopiedFile;
using control::JobCopy;
using control::JobNumber;
using control::JobRecord;

constexpr auto kRoundPause = std::chrono::milliseconds(1000);
constexpr int kPauseInRounds = 5;  // the leader has other work, too
constexpr int kJobsAtOnce = 500;

// What a job is continued from comes last, after everything that it refers to.
bool is_checkpoint(const CopiedFile& file) { return file.path.starts_with("checkpoints/"); }
bool grows(const CopiedFile& file) {
  return file.path.starts_with("logs/") || file.path.ends_with("events.jsonl");
}

void set_time(const std::string& path, std::int64_t modified_us) {
  const timespec at{.tv_sec = modified_us / 1'000'000, .tv_nsec = 1000 * (modified_us % 1'000'000)};
  const timespec both[2] = {at, at};
  static_cast<void>(utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW));
}

}  // namespace

CopyFollower::CopyFollower(std::string folder, std::string token, std::string ca_file)
    : folder_(std::move(folder)),
      token_(std::move(token)),
      ca_file_(std::move(ca_file)),
      uploads_(folder_ + "/uploads", control::UploadLimits()),
      thread_([this] { run(); }) {}

CopyFollower::~CopyFollower() {
  stop();
  thread_.join();
}

void CopyFollower::follow(const std::string& url, const std::string& store) {
  const MutexLock lock(mutex_);
  whom_ = {url, store};
}

void CopyFollower::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  const MutexLock lock(writing_);  // what is being written is
}

bool CopyFollower::stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

Status CopyFollower::write(const std::function<Status()>& what) {
  const MutexLock lock(writing_);
  if (stopping()) return Error{ErrorCode::kIo, "this daemon leads"};
  return what();
}

void CopyFollower::run() {
  using Clock = std::chrono::steady_clock;
  Whom before;
  std::unique_ptr<DaemonLink> link;
  Clock::duration pause = kRoundPause;
  for (;;) {
    Whom now;
    {
      const MutexLock lock(mutex_);
      const auto until = Clock::now() + pause;
      while (!stopping_ && changed_.wait_until(mutex_, until)) {
      }
      if (stopping_) return;
      now = whom_;
    }
    if (now.url != before.url || now.store != before.store) {
      done_.clear();
      all_done_ = 0;
      before = now;
      link = now.url.empty()
                 ? nullptr
                 : std::make_unique<DaemonLink>(DaemonAddress{now.url, ca_file_}, "-", token_);
    }
    const auto began = Clock::now();
    if (link && !now.store.empty()) round(*link, now.store);
    pause = std::max<Clock::duration>(kRoundPause, kPauseInRounds * (Clock::now() - began));
  }
}

void CopyFollower::round(DaemonLink& link, const std::string& store) {
  const auto jobs = control::JobReader::open(folder_ + "/rubato.db");
  if (!jobs.ok()) return;
  bool all_done = true;  // so far in this round
  for (JobNumber after = all_done_;;) {
    const auto some = (*jobs)->list({.after = after, .limit = kJobsAtOnce});
    if (!some.ok() || some->empty()) return;
    for (const JobRecord& job : *some) {
      after = job.number;
      if (!done_.contains(job.uid)) {
        const Status copied = copy(link, job, store);
        if (stopping()) return;
        if (!copied.ok() && copied.error().code == ErrorCode::kIo) return;  // the leader is away
        const bool gone = !copied.ok() && copied.error().code == ErrorCode::kNotFound;
        if (control::ended(job.phase) && (copied.ok() || gone)) done_.insert(job.uid);
      }
      all_done = all_done && done_.contains(job.uid);
      if (!all_done) continue;
      all_done_ = job.number;
      done_.erase(job.uid);
    }
  }
}

Status CopyFollower::copy(DaemonLink& link, const JobRecord& job, const std::string& store) {
  if (!job.document.upload.empty() && !control::ended(job.phase)) {
    Status fetched = fetch_upload(link, job.number, uploads_, job.document.upload);
    if (!fetched.ok() && fetched.error().code == ErrorCode::kIo) return fetched;
  }
  auto files = link.list(job.number);
  if (!files.ok()) return files.error();
  const std::string folder = fmt::format("{}/jobs/{}", folder_, job.number);
  Status claimed = write([&]() -> Status {
    if (Status made = make_directories(folder_ + "/jobs"); !made.ok()) return made;
    return control::claim_folder(folder, {.store = store, .job = job.uid});
  });
  if (!claimed.ok()) return claimed;
  JobCopy copy(folder);
  std::map<std::string, CopiedFile> here;
  if (const auto list = copy.list(); list.ok()) {
    for (const CopiedFile& file : *list) here[file.path] = file;
  }
  std::stable_partition(files->begin(), files->end(),
                        [](const CopiedFile& file) { return !is_checkpoint(file); });
  for (const CopiedFile& file : *files) {
    const auto own = here.find(file.path);
    const bool same = own != here.end() && own->second.size == file.size &&
                      own->second.modified_us == file.modified_us;
    const std::int64_t from =
        own != here.end() && grows(file) && own->second.size < file.size ? own->second.size : 0;
    if (own != here.end()) here.erase(own);
    if (same) continue;
    Status fetched = fetch(link, job.number, copy, folder, file, from);
    if (!fetched.ok() && fetched.error().code != ErrorCode::kNotFound) return fetched;
  }
  for (const auto& [path, file] : here) {
    Status removed = write([&, name = path] { return copy.remove(name); });
    if (!removed.ok()) return removed;
  }
  return ok_status();
}

Status CopyFollower::fetch(DaemonLink& link, JobNumber job, JobCopy& copy,
                           const std::string& folder, const CopiedFile& file, std::int64_t from) {
  std::int64_t at = from;
  do {
    const auto bytes = link.get(job, file.path, at);
    if (!bytes.ok()) return bytes.error();
    const std::string part =
        bytes->substr(0, static_cast<std::size_t>(std::min<std::int64_t>(
                             static_cast<std::int64_t>(bytes->size()), file.size - at)));
    // It has become shorter; the next round sees what it is then.
    if (part.empty() && at < file.size) return Error{ErrorCode::kNotFound, file.path};
    Status written = write([&] {
      return from > 0 ? copy.append(file.path, at, part) : copy.put(file.path, file.size, at, part);
    });
    if (!written.ok()) return written;
    at += static_cast<std::int64_t>(part.size());
  } while (at < file.size);
  return write([&]() -> Status {
    set_time(folder + "/" + file.path, file.modified_us);
    return ok_status();
  });
}

}  // namespace rubato::agent
