// The writing side of the log, and what the daemon does while it cannot be written.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/crash_point.h"
#include "control/live_controller.h"
#include "control/tokens.h"

namespace rubato::control {

namespace {

constexpr double kTryEvery = 1;  // seconds

}  // namespace

Error LiveController::read_only(const std::string& problem) const {
  if (options_.witness != nullptr) {
    return {ErrorCode::kIo,
            fmt::format("the daemon is read-only now, and running jobs continue: {}. It goes on by "
                        "itself; then see whether this was done, and repeat it if it was not",
                        problem)};
  }
  return {ErrorCode::kIo,
          fmt::format("the daemon cannot write its log and is read-only; nothing was changed, and "
                      "running jobs continue: {}. Free space on that disk; it goes on by itself",
                      problem)};
}

Event LiveController::event(std::string type, nlohmann::json body) const {
  return {
      .at = now_unix(), .type = std::move(type), .job = 0, .tenant = "", .body = std::move(body)};
}

Event LiveController::about(const JobRecord& job, std::string type, nlohmann::json body) const {
  return {.at = now_unix(),
          .type = std::move(type),
          .job = job.number,
          .tenant = job.tenant,
          .body = std::move(body)};
}

Event LiveController::given(const Caller& caller, Event event) {
  event.by = caller.admin ? "admin" : "tenant " + caller.tenant;
  event.from = caller.address;
  return event;
}

Status LiveController::append(std::vector<Event> events) {
  if (events.empty()) return ok_status();
  const double now = now_unix();
  if (read_only_since_ > 0 && now < next_try_at_) return read_only(store_problem());
  const std::size_t causes = add_consequences(events);
  for (const Event& event : events) crash_point("before", event.type);
  Status done = store_->append(events);
  for (const Event& event : events) {
    crash_point("after", event.type);
    if (!event.by.empty()) commanded_ = event.type;
  }
  if (!done.ok() && done.error().code != ErrorCode::kIo) {
    fmt::print(stderr, "rubatod: {}\n", done.error().message);
    return done;
  }
  if (!done.ok()) {
    if (read_only_since_ == 0) {
      read_only_since_ = now;
      fmt::print(stderr, "rubatod: {}\n", read_only(done.error().message).message);
    }
    next_try_at_ = now + kTryEvery;
  }
  if (read_only_since_ > 0) {
    const WriteLock lock(mutex_);
    problem_ = done.ok() ? "" : done.error().message;
  }
  if (!done.ok()) return read_only(done.error().message);
  next_try_at_ = 0;
  note_consequences(events, causes);
  {
    const MutexLock lock(news_mutex_);
    newest_event_ = store_->state().last_seq;
  }
  new_events_.notify_all();
  return done;
}

void LiveController::before_answer() {
  crash_point("done", commanded_);
  commanded_.clear();
}

void LiveController::watch_store() {
  if (read_only_since_ == 0 || now_unix() < next_try_at_) return;
  const double since = read_only_since_;
  const std::string message =
      fmt::format("the log could not be written for {:.0f} s; nothing was decided meanwhile",
                  now_unix() - since);
  if (!append({event("warning", {{"message", message}})}).ok()) return;
  read_only_since_ = 0;
  // Without a shared log, nobody may lead, and nobody is answered.
  if (nodes_ != nullptr && options_.witness != nullptr) nodes_->forgive_silence();
  if (std::exchange(epoch_due_, false)) nodes_->begin(store_->state().last_seq + 1);
  rebuild_due_ = true;
  quiet_until_ = 0;
  fmt::print(stderr, "rubatod: {}\n", message);
}

Result<elastic::Descriptor> LiveController::store_copy() const {
  const auto id = random_uid();
  if (!id.ok()) return id.error();
  const std::string file = fmt::format("{}/rubato.db.copy-{}", options_.folder, *id);
  Status copied = Store::copy(options_.folder, file);
  elastic::Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  ::unlink(file.c_str());
  if (!copied.ok()) return copied.error();
  if (opened.valid()) return opened;
  return Error{ErrorCode::kIo, file + ": cannot open"};
}

std::string LiveController::store_problem() const {
  const ReadLock lock(mutex_);
  return problem_;
}

}  // namespace rubato::control
