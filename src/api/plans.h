// Computes plans (POST /api/v1/plan), each in a thread of its own, so that a caller gets an answer
// in time even if a policy takes long for one decision.
//
// Few plans run at a time. A tenant may have half of the places, and the last one is left to a
// tenant that has none, so nobody can keep the others from planning.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "api/reply.h"
#include "base/mutex.h"

namespace rubato::api {

struct PlanOptions {
  int most = 4;           // at a time
  double answer_s = 1.9;  // a caller gets an answer within this time
};

class Plans {
 public:
  // True once nobody wants the answer any more. Quick; asked often.
  using Abandoned = std::function<bool()>;
  using Work = std::function<Reply(const Abandoned& abandoned)>;

  explicit Plans(const PlanOptions& options) : options_(options) {}
  ~Plans();  // waits for the plans that are still being computed
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // The answer of `work`, or an error reply: too many plans, no answer in time, the daemon stops.
  // `gone`: whether the caller has closed its connection. Then the work is abandoned and its place
  // is free again once it has noticed.
  Reply run(const std::string& tenant, const std::function<bool()>& gone, Work work);
  // Ends all plans and refuses new ones.
  void stop();

 private:
  struct Task {
    std::string tenant;
    std::atomic<bool> abandoned{false};
    bool awaited = true;  // by its caller; guarded by mutex_, like `done` and `answer`
    bool done = false;
    Reply answer{};
    std::thread thread{};
  };

  Task* start(const std::string& tenant, Work work, Reply& refusal);
  Reply wait_for(Task& task, const std::function<bool()>& gone);
  void join_done();
  std::string refusal_of(const std::string& tenant) const RUBATO_REQUIRES(mutex_);

  const PlanOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::list<Task> tasks_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
};

}  // namespace rubato::api
