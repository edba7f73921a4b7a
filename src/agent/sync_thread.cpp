#include "agent/sync_thread.h"

#include <utility>

namespace rubato::agent {

SyncThread::SyncThread(const DaemonAddress& address, const std::string& node,
                       const std::string& token, const std::string& join_token)
    : link_(address, node, token),
      join_link_(address, node, join_token),
      thread_([this] { run(); }) {}

SyncThread::~SyncThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SyncThread::busy() const {
  const MutexLock lock(mutex_);
  return request_ || calling_ || answer_;
}

void SyncThread::call(control::NodeReport report, bool join) {
  const MutexLock lock(mutex_);
  request_ = {std::move(report), join};
  changed_.notify_all();
}

std::optional<Result<control::NodeOrders>> SyncThread::take_answer() {
  const MutexLock lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

void SyncThread::run() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    if (!request_) {
      changed_.wait(mutex_);
      continue;
    }
    const Request request = *std::exchange(request_, std::nullopt);
    calling_ = true;
    mutex_.unlock();
    Result<control::NodeOrders> answer = (request.join ? join_link_ : link_).sync(request.report);
    mutex_.lock();
    calling_ = false;
    answer_ = std::move(answer);
  }
}

}  // namespace rubato::agent
