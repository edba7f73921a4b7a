#include "api/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "api/channel.h"

namespace rubato::api {

namespace {

constexpr double kLookEvery = 0.05;  // at whether the caller is gone

Reply busy(int status, std::string_view code, std::string_view message) {
  Reply reply = error_reply(status, code, message);
  reply.headers["Retry-After"] = "1";
  return reply;
}

Reply stopping_reply() {
  return busy(503, "stopping", "the daemon is stopping; retry once it runs again");
}

}  // namespace

Plans::~Plans() {
  stop();
  std::list<Task> last;
  {
    const MutexLock lock(mutex_);
    while (std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return !task.done; })) {
      changed_.wait(mutex_);
    }
    last.swap(tasks_);
  }
  for (Task& task : last) task.thread.join();
}

void Plans::stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  for (Task& task : tasks_) task.abandoned = true;
  changed_.notify_all();
}

std::string Plans::refusal_of(const std::string& tenant) const {
  int all = 0;
  int own = 0;
  for (const Task& task : tasks_) {
    if (task.done) continue;
    ++all;
    own += task.tenant == tenant ? 1 : 0;
  }
  const int most_own = std::max(1, options_.most / 2);
  if (own >= most_own) {
    return fmt::format("{} of your plans {} in progress, which is the limit for one tenant", own,
                       own == 1 ? "is" : "are");
  }
  if (all >= options_.most || (own > 0 && all >= options_.most - 1)) {
    return fmt::format("{} plans are in progress, which is the limit", all);
  }
  return "";
}

void Plans::join_done() {
  std::list<Task> ended;
  {
    const MutexLock lock(mutex_);
    for (auto it = tasks_.begin(); it != tasks_.end();) {
      const auto next = std::next(it);
      if (it->done && !it->awaited) ended.splice(ended.end(), tasks_, it);
      it = next;
    }
  }
  for (Task& task : ended) task.thread.join();
}

Plans::Task* Plans::start(const std::string& tenant, Work work, Reply& refusal) {
  const MutexLock lock(mutex_);
  if (stopping_) {
    refusal = stopping_reply();
    return nullptr;
  }
  if (const std::string full = refusal_of(tenant); !full.empty()) {
    refusal = busy(429, "too-many-plans", full + "; retry after the time in Retry-After");
    return nullptr;
  }
  Task& task = tasks_.emplace_back();
  task.tenant = tenant;
  try {
    task.thread = std::thread([this, &task, work = std::move(work)] {
      Reply answer;
      try {
        answer = work([&task] { return task.abandoned.load(); });
      } catch (const std::exception& problem) {
        answer = error_reply(500, "internal", problem.what());
      }
      const MutexLock done(mutex_);
      task.answer = std::move(answer);
      task.done = true;
      changed_.notify_all();
    });
  } catch (const std::system_error&) {  // no more threads
    tasks_.pop_back();
    refusal = busy(503, "busy", "no thread is left for a plan; retry");
    return nullptr;
  }
  return &task;
}

Reply Plans::wait_for(Task& task, const std::function<bool()>& gone) {
  const Clock::time_point deadline = after_seconds(options_.answer_s);
  for (;;) {
    const Clock::time_point look_at = std::min(deadline, after_seconds(kLookEvery));
    {
      const MutexLock lock(mutex_);
      while (!task.done && !stopping_ && changed_.wait_until(mutex_, look_at)) {
      }
      if (task.done) return std::move(task.answer);
      if (stopping_) return stopping_reply();
    }
    if (gone()) return busy(503, "abandoned", "the caller closed the connection");
    if (Clock::now() < deadline) continue;
    return busy(503, "plan-too-slow",
                "the policy takes too long for one decision about all queued jobs, so there is no "
                "plan in time; 'rubato why' explains jobs that were submitted, and a policy such "
                "as fifo decides quickly");
  }
}

Reply Plans::run(const std::string& tenant, const std::function<bool()>& gone, Work work) {
  join_done();
  Reply answer;
  Task* task = start(tenant, std::move(work), answer);
  if (task == nullptr) return answer;
  answer = wait_for(*task, gone);
  {
    const MutexLock lock(mutex_);
    task->abandoned = true;
    task->awaited = false;  // from here on anybody may take it away
  }
  join_done();
  return answer;
}

}  // namespace rubato::api
