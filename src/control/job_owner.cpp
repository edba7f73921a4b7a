#include "control/job_owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "control/as_user.h"
#include "control/supervise.h"

namespace rubato::control {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t kLongestOwner = 256;
constexpr std::size_t kShownOwner = 8;
constexpr auto kPatienceWithStop = std::chrono::seconds(5);
constexpr auto kPatienceWithKill = std::chrono::seconds(5);

std::string owner_file(const std::string& folder) { return folder + "/owner"; }

// The job may have put anything there, also a link or a pipe.
std::string read_short_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return "";
  struct stat info {};
  std::array<char, kLongestOwner> text{};
  ssize_t size = 0;
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
    size = ::read(file, text.data(), text.size());
  }
  ::close(file);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))};
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

// The number of "12" and of "12.ab34"; with `plain`, only of the first.
std::optional<JobNumber> number_in_name(std::string_view name, bool plain) {
  const std::size_t dot = name.find('.');
  if (plain && dot != std::string_view::npos) return std::nullopt;
  const auto number = parse_int(name.substr(0, dot));
  return number && *number > 0 ? number : std::nullopt;
}

bool runs(const std::string& folder) { return is_supervised(folder) || has_workers(folder); }

bool gone_within(const std::string& folder, steady_clock::duration patience) {
  const auto deadline = steady_clock::now() + patience;
  while (runs(folder)) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// Processes use the folder by its path, so none may be left when it gets another.
bool end_processes(const std::string& folder) {
  const AsUser rights = AsUser::owner_of(folder);
  if (!runs(folder)) return true;
  signal_supervisor(folder, SIGTERM);
  if (gone_within(folder, kPatienceWithStop)) return true;
  kill_supervised(folder);
  return gone_within(folder, kPatienceWithKill);
}

// Letters and digits of the owner only: the job may have written it.
std::string suffix_for(const FolderOwner& owner) {
  std::string suffix;
  for (const char c : owner.job.substr(0, kShownOwner)) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) suffix += c;
  }
  return suffix.empty() ? "unknown" : suffix;
}

SetAside set_aside(const std::string& jobs_folder, const std::string& name,
                   const FolderOwner& owner, bool number_known) {
  const std::string folder = jobs_folder + "/" + name;
  SetAside result{.folder = "jobs/" + name,
                  .message = fmt::format(
                      "jobs/{} belongs to {}, not to {}", name,
                      owner.job.empty() ? std::string("a job of an earlier history")
                                        : fmt::format("submission {} of store {}",
                                                      owner.job.substr(0, kLongestOwner),
                                                      owner.store.substr(0, kShownOwner)),
                      number_known ? fmt::format("j{} of this log", name) : "a job of this log")};
  if (!end_processes(folder)) {
    result.message += "; its processes cannot be ended, so it stays where it is";
    return result;
  }
  const std::string base = fmt::format("{}.{}", name, suffix_for(owner));
  std::string target = base;
  for (int i = 2; exists(jobs_folder + "/" + target); ++i) target = fmt::format("{}-{}", base, i);
  if (std::rename(folder.c_str(), (jobs_folder + "/" + target).c_str()) != 0) {
    result.message += "; it could not be renamed";
    return result;
  }
  result.moved_to = "jobs/" + target;
  return result;
}

}  // namespace

// "STORE JOB\n"; of a folder without an owner file, both are empty.
FolderOwner read_folder_owner(const std::string& folder) {
  const AsUser rights = AsUser::owner_of(folder);  // the daemon itself may not read it
  const std::string text = read_short_file(owner_file(folder));
  const std::vector<std::string_view> words = split(trim(text), ' ');
  if (words.size() == 2) return {std::string(words[0]), std::string(words[1])};
  if (!exists(owner_file(folder))) return {};
  return {.store = "?", .job = "?"};  // spoiled: it belongs to nobody
}

Status claim_folder(const std::string& folder, const FolderOwner& owner) {
  if (exists(folder)) {
    if (owns_folder(folder, owner.job)) return ok_status();
    return Error{ErrorCode::kRefused,
                 fmt::format("{} belongs to another job; move it away", folder)};
  }
  if (owner.job.empty()) return make_directories(folder);
  // It appears with its owner.
  const std::string fresh = folder + ".new";
  remove_tree(fresh);
  if (auto status = make_directories(fresh); !status) return status;
  const std::string text = fmt::format("{} {}\n", owner.store, owner.job);
  if (auto status = write_file(owner_file(fresh), text); !status) return status;
  if (std::rename(fresh.c_str(), folder.c_str()) == 0) return ok_status();
  return Error{ErrorCode::kIo,
               fmt::format("{}: cannot create the folder: {}", folder, std::strerror(errno))};
}

bool owns_folder(const std::string& folder, const std::string& uid) {
  return !exists(folder) || read_folder_owner(folder).job == uid;
}

std::vector<SetAside> set_aside_foreign(const std::string& jobs_folder, const State& state,
                                        bool all, const UidOf& uid_of) {
  std::vector<std::string> names;
  if (all) {
    const Result<std::vector<std::string>> found = list_directory(jobs_folder);
    if (found.ok()) names = *found;
  } else {
    for (const auto& [number, job] : state.jobs) {
      if (!ended(job.phase)) names.push_back(std::to_string(number));
    }
  }
  std::vector<SetAside> moved;
  for (const std::string& name : names) {
    const auto number = number_in_name(name, true);
    const std::string folder = jobs_folder + "/" + name;
    if (!number || !exists(folder)) continue;
    const auto job = state.jobs.find(*number);
    std::optional<std::string> uid;
    if (job != state.jobs.end()) {
      uid = job->second.uid;
    } else if (uid_of) {
      uid = uid_of(*number);
    }
    const FolderOwner owner = read_folder_owner(folder);
    if (uid && *uid == owner.job) continue;
    moved.push_back(set_aside(jobs_folder, name, owner, uid.has_value()));
  }
  return moved;
}

JobNumber highest_folder(const std::string& jobs_folder) {
  JobNumber highest = 0;
  const Result<std::vector<std::string>> names = list_directory(jobs_folder);
  if (!names.ok()) return highest;
  for (const std::string& name : *names) {
    highest = std::max(highest, number_in_name(name, false).value_or(0));
  }
  return highest;
}

NumberMark::NumberMark(const std::string& file)
    : file_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (file_ < 0) return;
  std::array<char, kLongestOwner> text{};
  const ssize_t size = ::pread(file_, text.data(), text.size(), 0);
  const std::string_view line(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::vector<std::string_view> words = split(trim(line), ' ');
  if (words.size() != 2) return;
  next_job_ = std::max<JobNumber>(1, parse_int(words[0]).value_or(1));
  store_ = words[1];
}

NumberMark::~NumberMark() {
  if (file_ >= 0) ::close(file_);
}

void NumberMark::note(const std::string& store, JobNumber next_job) {
  if ((store == store_ && next_job == next_job_) || file_ < 0) return;
  // Always as long, so that it fits where the last one was, also on a full disk.
  const std::string text = fmt::format("{:010} {}\n", next_job, store);
  if (::pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return;
  store_ = store;
  next_job_ = next_job;
}

}  // namespace rubato::control
