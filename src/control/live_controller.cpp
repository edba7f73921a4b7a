#include "control/live_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "control/explain.h"
#include "control/machine_fit.h"
#include "sched/reasons.h"

namespace rubato::control {

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(25);
constexpr auto kIdleLook = std::chrono::milliseconds(250);
constexpr std::size_t kMostUnwritten = 10'000;  // notices

}  // namespace

double now_unix() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

LiveController::LiveController(const ControllerOptions& options, std::unique_ptr<Store> store,
                               std::unique_ptr<JobExecutor> executor, LiveCluster cluster,
                               std::string admin_token_sha256)
    : options_(options),
      admin_token_sha256_(std::move(admin_token_sha256)),
      store_(std::move(store)),
      time_(options.time, store_->last_at(), options.folder + "/clock"),
      numbers_(options.folder + "/next-job"),
      executor_(std::move(executor)),
      cluster_(std::move(cluster)),
      mutex_(store_->state_lock()),
      decider_([this] {
        {
          const MutexLock lock(inbox_mutex_);
          answered_ = true;
        }
        inbox_filled_.notify_all();
      }),
      remover_(options.folder + "/jobs") {}

LiveController::~LiveController() {
  if (uploads_) uploads_->stop();
  {
    const MutexLock lock(inbox_mutex_);
    stopping_ = true;
  }
  inbox_filled_.notify_all();
  decider_.hurry();
  if (loop_.joinable()) loop_.join();
}

int LiveController::reserved_now() const {
  int devices = 0;
  for (const auto& [number, reservation] : store_->state().reservations) {
    devices += reservation.devices;
  }
  return std::min(devices, live_cluster().devices());
}

