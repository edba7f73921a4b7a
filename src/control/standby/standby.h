// A daemon that does not lead: keeps its own store like the leader's, and leads when nobody does.
//
// A store is *of this history* if its newest event is in the shared log, as it is in the store. If
// it is not, or the log does not begin early enough any more, the store is set aside (renamed,
// never deleted) and a copy of the leader's takes its place. So two histories are never mixed, also
// if a former leader comes back from a long time away, or a folder was used by a daemon of its own
// meanwhile. Only a daemon whose store has the newest event of the shared log can lead.
//
// It takes over when it has seen no sign of life of the leader for a while, by its own clock, and
// only if etcd has answered during all of that time: a leader that etcd did not answer could not
// give a sign either.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/standby/leadership.h"
#include "control/standby/shared_log.h"
#include "control/store.h"

namespace rubato::control {

struct StandbyOptions {
  std::string folder;  // the state folder
  std::string url;     // where other machines reach this daemon
  std::string tokens;  // digest of the tokens that this daemon accepts
  std::chrono::milliseconds patience{5000};
  // Writes a copy of the store of the leader at `url` to a new file.
  std::function<Status(const std::string& url, const std::string& file)> fetch;
};

class Standby {
 public:
  // Reads or makes the id of this daemon, which is in its folder.
  static Result<std::unique_ptr<Standby>> make(std::shared_ptr<SharedLog> log,
                                               StandbyOptions options);
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  // What it does now, for people. An error: a person must do something; it is tried again.
  struct Now {
    bool leads = false;       // from now on; see lead()
    std::string leader{};     // url; empty: nobody leads, or it is not known
    std::int64_t seq = 0;     // the newest event of its store
    std::int64_t behind = 0;  // events that its store lacks
    std::string problem{};    // why it cannot follow
    double silent_s = 0;      // since the leader's last sign of life
    std::string store{};      // identity of its store, if it is of the leader's history
  };
  // Takes the next step. Call it again soon, some times per second.
  Now turn();

  // After turn() has said that it leads: closes the store, so that it can be opened with the
  // result as its witness. The leader waits for etcd as long as `log` does.
  std::unique_ptr<Leadership> lead(std::shared_ptr<SharedLog> log, LeadershipOptions options);
  std::int64_t term() const { return mine_.term; }

 private:
  using Clock = std::chrono::steady_clock;
  Standby(std::shared_ptr<SharedLog> log, StandbyOptions options, std::string id)
      : log_(std::move(log)), options_(std::move(options)), id_(std::move(id)) {}

  Status follow(const SharedLog::View& view);
  Result<bool> is_of_history(const NewestKey& newest);
  Result<std::string> newest_digest() const;
  Status replace_store(const SharedLog::View& view);
  Status append(const std::vector<nlohmann::json>& stored);
  void report(std::int64_t seq);
  // Whether nobody gives signs of life.
  bool may_claim(const SharedLog::View& view);
  bool claim(const SharedLog::View& view, Now& now);

  const std::shared_ptr<SharedLog> log_;
  const StandbyOptions options_;
  const std::string id_;
  std::unique_ptr<Store> store_;
  bool of_history_ = false;
  std::int64_t reports_ = 0;
  std::int64_t reported_ = -1;
  Clock::time_point reported_at_{};
  // The leader's last sign of life, and when etcd answered last.
  std::string sign_{};
  Clock::time_point sign_at_{};
  Clock::time_point answered_at_{};
  LeaderKey mine_{};    // the claim that was won
  LeaderKey former_{};  // who led before
  NewestKey newest_{};
};

}  // namespace rubato::control
