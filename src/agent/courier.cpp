#include "agent/courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/fetch_upload.h"
#include "control/as_user.h"

namespace rubato::agent {

namespace {

using control::JobNumber;

constexpr auto kMirrorEvery = std::chrono::milliseconds(400);
constexpr auto kFirstRetry = std::chrono::milliseconds(200);
constexpr int kMostRetryDoublings = 5;
constexpr std::int64_t kPortion = 16 << 20;

}  // namespace

Courier::Courier(const DaemonAddress& address, const std::string& node, const std::string& token,
                 std::shared_ptr<control::Uploads> uploads)
    : link_(address, node, token), uploads_(std::move(uploads)), thread_([this] { run(); }) {}

Courier::~Courier() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Courier::fetch(JobNumber number, const std::string& folder, const FetchOptions& options) {
  const MutexLock lock(mutex_);
  jobs_[number] = {.task = Task::kFetch, .stay = ++stays_, .folder = folder, .fetch = options};
  changed_.notify_all();
}

void Courier::mirror(JobNumber number, const std::string& folder, const MirrorOptions& options) {
  const MutexLock lock(mutex_);
  jobs_[number] = {.task = Task::kMirror,
                   .stay = ++stays_,
                   .folder = folder,
                   .mirror = std::make_shared<FolderMirror>(number, folder, options)};
  changed_.notify_all();
}

void Courier::finish(JobNumber number) {
  const MutexLock lock(mutex_);
  Job& job = jobs_[number];
  job.task = job.mirror == nullptr ? Task::kNothing : Task::kFinish;
  job.next = {};
  changed_.notify_all();
}

void Courier::drop(JobNumber number) {
  const MutexLock lock(mutex_);
  jobs_.erase(number);
}

bool Courier::busy(JobNumber number) const {
  const MutexLock lock(mutex_);
  return busy_ == number;
}

bool Courier::done(JobNumber number) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  return job != jobs_.end() && job->second.task == Task::kNothing;
}

std::string Courier::problem(JobNumber number) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(number);
  return job == jobs_.end() ? "" : job->second.problem;
}

JobNumber Courier::next_job() const {
  const auto first = std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
    const bool a_rests = a.second.task == Task::kNothing;
    const bool b_rests = b.second.task == Task::kNothing;
    return a_rests != b_rests ? b_rests : a.second.next < b.second.next;
  });
  return first == jobs_.end() || first->second.task == Task::kNothing ? 0 : first->first;
}

void Courier::run() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    const JobNumber number = next_job();
    if (number == 0) {
      changed_.wait(mutex_);
      continue;
    }
    const Job job = jobs_.at(number);
    if (job.next > Clock::now()) {
      changed_.wait_until(mutex_, job.next);
      continue;
    }
    busy_ = number;
    mutex_.unlock();
    const Result<bool> result = work(number, job);
    mutex_.lock();
    busy_ = 0;
    settle(number, job, result);
  }
}

Result<bool> Courier::work(JobNumber number, const Job& job) {
  if (job.task == Task::kFetch && !job.fetch.upload.empty()) {
    const Status fetched = fetch_upload(link_, number, *uploads_, job.fetch.upload);
    if (!fetched.ok()) return fetched.error();
  }
  const control::AsUser rights = control::AsUser::owner_of(job.folder);
  if (job.task != Task::kFetch) return job.mirror->send(link_, kPortion);
  const Status fetched = fetch_folder(link_, number, job.folder, job.fetch);
  if (!fetched.ok()) return fetched.error();
  return true;
}

void Courier::settle(JobNumber number, const Job& was, const Result<bool>& result) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || found->second.stay != was.stay) return;
  Job& job = found->second;
  if (!result.ok()) {
    job.problem = result.error().message;
    job.next = Clock::now() + kFirstRetry * (1 << std::min(job.failures++, kMostRetryDoublings));
    return;
  }
  job.problem.clear();
  job.failures = 0;
  if (!*result) return;  // others first, then the next portion
  if (job.task == Task::kMirror) job.next = Clock::now() + kMirrorEvery;
  // It may have been told to finish during an ordinary turn, which saw an earlier state.
  else if (job.task == was.task)
    job.task = Task::kNothing;
}

}  // namespace rubato::agent
