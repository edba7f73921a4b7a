// The daemon that leads: appends every event to the shared log before its own store may have it,
// gives signs of life, and deletes what all standbys have. It ends for good, in one of two ways:
//
//   lost    another daemon leads now. Whatever this one still tries to append fails.
//   doubt   events are in the shared log which the own store has refused, or of which it was not
//           known in time whether they are there. Their callers heard of an error.
// In both cases, the process begins anew as a standby: it is the way after a kill -9, in which all
// that is in the log and was not carried out is found and completed. Until it has, it appends
// nothing.
//
// While etcd does not answer, nothing can be appended (kIo), and nobody else can lead either.
//
// Where this daemon may die or stand still, in the order of an append:
//   before the events are in etcd            nobody has heard of them, and they never happened
//   after that, before the store has them    they have happened; this daemon finds them there when
//                                            it begins anew, and so does whoever leads then
//   after that, before it is acknowledged    as with one daemon: the caller asks again
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "control/standby/shared_log.h"
#include "control/store.h"

namespace rubato::control {

struct LeadershipOptions {
  std::chrono::milliseconds beat{500};
  // A standby takes over when it has seen no sign of life for so long.
  std::chrono::milliseconds patience{5000};
  // Commits that are kept for a standby that does not follow, and about how many bytes. It then
  // fetches a copy of the store.
  std::size_t most_commits = 20'000;
  std::size_t most_bytes = 64 << 20;
  // Called once, in any thread; why this daemon must begin anew. It returns at once.
  std::function<void(const std::string& why)> ended;
};

class Leadership final : public Witness {
 public:
  // `leader` is the claim that was won, `newest` the last event at that moment.
  Leadership(std::shared_ptr<SharedLog> log, LeaderKey leader, NewestKey newest,
             LeadershipOptions options);
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;
  ~Leadership() override;

  Status witness(std::span<const Event> events, std::span<const std::string> bodies) override;
  void broken(const Error& error) override;

  // --- From any thread
  // Why another daemon may lead now; empty: none can. What this one knows may be old then, and
  // nobody should act on it.
  std::string doubt() const;
  LeaderKey leader() const;
  const std::string& url() const { return url_; }
  SharedLog& log() const { return *log_; }
  // Those that follow, with what they lack.
  struct Follower {
    std::string id{};
    std::string url{};
    std::int64_t behind = 0;  // events; -1: it fetches a copy of the store
    double silent_s = 0;
  };
  std::vector<Follower> followers() const;
  // Another daemon may lead at once. Nothing can be appended after that. For the writer's thread.
  void resign();

 private:
  using Clock = std::chrono::steady_clock;
  struct Heard {
    SharedLog::Standby standby{};
    Clock::time_point at{};
  };

  Status resolve();
  void end(const std::string& why);
  void run();
  void beat(std::int64_t count);
  void listen();
  void tidy();
  std::int64_t first_within_limit();

  const std::shared_ptr<SharedLog> log_;
  const LeadershipOptions options_;
  const std::string url_;
  // The writer's thread:
  LeaderKey leader_;
  NewestKey newest_;
  std::optional<NewestKey> pending_;  // of an append that may have happened

  std::atomic<bool> ended_{false};
  Mutex beat_mutex_;  // a sign of life is on its way; the claim does not change meanwhile
  mutable Mutex mutex_;
  CondVar wake_;
  LeaderKey claimed_ RUBATO_GUARDED_BY(mutex_);            // leader_, for the others
  std::int64_t seq_ RUBATO_GUARDED_BY(mutex_);             // of newest_
  Clock::time_point confirmed_ RUBATO_GUARDED_BY(mutex_);  // that it leads
  std::map<std::string, Heard> heard_ RUBATO_GUARDED_BY(mutex_);
  // Those of this leadership that may still be there: their first events, and their sizes.
  std::deque<std::pair<std::int64_t, std::size_t>> commits_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::control
