// How the daemon begins, and how it begins anew with another scheduler.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/crash_point.h"
#include "control/live_controller.h"

namespace rubato::control {

void LiveController::begin() {
  for (const auto& [number, job] : store_->state().jobs) {
    if (!ended(job.phase)) dependents_.note(job);
  }
  claim_history();
  // If it cannot be written, the daemon is read-only from its start.
  const LiveCluster cluster = live_cluster();
  const Status started = append({event("started", {{"devices", cluster.devices()},
                                                   {"device_type", cluster.device_types()},
                                                   {"nodes", nodes_json(cluster.nodes())}})});
  // The number of an event: greater than that of every earlier daemon with this log.
  // Others can have appended events to a shared log, so there it must be an event of its own.
  epoch_due_ = nodes_ != nullptr && options_.witness != nullptr && !started.ok();
  if (nodes_ != nullptr && !epoch_due_) nodes_->begin(store_->state().last_seq + 1);
  adopt_jobs();
  start_recorder();
  lookout_ = std::make_unique<OutlookThread>(
      [this](const std::function<bool()>& should_stop) { return look_ahead(should_stop); });
  loop_ = std::thread([this] { run(); });
}

void LiveController::claim_history() {
  const std::string jobs = options_.folder + "/jobs";
  const JobNumber next = store_->state().next_job;
  // Otherwise the database is not the one of the last start, or an older copy of it.
  const bool goes_on = numbers_.store() == store_->identity() && numbers_.next_job() <= next;
  std::vector<Event> events;
  const auto uid_of = [this](JobNumber number) -> std::optional<std::string> {
    const Result<JobRecord> job = visible({.tenant = "", .admin = true}, number);
    return job.ok() ? std::optional(job->uid) : std::nullopt;
  };
  const std::vector<SetAside> moved = set_aside_foreign(jobs, store_->state(), !goes_on, uid_of);
  for (const SetAside& one : moved) {
    fmt::print(stderr, "rubatod: {}{}\n", one.message,
               one.moved_to.empty() ? "" : "; it was moved to " + one.moved_to);
    events.push_back(
        event("set_aside",
              {{"folder", one.folder}, {"moved_to", one.moved_to}, {"message", one.message}}));
  }
  if (!goes_on) {
    // Somebody else's log knew that they were being removed.
    for (const JobNumber job : half_removed(jobs)) remover_.add({.job = job});
    const JobNumber free = std::max(numbers_.next_job(), highest_folder(jobs) + 1);
    if (free > next) {
      fmt::print(stderr,
                 "rubatod: {}: jobs up to {} were submitted to it, but its log ends before {}; it "
                 "was restored from an older copy, or it is new. New jobs get numbers from {} on\n",
                 options_.folder, job_name_of(free - 1), job_name_of(next), job_name_of(free));
      events.push_back(event("renumbered", {{"next_job", free}}));
    }
  }
  for (Event& each : events) static_cast<void>(append({std::move(each)}));
  if (read_only_since_ == 0) numbers_.note(store_->identity(), store_->state().next_job);
}

void LiveController::adopt_jobs() {
  std::vector<Event> failed;
  for (const auto& [number, job] : store_->state().jobs) {
    const bool may_run = job.phase == Phase::kRunning || job.held > 0;
    const bool may_continue = !ended(job.phase) && job.started_at > 0;
    if (!may_run && !may_continue) continue;
    const Remains remains = executor_->remains_of(job);
    if (remains == Remains::kStrangers) {
      if (ended(job.phase)) continue;
      failed.push_back(
          about(job, "failed",
                {{"message", "its folder belongs to another job and could not be moved away"}}));
      continue;
    }
    // The daemon before died when it had granted devices but not created the folder: nothing runs
    // there, and the folder must get its owner.
    if (!ended(job.phase) && remains == Remains::kNothing) {
      // Unless a daemon on another machine has begun it: its nodes send what is missing here.
      const bool elsewhere = options_.witness != nullptr;
      const FolderOwner owner{.store = store_->identity(), .job = job.uid};
      if (!elsewhere || !executor_->claim(number, owner).ok()) {
        not_started_.insert(number);
        continue;
      }
    }
    const Status adopted = executor_->adopt(job);
    if (!adopted.ok()) fmt::print(stderr, "rubatod: {}\n", adopted.error().message);
    // The end of the job became durable before its processes were gone.
    if (ended(job.phase)) executor_->cancel(number);
  }
  static_cast<void>(append(std::move(failed)));
  // Account for processes that ended while no daemon ran, before other jobs get their devices.
  std::vector<Notice> notices = executor_->poll();
  for (const auto& [number, job] : store_->state().jobs) {
    JobPlacement held = executor_->held(number);
    const int devices = devices_on(held);
    if (job.held < devices || job.held_nodes == held) continue;
    notices.push_back({.job = number, .devices = devices, .nodes = std::move(held)});
  }
  name_nodes();
  start_scheduler();
  handle(std::move(notices));
}

void LiveController::start_scheduler() {
  const State& state = store_->state();
  const LiveCluster cluster = live_cluster();
  const auto now = [this] { return now_unix(); };
  auto made = LiveScheduler::make(cluster,
                                  {.name = state.policy,
                                   .settings = state.policy_settings,
                                   .tenants = state.tenants,
                                   .around = options_.around_policy},
                                  now);
  if (!made.ok()) {
    // Another version of the program knew the policy, or its settings.
    const std::string message = fmt::format("{}; the policy '{}' is used until another is chosen",
                                            made.error().message, LivePolicy().name);
    fmt::print(stderr, "rubatod: {}\n", message);
    static_cast<void>(append({event("warning", {{"message", message}})}));
    made = LiveScheduler::make(cluster, {.settings = {}, .tenants = state.tenants}, now);
  }
  decider_.hurry();  // what it decides is stale
  scheduler_ = std::move(made.value());
  begin_turns();
  ++schedulers_;
  for (const auto& [number, job] : state.jobs) {
    if (ended(job.phase) || job.phase == Phase::kPaused) continue;
    static_cast<void>(scheduler_->add(job, known_profile_of(job)));
  }
  rebuild_due_ = false;
  round_due_ = true;
  carry_out(scheduler_->set_reserved(reserved_now()));
}

void LiveController::start_granted(JobNumber number) {
  const auto found = store_->state().jobs.find(number);
  if (found == store_->state().jobs.end() || ended(found->second.phase)) return;
  const JobRecord& record = found->second;
  Status done = ok_status();
  crash_point("before", "folder");
  if (record.granted > 0 && executor_->held(number).empty()) {
    done = executor_->claim(number, {.store = store_->identity(), .job = record.uid});
    if (!done.ok() && done.error().code == ErrorCode::kIo) {
      not_started_.insert(number);  // such as a full disk; tried again at the next turn
      return;
    }
  }
  crash_point("after", "folder");
  if (done.ok()) done = executor_->want(number, record.document, record.nodes, record.batch);
  crash_point("after", "want");
  if (done.ok()) return;
  handle(std::vector<Notice>{
      {.job = number, .kind = Notice::Kind::kFailed, .body = {{"message", done.error().message}}}});
}

}  // namespace rubato::control
