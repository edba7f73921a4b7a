#include "control/folder_removal.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "control/as_user.h"
#include "control/job_owner.h"
#include "elastic/transport/descriptor.h"

namespace rubato::control {

namespace {

using elastic::Descriptor;

constexpr std::string_view kRemoved = ".removed";
constexpr int kDeepest = 32;       // of folders that are open at the same time
constexpr int kPortion = 500;      // entries between two looks at whether to stop
constexpr int kMostNames = 10000;  // tries to find an unused name

bool there_is(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

Descriptor open_folder(int parent, const char* name) {
  return Descriptor(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

// Empties one folder, up to a number of entries.
class Emptying {
 public:
  Emptying(Descriptor top, int most) : top_(std::move(top)), left_(most) {
    struct stat info {};
    if (::fstat(top_.get(), &info) == 0) device_ = info.st_dev;
  }

  void run() { empty(top_.get(), 1); }
  bool did_something() const { return done_ > 0; }
  const std::string& problem() const { return problem_; }  // the first one

 private:
  // Removes what is in it. Links count as what they are.
  void empty(int folder, int depth) {
    // The owner may have taken away its own right to do so.
    static_cast<void>(::fchmod(folder, 0700));
    const OpenFolder entries(::fdopendir(::fcntl(folder, F_DUPFD_CLOEXEC, 0)));
    if (entries == nullptr) return note("cannot be read");
    ::rewinddir(entries.get());
    while (left_ > 0) {
      const dirent* entry = ::readdir(entries.get());
      if (entry == nullptr) return;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") remove(folder, name.c_str(), depth);
    }
  }

  void remove(int folder, const char* name, int depth) {
    struct stat info {};
    if (::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return note(name);
    if (!S_ISDIR(info.st_mode)) return count(::unlinkat(folder, name, 0), name);
    if (info.st_dev != device_) return note("another file system is mounted in it");
    if (::unlinkat(folder, name, AT_REMOVEDIR) == 0) return count(0, name);
    if (depth == kDeepest) return lift(folder, name);
    Descriptor child = open_folder(folder, name);
    if (!child.valid() && errno == EACCES) {
      static_cast<void>(::fchmodat(folder, name, 0700, 0));
      child = open_folder(folder, name);
    }
    if (!child.valid()) return note(name);
    empty(child.get(), depth + 1);
    if (left_ > 0) count(::unlinkat(folder, name, AT_REMOVEDIR), name);
  }

  // What is too deep is moved up and comes again.
  void lift(int folder, const char* name) {
    for (int i = 0; i < kMostNames; ++i) {
      const std::string target = fmt::format("lifted-{}", i);
      if (::renameat(folder, name, top_.get(), target.c_str()) == 0) return count(0, name);
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) break;
    }
    note(name);
  }

  void count(int result, const char* name) {
    --left_;
    if (result == 0) {
      ++done_;
    } else {
      note(name);
    }
  }
  void note(const char* what) {
    if (problem_.empty()) problem_ = fmt::format("{} ({})", what, std::strerror(errno));
  }

  Descriptor top_;
  int left_;
  int done_ = 0;
  dev_t device_ = 0;
  std::string problem_;
};

Error cannot_remove(const std::string& folder, const std::string& why) {
  return {ErrorCode::kRefused, fmt::format("{}: cannot be removed: {}", folder, why)};
}

}  // namespace

Result<bool> remove_some(const std::string& jobs_folder, const Removal& removal, int most) {
  const std::string folder = fmt::format("{}/{}", jobs_folder, removal.job);
  const std::string doomed = folder + std::string(kRemoved);
  if (!there_is(doomed)) {
    if (!there_is(folder)) return true;
    if (!owns_folder(folder, removal.uid)) {
      return cannot_remove(folder, "its file 'owner' does not say that it belongs to that job");
    }
    if (std::rename(folder.c_str(), doomed.c_str()) != 0) {
      return cannot_remove(folder, std::strerror(errno));
    }
  }
  std::string problem;
  bool goes_on = false;
  {
    const AsUser rights = AsUser::owner_of(doomed);
    Descriptor top = open_folder(AT_FDCWD, doomed.c_str());
    if (!top.valid()) return cannot_remove(doomed, std::strerror(errno));
    Emptying emptying(std::move(top), most);
    emptying.run();
    goes_on = emptying.did_something();
    problem = emptying.problem();
  }
  if (::rmdir(doomed.c_str()) == 0) return true;
  if (goes_on) return false;
  return cannot_remove(doomed, problem.empty() ? std::strerror(errno) : problem);
}

std::vector<std::int64_t> half_removed(const std::string& jobs_folder) {
  std::vector<std::int64_t> jobs;
  const Result<std::vector<std::string>> names = list_directory(jobs_folder);
  if (!names.ok()) return jobs;
  for (std::string_view name : *names) {
    if (!name.ends_with(kRemoved)) continue;
    name.remove_suffix(kRemoved.size());
    if (const auto number = parse_int(name); number && *number > 0) jobs.push_back(*number);
  }
  return jobs;
}

FolderRemover::FolderRemover(std::string jobs_folder)
    : jobs_folder_(std::move(jobs_folder)), thread_([this] { run(); }) {}

FolderRemover::~FolderRemover() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FolderRemover::add(const Removal& removal) {
  {
    const MutexLock lock(mutex_);
    if (!known_.insert(removal.job).second) return;
    waiting_.push_back(removal);
  }
  changed_.notify_all();
}

std::vector<FolderRemover::Done> FolderRemover::take_done() {
  const MutexLock lock(mutex_);
  return std::exchange(done_, {});
}

bool FolderRemover::busy() {
  const MutexLock lock(mutex_);
  return !waiting_.empty() || !done_.empty();
}

void FolderRemover::run() {
  for (;;) {
    Removal removal;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && waiting_.empty()) changed_.wait(mutex_);
      if (stopping_) return;
      removal = waiting_.front();
    }
    const Result<bool> gone = remove_some(jobs_folder_, removal, kPortion);
    if (gone.ok() && !*gone) continue;  // after a look at whether to stop
    const MutexLock lock(mutex_);
    waiting_.pop_front();
    if (gone.ok()) known_.erase(removal.job);
    done_.push_back({.job = removal.job, .problem = gone.ok() ? "" : gone.error().message});
  }
}

}  // namespace rubato::control
