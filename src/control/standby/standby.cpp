#include "control/standby/standby.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/state_folder.h"
#include "control/tokens.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using Outcome = SharedLog::Outcome;

constexpr auto kReportEvery = std::chrono::seconds(1);
// If etcd was not asked for longer than that, what happened meanwhile is not known.
constexpr auto kLongestGap = std::chrono::seconds(1);

Result<std::string> id_in(const std::string& file) {
  if (is_file(file)) {
    Result<std::string> text = read_file(file);
    if (!text.ok()) return text;
    if (const std::string_view id = trim(*text); id.size() == 32) return std::string(id);
  }
  Result<std::string> id = random_uid();
  if (!id.ok()) return id;
  if (Status written = write_file(file, *id + "\n"); !written.ok()) return written.error();
  return id;
}

// Copies of a store that were being made or fetched when a daemon died.
void remove_copies(const std::string& folder) {
  const auto names = list_directory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.starts_with("rubato.db.copy")) continue;
    std::error_code none;
    std::filesystem::remove(folder + "/" + name, none);
  }
}

// A name beside the database that is free.
std::string free_name(const std::string& file) {
  for (int n = 1;; ++n) {
    std::string name = fmt::format("{}.old{}", file, n);
    if (!is_file(name)) return name;
  }
}

}  // namespace

Result<std::unique_ptr<Standby>> Standby::make(std::shared_ptr<SharedLog> log,
                                               StandbyOptions options) {
  // Makes the folder, and is given back at once: the store takes it.
  if (const auto lock = FolderLock::take(options.folder); !lock.ok()) return lock.error();
  remove_copies(options.folder);
  auto id = id_in(options.folder + "/daemon-id");
  if (!id.ok()) return id.error();
  return std::unique_ptr<Standby>(new Standby(std::move(log), std::move(options), std::move(*id)));
}

Standby::Now Standby::turn() {
  Now now;
  const auto view = log_->look();
  const auto at = Clock::now();
  const auto silence = [&] { return std::chrono::duration<double>(at - sign_at_).count(); };
  if (!view.ok()) {
    now.problem = view.error().message;
    now.seq = store_ ? store_->state().last_seq : 0;
    return now;
  }
  // What the leader writes is a sign of life, too.
  const std::string sign = view->beat + (view->leader ? view->leader->text : "") +
                           (view->newest ? view->newest->text : "");
  if (sign != sign_ || at - answered_at_ > kLongestGap) {
    sign_ = sign;
    sign_at_ = at;
  }
  answered_at_ = at;
  if (view->leader && !view->leader->id.empty()) now.leader = view->leader->url;
  now.silent_s = silence();
  const Status followed = follow(*view);
  if (!followed.ok()) now.problem = followed.error().message;
  now.seq = store_ ? store_->state().last_seq : 0;
  if (store_ && of_history_) now.store = store_->identity();
  now.behind = view->newest ? std::max<std::int64_t>(0, view->newest->seq - now.seq) : 0;
  // It may have taken long.
  if (Clock::now() - at > kLongestGap) answered_at_ = Clock::now();
  if (followed.ok() && now.behind == 0 && may_claim(*view)) now.leads = claim(*view, now);
  return now;
}

bool Standby::may_claim(const SharedLog::View& view) {
  if (!view.leader || view.leader->id.empty()) return true;
  // An earlier process of this daemon, which is gone: only one can have the folder.
  if (view.leader->id == id_) return true;
  return Clock::now() - sign_at_ >= options_.patience;
}

bool Standby::claim(const SharedLog::View& view, Now& now) {
  LeaderKey wish{.id = id_, .url = options_.url, .tokens = options_.tokens};
  const bool other = !view.leader || view.leader->id != id_;
  wish.term = (view.leader ? view.leader->term : 0) + (other ? 1 : 0);
  const auto digest = newest_digest();
  if (!digest.ok()) {
    now.problem = digest.error().message;
    return false;
  }
  const NewestKey first{.store = store_->identity(),
                        .seq = store_->state().last_seq,
                        .began = store_->state().last_seq,
                        .began_digest = *digest};
  const SharedLog::Answer answer = log_->claim(view, wish, first);
  if (answer.outcome != Outcome::kDone) {
    // If it was won after all, the next turn sees the own id, and claims anew.
    if (answer.outcome != Outcome::kLost) now.problem = answer.problem;
    return false;
  }
  mine_ = std::move(wish);
  if (view.leader) former_ = *view.leader;
  if (view.newest) {
    newest_ = *view.newest;
    return true;
  }
  const auto again = log_->look();
  if (!again.ok() || !again->newest) {
    now.problem = again.ok() ? "etcd has lost a key" : again.error().message;
    return false;
  }
  newest_ = *again->newest;
  return true;
}

std::unique_ptr<Leadership> Standby::lead(std::shared_ptr<SharedLog> log,
                                          LeadershipOptions options) {
  store_.reset();
  static_cast<void>(log_->forget(id_));
  // The one before is expected back. Its store may lack the last commit.
  if (!former_.id.empty() && former_.id != id_) {
    const auto firsts = log_->firsts();
    const std::int64_t last = firsts.ok() && !firsts->empty() ? firsts->back() : 1;
    static_cast<void>(log_->report({.id = former_.id, .url = former_.url, .seq = last - 1}));
  }
  return std::make_unique<Leadership>(std::move(log), mine_, newest_, std::move(options));
}

