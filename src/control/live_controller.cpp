#include "control/live_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "control/explain.h"
#include "sched/reasons.h"

namespace rubato::control {

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(25);
constexpr auto kIdleLook = std::chrono::milliseconds(250);
// The pause between two rounds: at least kShortestPause, and kPausePerRound times the duration of
// the last round.
constexpr double kShortestPause = 0.05;
constexpr double kPausePerRound = 4;

}  // namespace

double now_unix() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

LiveController::LiveController(const ControllerOptions& options, std::unique_ptr<Store> store,
                               std::unique_ptr<LocalExecutor> executor,
                               std::string admin_token_sha256)
    : options_(options),
      admin_token_sha256_(std::move(admin_token_sha256)),
      store_(std::move(store)),
      executor_(std::move(executor)),
      mutex_(store_->state_lock()) {}

LiveController::~LiveController() {
  {
    const MutexLock lock(inbox_mutex_);
    stopping_ = true;
  }
  inbox_filled_.notify_all();
  if (loop_.joinable()) loop_.join();
}

Status LiveController::begin() {
  Status noted = append({event(
      "started", {{"devices", options_.machine.devices}, {"device_type", options_.machine.type}})});
  if (!noted.ok()) return noted;
  for (const auto& [number, job] : store_->state().jobs) {
    const bool may_run = job.phase == Phase::kRunning || job.held > 0;
    const bool may_continue = !ended(job.phase) && job.started_at > 0;
    if (!may_run && !may_continue) continue;
    Status adopted = executor_->adopt(job);
    if (!adopted.ok()) return adopted;
    // The end of the job became durable before its processes were gone.
    if (ended(job.phase)) executor_->cancel(number);
  }
  // Account for processes that ended while no daemon ran, before other jobs get their devices.
  std::vector<Notice> notices = executor_->poll();
  for (const auto& [number, job] : store_->state().jobs) {
    const int held = executor_->held(number);
    if (job.held > held) notices.push_back({.job = number, .devices = held});
  }
  Status scheduling = start_scheduler();
  if (!scheduling.ok()) return scheduling;
  handle(std::move(notices));
  loop_ = std::thread([this] { run(); });
  return ok_status();
}

Status LiveController::start_scheduler() {
  const State& state = store_->state();
  auto made = LiveScheduler::make(
      options_.machine,
      {.name = state.policy, .settings = state.policy_settings, .tenants = state.tenants},
      now_unix);
  if (!made.ok()) return made.error();
  const int reserved = reserved_now();
  for (const auto& [number, job] : state.jobs) {
    if (ended(job.phase) || job.phase == Phase::kPaused) continue;
    Status added = (*made)->add(job, known_profile(state, job, options_.machine.type));
    if (!added.ok()) return added;
  }
  scheduler_ = std::move(*made);
  carry_out(scheduler_->set_reserved(reserved));
  round_due_ = true;
  return ok_status();
}

Event LiveController::event(std::string type, nlohmann::json body) {
  return {
      .at = now_unix(), .type = std::move(type), .job = 0, .tenant = "", .body = std::move(body)};
}

Event LiveController::about(const JobRecord& job, std::string type, nlohmann::json body) {
  return {.at = now_unix(),
          .type = std::move(type),
          .job = job.number,
          .tenant = job.tenant,
          .body = std::move(body)};
}

Status LiveController::append(std::vector<Event> events) {
  if (events.empty()) return ok_status();
  Status done = store_->append(events);
  if (!done.ok()) fmt::print(stderr, "rubatod: {}\n", done.error().message);
  {
    const MutexLock lock(news_mutex_);
    newest_event_ = store_->state().last_seq;
  }
  new_events_.notify_all();
  return done;
}

int LiveController::reserved_now() const {
  int devices = 0;
  for (const auto& [number, reservation] : store_->state().reservations) {
    devices += reservation.devices;
  }
  return std::min(devices, options_.machine.devices);
}

void LiveController::run() {
  for (;;) {
    std::deque<Submission> submissions;
    std::deque<std::function<void()>> commands;
    {
      const auto pause = executor_->held() > 0 || round_due_ ? kLookEvery : kIdleLook;
      const auto until = std::chrono::steady_clock::now() + pause;
      const MutexLock lock(inbox_mutex_);
      while (!stopping_ && submissions_.empty() && commands_.empty() &&
             inbox_filled_.wait_until(inbox_mutex_, until)) {
      }
      if (stopping_) break;
      submissions.swap(submissions_);
      commands.swap(commands_);
    }
    const auto began = std::chrono::steady_clock::now();
    handle_submissions(std::move(submissions));
    for (const std::function<void()>& command : commands) command();
    handle(executor_->poll());
    end_reservations();
    const double now = now_unix();
    const bool active = !scheduler_->jobs().empty();
    const bool decides = (round_due_ || (active && now >= next_round_at_)) && now >= quiet_until_;
    if (decides) decide();
    if (decides || now >= next_health_at_) watch_health();
    note_turn(began);
  }
  // No caller may wait forever for a result.
  const MutexLock lock(inbox_mutex_);
  for (Submission& submission : submissions_) {
    submission.answer.set_value(Error{ErrorCode::kIo, "the daemon is stopping; retry"});
  }
  submissions_.clear();
  commands_.clear();  // callers get std::future_error
}

