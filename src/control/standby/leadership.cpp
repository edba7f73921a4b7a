#include "control/standby/leadership.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rubato::control {

namespace {

using Outcome = SharedLog::Outcome;

// After so long without a sign of life, the leader does not wait for a standby any more.
constexpr auto kForgetStandbyAfter = std::chrono::hours(1);
constexpr int kListenEvery = 2;  // beats

}  // namespace

Leadership::Leadership(std::shared_ptr<SharedLog> log, LeaderKey leader, NewestKey newest,
                       LeadershipOptions options)
    : log_(std::move(log)),
      options_(std::move(options)),
      url_(leader.url),
      leader_(leader),
      newest_(std::move(newest)),
      claimed_(std::move(leader)),
      seq_(newest_.seq),
      confirmed_(Clock::now()),
      thread_([this] { run(); }) {}

Leadership::~Leadership() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Leadership::end(const std::string& why) {
  if (!ended_.exchange(true)) options_.ended(why);
}

// --- The writer's thread

Status Leadership::witness(std::span<const Event> events, std::span<const std::string> bodies) {
  const auto no_leader = [] {
    return Error{ErrorCode::kIo,
                 "this daemon does not lead any more; another one does, or this "
                 "one begins anew in a moment"};
  };
  if (ended_) return no_leader();
  if (pending_) {
    if (Status resolved = resolve(); !resolved.ok()) return resolved;
  }
  SharedLog::Commit commit{.events = {}, .first = events.front().seq};
  if (commit.first != newest_.seq + 1) {
    end(fmt::format("the store is at event {}, the shared log at {}", commit.first - 1,
                    newest_.seq));
    return no_leader();
  }
  commit.events.reserve(events.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    commit.events.push_back(shared_event(events[i], bodies[i]));
    bytes += commit.events.back().size();
  }
  const auto before = Clock::now();
  NewestKey pending;
  const SharedLog::Answer answer = log_->append(leader_, newest_, commit, pending);
  switch (answer.outcome) {
    case Outcome::kDone: {
      const MutexLock lock(mutex_);
      seq_ = newest_.seq;
      confirmed_ = before;
      commits_.emplace_back(commit.first, bytes);
      return ok_status();
    }
    case Outcome::kLost:
      end(answer.problem);
      return no_leader();
    case Outcome::kUnknown:
      pending_ = std::move(pending);
      break;
    case Outcome::kAway:
      break;
  }
  return Error{ErrorCode::kIo, "the shared log cannot be written: " + answer.problem};
}

// What became of the append whose answer is missing. A new claim makes sure that it cannot happen
// later.
Status Leadership::resolve() {
  const MutexLock beating(beat_mutex_);
  LeaderKey renewed;
  NewestKey newest;
  const SharedLog::Answer answer = log_->renew(leader_, renewed, newest);
  if (answer.outcome == Outcome::kLost) {
    end(answer.problem);
    return Error{ErrorCode::kIo, answer.problem};
  }
  if (answer.outcome == Outcome::kUnknown) {
    // The claim may be the old or the new one.
    end("it is not known whether an event is in the shared log: " + answer.problem);
    return Error{ErrorCode::kIo, answer.problem};
  }
  if (answer.outcome == Outcome::kAway) {
    return Error{ErrorCode::kIo, "the shared log cannot be written: " + answer.problem};
  }
  if (newest.text == pending_->text) {
    end("an event of which it was not known is in the shared log");
    return Error{ErrorCode::kIo, "this daemon begins anew in a moment"};
  }
  leader_ = renewed;
  pending_.reset();
  const MutexLock lock(mutex_);
  claimed_ = std::move(renewed);
  confirmed_ = Clock::now();
  return ok_status();
}

void Leadership::broken(const Error& error) {
  end("the store has refused what is in the shared log: " + error.message);
}

void Leadership::resign() {
  ended_ = true;
  const LeaderKey mine = leader();
  // It is expected back.
  static_cast<void>(log_->report({.id = mine.id, .url = mine.url, .seq = newest_.seq}));
  log_->resign(mine);
}

// --- From any thread

LeaderKey Leadership::leader() const {
  const MutexLock lock(mutex_);
  return claimed_;
}