// --- The store

// Brings the own store to the newest event. An error: it is not there yet.
Status Standby::follow(const SharedLog::View& view) {
  if (view.leader && !view.leader->tokens.empty() && view.leader->tokens != options_.tokens) {
    return Error{ErrorCode::kRefused,
                 fmt::format("{} has other tokens than the daemon at {}: copy admin.token and "
                             "join.token from its state folder, and start this one again",
                             options_.folder, view.leader->url)};
  }
  const bool empty = !is_file(options_.folder + "/rubato.db");
  if (!store_ && (!view.newest || !empty)) {
    auto store = Store::open(options_.folder);
    if (!store.ok()) return store.error();
    store_ = std::move(*store);
    of_history_ = false;
  }
  if (!view.newest) return ok_status();  // this would be the first that leads
  if (store_ && !of_history_) {
    const auto same = is_of_history(*view.newest);
    if (!same.ok()) return same.error();
    of_history_ = *same;
  }
  if (!of_history_) {
    if (Status replaced = replace_store(view); !replaced.ok()) return replaced;
  }
  while (store_->state().last_seq < view.newest->seq) {
    const auto events = log_->events_after(store_->state().last_seq, *view.newest);
    if (!events.ok()) return events.error();
    if (!events->has_value()) {
      of_history_ = false;  // it lags behind too far
      return Error{ErrorCode::kIo, "the shared log does not begin early enough any more"};
    }
    if (Status appended = append(**events); !appended.ok()) return appended;
  }
  report(store_->state().last_seq);
  return ok_status();
}

Result<bool> Standby::is_of_history(const NewestKey& newest) {
  const std::int64_t last = store_->state().last_seq;
  if (store_->identity() != newest.store || last > newest.seq) return false;
  const auto digest = newest_digest();
  if (!digest.ok()) return digest.error();
  if (last == newest.began) return *digest == newest.began_digest;
  const auto shared = log_->event_at(last);
  if (!shared.ok()) return shared.error();
  if (!shared->has_value()) return false;
  auto event = event_from_shared(**shared);
  if (!event.ok()) return event.error();
  const auto other = shared_digest(std::move(*event));
  if (!other.ok()) return other.error();
  return *digest == *other;
}

// Of the last event of the store; empty: it has none.
Result<std::string> Standby::newest_digest() const {
  const std::int64_t last = store_->state().last_seq;
  const auto own = store_->read_events(last - 1, 1, 0, "");
  if (!own.ok()) return own.error();
  return own->empty() ? std::string() : shared_digest(own->front());
}

Status Standby::replace_store(const SharedLog::View& view) {
  if (!view.leader || view.leader->id.empty() || view.leader->id == id_) {
    return Error{ErrorCode::kRefused,
                 fmt::format("the store in {} does not belong to the shared log ({} events), and "
                             "nobody leads from whom it could be fetched. Start a daemon that has "
                             "followed it; or, to begin with this store, choose another prefix",
                             options_.folder, view.newest->seq)};
  }
  report(-1);  // from now on, nothing that follows the copy is deleted
  const std::string file = options_.folder + "/rubato.db";
  const std::string copy = file + ".copy";
  std::error_code none;
  std::filesystem::remove(copy, none);
  if (Status fetched = options_.fetch(view.leader->url, copy); !fetched.ok()) return fetched;
  store_.reset();
  if (is_file(file)) {
    const std::string aside = free_name(file);
    for (const char* part : {"", "-wal", "-shm"}) {
      std::filesystem::rename(file + part, aside + part, none);
    }
    if (is_file(file)) return Error{ErrorCode::kIo, "cannot rename " + file};
    fmt::print(stderr, "rubatod: the store here is of another history, or too old; set aside: {}\n",
               aside);
  }
  std::error_code error;
  std::filesystem::rename(copy, file, error);
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: {}", file, error.message())};
  auto store = Store::open(options_.folder);
  if (!store.ok()) return store.error();
  store_ = std::move(*store);
  if (store_->identity() != view.newest->store) {
    return Error{
        ErrorCode::kRefused,
        fmt::format("the daemon at {} has another store than the shared log", view.leader->url)};
  }
  of_history_ = true;
  fmt::print(stderr, "rubatod: fetched the store of {}, up to event {}\n", view.leader->url,
             store_->state().last_seq);
  return ok_status();
}

Status Standby::append(const std::vector<json>& stored) {
  std::vector<Event> events;
  events.reserve(stored.size());
  for (const json& each : stored) {
    auto event = event_from_shared(each);
    if (!event.ok()) return event.error();
    events.push_back(std::move(*event));
  }
  if (events.empty() || events.front().seq != store_->state().last_seq + 1) {
    return Error{ErrorCode::kIo, "the shared log has changed meanwhile"};
  }
  Status appended = store_->append(events);
  for (const JobNumber job : std::set<JobNumber>(store_->rested())) store_->let_go(job);
  return appended;
}

void Standby::report(std::int64_t seq) {
  const auto now = Clock::now();
  if (seq == reported_ && now - reported_at_ < kReportEvery) return;
  const Status done =
      log_->report({.id = id_, .url = options_.url, .seq = seq, .count = ++reports_});
  if (!done.ok()) return;
  reported_ = seq;
  reported_at_ = now;
}

}  // namespace rubato::control