void LiveController::handle_submissions(std::deque<Submission> submissions) {
  if (submissions.empty()) return;
  // If two submissions in this group have the same key, the second also gets the job of the first.
  std::map<std::pair<std::string, std::string>, JobNumber> fresh_keys;
  JobNumber next = store_->state().next_job;
  std::vector<Event> events;
  std::vector<JobNumber> numbers;
  std::vector<JobNumber> fresh;
  for (const Submission& submission : submissions) {
    if (!submission.key.empty()) {
      const std::pair key{submission.tenant, submission.key};
      const auto& known_keys = store_->state().keys;
      const auto known = known_keys.find(key);
      const auto added =
          fresh_keys.try_emplace(key, known == known_keys.end() ? next : known->second);
      if (known != known_keys.end() || !added.second) {
        numbers.push_back(added.first->second);
        continue;
      }
    }
    numbers.push_back(next);
    fresh.push_back(next);
    events.push_back(
        {.at = now_unix(),
         .type = "submitted",
         .job = next++,
         .tenant = submission.tenant,
         .body = {{"document", to_json(submission.document)}, {"key", submission.key}}});
  }
  const Status durable = append(std::move(events));
  if (durable.ok()) {
    for (const JobNumber number : fresh) {
      const JobRecord& record = store_->state().jobs.at(number);
      const Status added =
          scheduler_->add(record, known_profile(store_->state(), record, options_.machine.type));
      if (!added.ok()) {
        static_cast<void>(append({about(record, "failed", {{"message", added.error().message}})}));
      }
    }
    round_due_ = true;
  }
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    if (store_->state().jobs.contains(numbers[i])) {
      submissions[i].answer.set_value(store_->state().jobs.at(numbers[i]));
    } else {
      submissions[i].answer.set_value(durable.error());
    }
  }
}

void LiveController::end_reservations() {
  std::vector<Event> events;
  for (const auto& [number, reservation] : store_->state().reservations) {
    if (now_unix() < reservation.until) continue;
    events.push_back(event("released", {{"number", number}}));
  }
  if (events.empty() || !append(std::move(events)).ok()) return;
  carry_out(scheduler_->set_reserved(reserved_now()));
  round_due_ = true;
}

void LiveController::decide() {
  // A job keeps its devices during its min_runtime, so its range depends on the time.
  for (const auto& [number, job] : store_->state().jobs) {
    if (job.phase == Phase::kRunning && job.document.min_runtime_s > 0) {
      static_cast<void>(scheduler_->refresh(job));
    }
  }
  forget_caps();
  std::vector<Action> actions;
  const Result<RoundRecord> record = scheduler_->round(actions);
  const double now = now_unix();
  round_due_ = false;
  next_round_at_ = now + options_.round_every_s;
  if (!record.ok()) {
    fmt::print(stderr, "rubatod: {}\n", record.error().message);
    const WriteLock lock(mutex_);
    ++metrics_.invalid_plans;
    quiet_until_ = now + 1;
    return;
  }
  if (record->wake_at_s) next_round_at_ = std::min(next_round_at_, *record->wake_at_s);
  quiet_until_ = now + std::max(kShortestPause, kPausePerRound * record->total_s);
  {
    const WriteLock lock(mutex_);
    ++metrics_.rounds;
    keep(metrics_.round_algorithm_s, record->algorithm_s);
    keep(metrics_.round_solver_s, record->solver_s);
    keep(metrics_.round_total_s, record->total_s);
  }
  carry_out(actions);
  note_who_waits();
}

// Why jobs wait must reach their owners although nothing happens to them.
void LiveController::note_who_waits() {
  const WriteLock lock(mutex_);
  for (const JobState* job : scheduler_->jobs()) {
    if (job->running()) continue;
    Live& live = live_[number_of(job->spec.id)];
    live.waits = code(job->reason);
    live.facts = facts_json(job->facts);
  }
}

void LiveController::carry_out(const std::vector<Action>& actions) {
  std::vector<Event> events;
  for (const Action& action : actions) {
    const JobRecord& record = store_->state().jobs.at(number_of(action.job));
    if (action.reason == Reason::kRejected) {
      events.push_back(
          about(record, "failed", {{"message", std::string(explanation(action.reason))}}));
    } else {
      events.push_back(about(record, "granted",
                             {{"devices", action.after.devices()},
                              {"batch", action.after.batch},
                              {"reason", std::string(code(action.reason))},
                              {"facts", facts_json(action.facts)}}));
    }
  }
  if (!append(std::move(events)).ok()) {
    // The scheduler has applied actions that are not durable. Rebuild it from the durable state.
    const Status again = start_scheduler();
    if (!again.ok()) fmt::print(stderr, "rubatod: {}\n", again.error().message);
    return;
  }
  for (const Action& action : actions) {
    const JobRecord& record = store_->state().jobs.at(number_of(action.job));
    {
      const WriteLock lock(mutex_);
      ++metrics_.resizes_by_reason[std::string(code(action.reason))];
      if (action.before.empty() && record.resizes == 0 && !action.after.empty()) {
        keep(metrics_.queue_wait_s, record.started_at - record.submitted_at);
      }
      if (!action.before.empty() && action.after.devices() > action.before.devices()) {
        live_[record.number].grown_at = now_unix();
        live_[record.number].grown_to = action.after.devices();
      }
    }
    if (action.reason == Reason::kRejected) continue;
    const Status wanted =
        executor_->want(record.number, record.document, action.after.devices(), action.after.batch);
    if (!wanted.ok()) {
      handle(std::vector<Notice>{{.job = record.number,
                                  .kind = Notice::Kind::kFailed,
                                  .body = {{"message", wanted.error().message}}}});
    }
  }
}

}  // namespace rubato::control
