// The registry for a worker that must not wait for storage: a thread carries out what the
// membership asks for and answers with inputs of the state machine.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "base/mutex.h"
#include "elastic/job/registry.h"
#include "elastic/membership/effects.h"

namespace rubato::elastic {

class AsyncRegistry {
 public:
  // `answer` is called once per request, in order, and with RegistryChanged when the registry has a
  // watch that tells of something new; from threads of this object. `complain` is called when the
  // storage has not answered for a while, once until it does again.
  AsyncRegistry(Registry& registry, std::function<void(membership::Input)> answer,
                std::function<void(const std::string&)> complain);
  AsyncRegistry(const AsyncRegistry&) = delete;
  AsyncRegistry& operator=(const AsyncRegistry&) = delete;
  ~AsyncRegistry();  // waits for the request under way; those behind it are dropped

  void ask(const membership::ReadViews& request);
  void ask(const membership::Swap& request);

 private:
  using Request = std::variant<membership::ReadViews, membership::Swap>;

  void enqueue(Request request);
  void run();
  std::optional<membership::ViewsRead> read(membership::ViewNumber after);
  membership::Swapped::Outcome swap(const View& view);
  void note(const Error* error);
  bool pause();

  Registry& registry_;
  // The newest view whose swap got no answer. It may be there, even if a later try surely was not
  // made. Used by the thread.
  membership::ViewNumber doubtful_ = 0;
  std::function<void(membership::Input)> answer_;
  std::function<void(const std::string&)> complain_;
  std::optional<std::chrono::steady_clock::time_point> failing_since_;  // used by the thread
  bool complained_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Request> requests_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::unique_ptr<RegistryWatch> watch_;
};

}  // namespace rubato::elastic