void LiveController::run() {
  for (;;) {
    std::deque<Submission> submissions;
    std::deque<std::function<void()>> commands;
    {
      const auto pause = executor_->held() > 0 || round_due_ ? kLookEvery : kIdleLook;
      const auto until = std::chrono::steady_clock::now() + pause;
      const MutexLock lock(inbox_mutex_);
      while (!stopping_ && submissions_.empty() && commands_.empty() && !answered_ &&
             inbox_filled_.wait_until(inbox_mutex_, until)) {
      }
      if (stopping_) break;
      answered_ = false;
      submissions.swap(submissions_);
      commands.swap(commands_);
    }
    const TurnStart began = turn_start();
    handle_submissions(std::move(submissions));
    for (const std::function<void()>& command : commands) command();
    turn();
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

void LiveController::turn() {
  watch_store();
  if (read_only_since_ > 0) {
    // Jobs go on by themselves. What happens to them is recorded later.
    if (unwritten_.size() >= kMostUnwritten) return;
    Turn seen;
    for (Notice& notice : executor_->poll()) {
      if (notice.kind == Notice::Kind::kProgress) {
        static_cast<void>(deed_of(notice, seen));  // people want to see it
      } else {
        unwritten_.push_back(std::move(notice));
      }
    }
    return;
  }
  if (rebuild_due_ && now_unix() >= quiet_until_) start_scheduler();
  watch_nodes();
  handle(executor_->poll());
  follow_nodes();
  settle_links();
  end_reservations();
  for (const JobNumber job : std::exchange(not_started_, {})) start_granted(job);
  const bool decided = decide();
  if (decided || now_unix() >= next_health_at_) watch_health();
  keep_house();
}

// Jobs of the tenant that wait for devices.
int LiveController::queued_of(const std::string& tenant) const {
  const auto& jobs = store_->state().jobs;
  const auto waits = [&](JobNumber number) {
    const auto job = jobs.find(number);
    return job != jobs.end() && job->second.tenant == tenant && job->second.phase == Phase::kQueued
               ? 1
               : 0;
  };
  int queued = 0;
  for (const JobState* job : scheduler_->jobs()) queued += waits(number_of(job->spec.id));
  for (const auto& [number, profile] : scheduler_->misfits()) queued += waits(number);
  for (const auto& [number, profile] : scheduler_->waiting()) queued += waits(number);
  return queued;
}

Status LiveController::check_queue(const std::string& tenant, int jobs,
                                   std::map<std::string, int>& queued) {
  const auto found = store_->state().tenants.find(tenant);
  const int most = found == store_->state().tenants.end() ? 0 : found->second.max_queued;
  if (most == 0) return ok_status();
  const auto [count, fresh] = queued.try_emplace(tenant, 0);
  if (fresh) count->second = queued_of(tenant);
  if (count->second + jobs <= most) {
    count->second += jobs;
    return ok_status();
  }
  const std::string more = jobs == 1 ? "" : fmt::format("; these are {} more", jobs);
  return Error{
      ErrorCode::kRefused,
      fmt::format("tenant {} may have {} waiting at the same time, and {} do{}; wait for one "
                  "to start, or cancel one",
                  tenant, most == 1 ? "1 job" : fmt::format("{} jobs", most), count->second, more)};
}

void LiveController::handle_submissions(std::deque<Submission> submissions) {
  if (submissions.empty()) return;
  // If two submissions in this group have the same key, the second also gets the job of the first.
  std::map<std::pair<std::string, std::string>, JobNumber> fresh_keys;
  std::map<std::string, int> queued;
  JobNumber next = store_->state().next_job;
  std::vector<Event> events;
  std::vector<Result<JobNumber>> numbers;
  std::vector<JobNumber> fresh;
  for (const Submission& submission : submissions) {
    const std::pair key{submission.tenant, submission.key};
    if (!submission.key.empty()) {
      const auto just_now = fresh_keys.find(key);
      const Result<JobNumber> known =
          just_now != fresh_keys.end() ? just_now->second : job_of_key(key.first, key.second);
      if (!known.ok() || *known != 0) {
        numbers.push_back(known);
        continue;
      }
    }
    const Result<Links> links = links_of(submission.caller, submission.document);
    if (!links.ok()) {
      numbers.emplace_back(refuse(submission.tenant, "after", links.error()));
      continue;
    }
    const int jobs = std::max(1, submission.document.array.size());
    if (const Status possible = check_queue(submission.tenant, jobs, queued); !possible.ok()) {
      numbers.emplace_back(refuse(submission.tenant, "max-queued", possible.error()));
      continue;
    }
    if (!submission.key.empty()) fresh_keys[key] = next;
    numbers.emplace_back(next);
    std::vector<Event> added = events_of(submission, *links, next, now_unix());
    events.insert(events.end(), added.begin(), added.end());
    for (const JobNumber end = next + jobs; next < end; ++next) fresh.push_back(next);
  }
  const Status durable = append(std::move(events));
  if (durable.ok()) {
    numbers_.note(store_->identity(), store_->state().next_job);
    for (const JobNumber number : fresh) {
      const auto found = store_->state().jobs.find(number);
      if (found == store_->state().jobs.end() || ended(found->second.phase)) {
        const WriteLock lock(mutex_);
        ++metrics_.ended_by_phase["cancelled"];  // it can never start
        continue;
      }
      const JobRecord& record = found->second;
      dependents_.note(record);
      static_cast<void>(scheduler_->add(record, known_profile_of(record)));
    }
    round_due_ = true;
  }
  const auto is_fresh = [&](JobNumber number) {
    return std::find(fresh.begin(), fresh.end(), number) != fresh.end();
  };
  before_answer();
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    if (!numbers[i].ok()) {
      submissions[i].answer.set_value(numbers[i].error());
    } else if (durable.ok() || !is_fresh(*numbers[i])) {
      submissions[i].answer.set_value(visible({.tenant = "", .admin = true}, *numbers[i]));
    } else {
      submissions[i].answer.set_value(
          refuse(submissions[i].tenant, "not-durable", durable.error()));
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

// Why jobs wait must reach their owners although nothing happens to them.
void LiveController::note_who_waits() {
  const WriteLock lock(mutex_);
  for (const JobState* job : scheduler_->jobs()) {
    if (job->running()) continue;
    Live& live = live_[number_of(job->spec.id)];
    live.waits = code(job->reason);
    live.facts = facts_json(job->facts);
  }
  for (const auto& [number, profile] : scheduler_->misfits()) {
    live_[number].waits = kDoesNotFit;
  }
  for (const auto& [number, profile] : scheduler_->waiting()) {
    const auto job = store_->state().jobs.find(number);
    if (job == store_->state().jobs.end()) continue;  // cancelled a moment ago
    live_[number].waits = job->second.waits_for.empty() ? kArrayLimit : kWaitsForJobs;
    live_[number].facts = nlohmann::json::object();
  }
}

void LiveController::carry_out(const std::vector<Action>& actions) {
  const LiveCluster& cluster = scheduler_->cluster();
  std::vector<Event> events;
  for (const Action& action : actions) {
    const JobRecord& record = store_->state().jobs.at(number_of(action.job));
    if (action.reason == Reason::kRejected) {
      events.push_back(
          about(record, "failed", {{"message", std::string(explanation(action.reason))}}));
    } else {
      events.push_back(about(record, "granted",
                             {{"devices", action.after.devices()},
                              {"nodes", placement_json(cluster.placement_of(action.after))},
                              {"batch", action.after.batch},
                              {"reason", std::string(code(action.reason))},
                              {"facts", facts_json(action.facts)}}));
    }
  }
  if (!append(std::move(events)).ok()) {
    // The scheduler has applied actions that are not durable. It is rebuilt from the durable state
    // when the log can be written, and after a while if the log refuses the events.
    rebuild_due_ = true;
    quiet_until_ = std::max(quiet_until_, now_unix() + 1);
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
    if (action.reason != Reason::kRejected) start_granted(record.number);
  }
}

}  // namespace rubato::control