std::string Leadership::doubt() const {
  if (ended_) return "this daemon does not lead any more";
  const MutexLock lock(mutex_);
  if (Clock::now() - confirmed_ <= options_.patience) return "";
  return "this daemon has not reached etcd for a while, so another one may lead now";
}

std::vector<Leadership::Follower> Leadership::followers() const {
  const MutexLock lock(mutex_);
  std::vector<Follower> all;
  for (const auto& [id, heard] : heard_) {
    const std::int64_t seq = heard.standby.seq;
    all.push_back({.id = id,
                   .url = heard.standby.url,
                   .behind = seq < 0 ? -1 : std::max<std::int64_t>(0, seq_ - seq),
                   .silent_s = std::chrono::duration<double>(Clock::now() - heard.at).count()});
  }
  return all;
}

// --- The thread

void Leadership::run() {
  for (std::int64_t count = 1;; ++count) {
    {
      const MutexLock lock(mutex_);
      const auto until = Clock::now() + options_.beat;
      while (!stopping_ && wake_.wait_until(mutex_, until)) {
      }
      if (stopping_) return;
    }
    if (ended_) continue;
    beat(count);
    if (count % kListenEvery != 0 || ended_) continue;
    listen();
    tidy();
  }
}

void Leadership::beat(std::int64_t count) {
  const MutexLock beating(beat_mutex_);
  const LeaderKey now = leader();
  const auto before = Clock::now();
  const SharedLog::Answer answer = log_->beat(now, count);
  if (answer.outcome == Outcome::kLost) end(answer.problem);
  if (answer.outcome != Outcome::kDone) return;
  const MutexLock lock(mutex_);
  confirmed_ = std::max(confirmed_, before);
}

void Leadership::listen() {
  const auto standbys = log_->standbys();
  if (!standbys.ok()) return;
  std::vector<std::string> gone;
  {
    const MutexLock lock(mutex_);
    std::map<std::string, Heard> heard;
    for (const SharedLog::Standby& each : *standbys) {
      if (each.id == claimed_.id) continue;
      const auto before = heard_.find(each.id);
      const bool still = before != heard_.end() && before->second.standby.count == each.count;
      heard[each.id] = {each, still ? before->second.at : Clock::now()};
      if (Clock::now() - heard[each.id].at > kForgetStandbyAfter) gone.push_back(each.id);
    }
    heard_ = std::move(heard);
  }
  for (const std::string& id : gone) static_cast<void>(log_->forget(id));
}

// The first of the newest commits that together are not too long.
std::int64_t Leadership::first_within_limit() {
  const MutexLock lock(mutex_);
  std::size_t bytes = 0;
  for (auto commit = commits_.rbegin(); commit != commits_.rend(); ++commit) {
    bytes += commit->second;
    if (bytes <= options_.most_bytes || commit == commits_.rbegin()) continue;
    const std::int64_t first = std::prev(commit)->first;
    commits_.erase(commits_.begin(), commit.base());
    return first;
  }
  return 0;
}

// Deletes the commits that everybody has, but for the last of them: with it, a store that ends
// there shows that it has the same history.
void Leadership::tidy() {
  const auto firsts = log_->firsts();
  if (!firsts.ok() || firsts->size() < 2) return;
  std::int64_t everybody = 0;
  {
    const MutexLock lock(mutex_);
    everybody = seq_;
    for (const auto& [id, heard] : heard_) {
      everybody = std::min(everybody, std::max<std::int64_t>(0, heard.standby.seq));
    }
  }
  // The last commit that begins at or before what everybody has.
  auto kept = std::upper_bound(firsts->begin(), firsts->end(), everybody);
  if (kept != firsts->begin()) --kept;
  if (firsts->size() > options_.most_commits) {
    kept = std::max(kept, firsts->end() - static_cast<std::ptrdiff_t>(options_.most_commits));
  }
  kept = std::max(kept, std::lower_bound(firsts->begin(), firsts->end(), first_within_limit()));
  if (kept == firsts->end()) --kept;
  {
    const MutexLock lock(mutex_);
    while (!commits_.empty() && commits_.front().first < *kept) commits_.pop_front();
  }
  if (kept != firsts->begin()) static_cast<void>(log_->trim(leader(), *kept));
}

}  // namespace rubato::control
