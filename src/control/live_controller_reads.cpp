// Reads. Any thread may call them; they take the shared lock and never wait for the loop.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "control/explain.h"
#include "control/job_owner.h"
#include "control/live_controller.h"
#include "control/machine_fit.h"
#include "control/plan.h"
#include "control/quota_check.h"

namespace rubato::control {

namespace {

Error no_such_job(std::string_view job) {
  return {ErrorCode::kNotFound, fmt::format("there is no job {}", job)};
}

Error ambiguous(std::string_view name, std::span<const JobNumber> jobs) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> ids;
  for (const JobNumber job : jobs.first(std::min(jobs.size(), kShown))) {
    ids.push_back(job_name_of(job));
  }
  if (jobs.size() > kShown) ids.push_back(fmt::format("and {} more", jobs.size() - kShown));
  return {ErrorCode::kRefused, fmt::format("'{}' means {} active jobs: {}; use the id", name,
                                           jobs.size(), join(ids, ", "))};
}

Error all_of_an_array(std::string_view name, std::span<const JobNumber> jobs) {
  return {ErrorCode::kRefused,
          fmt::format("'{0}' is an array of {1} jobs, {2} to {3}; name one of them: {0}[INDEX]",
                      name, jobs.size(), job_name_of(jobs.front()), job_name_of(jobs.back()))};
}

bool may_see(const Caller& caller, const std::string& tenant) {
  return caller.admin || (!tenant.empty() && caller.tenant == tenant);
}

}  // namespace

Result<JobRecord> LiveController::visible(const Caller& caller, JobNumber job) const {
  std::optional<JobRecord> record;
  {
    const ReadLock lock(mutex_);
    const auto found = store_->state().jobs.find(job);
    if (found != store_->state().jobs.end()) record = found->second;
  }
  if (!record) {
    Result<std::optional<JobRecord>> stored = store_->jobs().stored_job(job);
    if (!stored.ok()) return stored.error();
    record = std::move(*stored);
  }
  if (!record || !may_see(caller, record->tenant)) return no_such_job(job_name_of(job));
  return *record;
}

JobRecord LiveController::with_progress(const JobRecord& record) const {
  JobRecord shown = record;
  if (record.phase == Phase::kQueued && !is_reason_to_wait(record.reason)) {
    shown.reason = record.waits_for.empty() ? kUndecided : kWaitsForJobs;
  }
  const auto live = live_.find(record.number);
  if (live == live_.end()) return shown;
  if (live->second.progress.total_steps > 0 || live->second.progress.step > 0) {
    shown.progress = live->second.progress.to_json();
    const auto metrics = record.progress.find("metrics");
    if (metrics != record.progress.end()) shown.progress["metrics"] = *metrics;
  }
  if (record.phase == Phase::kQueued && !live->second.waits.empty()) {
    shown.reason = live->second.waits;
    shown.facts = live->second.facts;
  }
  return shown;
}

JobRecord LiveController::shown(const JobRecord& record, double now) const {
  JobRecord job = with_progress(record);
  job.device_s = device_seconds(record, now);
  job.held_s = held_seconds(record, now, time_.steady());
  job.held_clock = 0;  // means nothing to others
  const auto eta = etas_.find(record.number);
  if (eta == etas_.end() || ended(record.phase) || record.stalled_since > 0) return job;
  constexpr Seconds kShortest = 1e-3;  // it has not ended
  const Seconds passed_s = now - etas_at_;
  job.progress["eta_s"] = std::max(kShortest, eta->second.finish_s - passed_s);
  job.progress["eta_devices"] = eta->second.devices;
  if (record.granted == 0) {
    job.progress["start_in_s"] = std::max(0.0, eta->second.start_s - passed_s);
  }
  return job;
}

Result<JobRecord> LiveController::job(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> record = visible(caller, job);
  if (!record.ok()) return record.error();
  const ReadLock lock(mutex_);
  return shown(*record, now_unix());
}

Result<JobNumber> LiveController::find_job(const Caller& caller, std::string_view text) const {
  std::vector<JobNumber> active;
  {
    const ReadLock lock(mutex_);
    for (const auto& [number, job] : store_->state().jobs) {
      if (ended(job.phase) || !may_see(caller, job.tenant)) continue;
      if (job_title(job.document) == text) active.push_back(number);
    }
  }
  if (const std::optional<JobNumber> number = parse_job_number(text)) {
    if (visible(caller, *number).ok()) {
      const bool other_has_the_name =
          std::any_of(active.begin(), active.end(), [&](JobNumber job) { return job != *number; });
      if (text.starts_with('j') || !other_has_the_name) return *number;
      active.push_back(*number);
    }
  }
  if (active.size() > 1) return ambiguous(text, active);
  if (active.size() == 1) return active.front();
  if (!caller.admin && caller.tenant.empty()) return no_such_job(text);
  const Result<JobNumber> newest =
      store_->jobs().newest_named(std::string(text), caller.admin ? "" : caller.tenant);
  if (!newest.ok()) return newest.error();
  if (*newest > 0) return *newest;
  const ArrayName name = parse_array_name(text);
  const Result<std::vector<JobNumber>> members = members_of(caller, name);
  if (!members.ok()) return members.error();
  if (name.index && members->size() == 1) return members->front();
  return members->empty() ? no_such_job(text) : all_of_an_array(name.name, *members);
}

Result<std::vector<JobRecord>> LiveController::list(const Caller& caller, JobQuery query,
                                                    bool active, const JobFilter& filter) const {
  if (!caller.admin) {
    if (caller.tenant.empty()) return std::vector<JobRecord>();
    query.tenant = caller.tenant;
  }
  return active ? list_active(query, filter) : list_all(query, filter);
}

std::vector<JobRecord> LiveController::list_active(const JobQuery& query,
                                                   const JobFilter& filter) const {
  const ReadLock lock(mutex_);
  const auto& jobs = store_->state().jobs;
  const auto wanted = [&](const JobRecord& job) {
    return !ended(job.phase) && (query.tenant.empty() || job.tenant == query.tenant) &&
           job.number > query.after && (query.before == 0 || job.number < query.before) &&
           (query.submitted_before == 0 || job.submitted_at < query.submitted_before) &&
           matches(filter, job);
  };
  std::vector<const JobRecord*> found;
  const auto take = [&](const JobRecord& job) {
    if (std::ssize(found) < query.limit && wanted(job)) found.push_back(&job);
  };
  if (query.newest_first) {
    std::for_each(jobs.rbegin(), jobs.rend(), [&](const auto& entry) { take(entry.second); });
  } else {
    for (const auto& [number, job] : jobs) take(job);
  }
  std::vector<JobRecord> result;
  result.reserve(found.size());
  const double now = now_unix();
  for (const JobRecord* job : found) result.push_back(shown(*job, now));
  return result;
}

// A page of the table at a time, until there are enough: there may be millions.
Result<std::vector<JobRecord>> LiveController::list_all(JobQuery query,
                                                        const JobFilter& filter) const {
  constexpr int kPage = 1000;
  const int limit = query.limit;
  if (!filter.any()) query.limit = std::max(limit, kPage);
  std::vector<JobRecord> result;
  for (;;) {
    const Result<std::vector<JobRecord>> page = store_->jobs().list(query);
    if (!page.ok()) return page.error();
    const ReadLock lock(mutex_);
    const double now = now_unix();
    const auto& jobs = store_->state().jobs;
    for (const JobRecord& stored : *page) {
      if (std::ssize(result) == limit) return result;
      const auto found = jobs.find(stored.number);
      const JobRecord& job = found == jobs.end() ? stored : found->second;
      if (matches(filter, job)) result.push_back(shown(job, now));
    }
    if (std::ssize(result) == limit || std::ssize(*page) < query.limit) return result;
    const JobRecord& last = page->back();
    if (query.newest_first && last.submitted_at < filter.since) return result;
    (query.newest_first ? query.before : query.after) = last.number;
  }
}

std::vector<JobRecord> LiveController::jobs(const Caller& caller, bool active, JobNumber after,
                                            int limit, const JobFilter& filter) const {
  auto found = list(caller, {.after = after, .limit = limit}, active, filter);
  return found.ok() ? std::move(*found) : std::vector<JobRecord>();
}

Result<nlohmann::json> LiveController::why(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> found = visible(caller, job);
  if (!found.ok()) return found.error();
  const ReadLock lock(mutex_);
  const JobRecord record = with_progress(*found);
  nlohmann::json answer =
      explain(record, store_->state(), live_cluster(), caller.admin ? "" : caller.tenant);
  explain_supply(answer, record, store_->state(), now_unix());
  explain_stall(answer, record, now_unix());
  explain_errors(answer, record);
  return answer;
}

Result<nlohmann::json> LiveController::profile(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> found = visible(caller, job);
  if (!found.ok()) return found.error();
  const std::string type = live_cluster().type_of(*found);
  const ReadLock lock(mutex_);
  std::vector<ProfilePoint> points = known_profile_of(*found).points();
  std::sort(points.begin(), points.end(), [](const ProfilePoint& a, const ProfilePoint& b) {
    return std::tuple(a.devices, a.nodes, a.batch) < std::tuple(b.devices, b.nodes, b.batch);
  });
  nlohmann::json rows = nlohmann::json::array();
  for (const ProfilePoint& point : points) {
    rows.push_back({{"devices", point.devices},
                    {"nodes", point.nodes},
                    {"batch", point.batch},
                    {"step_s", point.step_s},
                    {"samples_per_s", static_cast<double>(point.batch) / point.step_s}});
  }
  return nlohmann::json{{"job", job_name_of(job)},
                        {"key", profile_key(*found, type)},
                        {"shared_by", profile_key_parts(*found, type)},
                        {"points", std::move(rows)}};
}

Snapshot LiveController::take_snapshot(const Caller& caller) const {
  const ReadLock lock(mutex_);
  const State& state = store_->state();
  Snapshot snapshot{
      .at = now_unix(),
      .cluster = live_cluster(),
      .policy = {.name = state.policy, .settings = state.policy_settings, .tenants = state.tenants},
      .reserved = reserved_now()};
  for (const auto& [number, job] : state.jobs) {
    if (ended(job.phase) || job.phase == Phase::kPaused) continue;
    if (misfit(job, snapshot.cluster)) continue;  // it takes no part in what happens here
    SnapshotJob& copy = snapshot.jobs.emplace_back();
    copy.record = with_progress(job);
    const auto live = live_.find(number);
    // As measured until now; the log has a profile only when it has moved.
    copy.profile = live != live_.end() && !live->second.profile.empty()
                       ? live->second.profile
                       : known_profile(state, job, snapshot.cluster.type_of(job));
    if (!may_see(caller, job.tenant)) {
      copy.hidden = true;
      copy.record.document.name = "";
      copy.record.document.run = {"-"};
      copy.record.document.env.clear();
      copy.record.document.labels.clear();
      copy.record.document.after.clear();
      copy.record.array.name = "";
      copy.record.document.dir = "";
      copy.record.key = "";
    }
  }
  for (auto& [name, tenant] : snapshot.policy.tenants) tenant.token_sha256 = "";
  return snapshot;
}

Result<nlohmann::json> LiveController::plan(const Caller& caller, const JobDocument& document,
                                            const std::function<bool()>& abandoned) const {
  Status possible = check_possible(document);
  if (!possible.ok()) return possible.error();
  JobDocument filled = document;
  if (!caller.admin) filled.tenant = caller.tenant;
  if (filled.tenant.empty()) filled.tenant = "default";
  const Result<Links> links = links_of(caller, filled);
  if (!links.ok()) return links.error();
  if (!links->never.empty()) {
    return Error{ErrorCode::kRefused, "it would be cancelled: " + links->never};
  }
  Profile known;
  {
    const ReadLock lock(mutex_);
    possible = check_quota(filled, filled.tenant, store_->state());
    JobRecord record;
    record.document = filled;
    record.tenant = filled.tenant;
    known = known_profile_of(record);
  }
  if (!possible.ok()) return possible.error();
  return plan_for(take_snapshot(caller), filled, known, {.should_stop = abandoned},
                  links->waits_for);
}

Result<nlohmann::json> LiveController::snapshot(const Caller& caller) const {
  return to_json(take_snapshot(caller));
}

std::vector<Reservation> LiveController::reservations() const {
  const ReadLock lock(mutex_);
  std::vector<Reservation> result;
  for (const auto& [number, reservation] : store_->state().reservations) {
    result.push_back(reservation);
  }
  return result;
}

std::string LiveController::policy_name() const {
  const ReadLock lock(mutex_);
  return store_->state().policy;
}

ControllerMetrics LiveController::metrics() const {
  const ReadLock lock(mutex_);
  ControllerMetrics metrics = metrics_;
  metrics.events = store_->state().last_seq;
  metrics.store_writable = problem_.empty();
  metrics.devices = live_cluster().devices();
  metrics.reserved = reserved_now();
  for (const auto& [phase, count] : store_->state().ended_jobs) {
    if (count > 0) metrics.jobs_by_phase[std::string(to_string(phase))] = count;
  }
  for (const auto& [number, job] : store_->state().jobs) {
    if (!ended(job.phase)) ++metrics.jobs_by_phase[std::string(to_string(job.phase))];
    metrics.jobs_stalled += job.stalled_since > 0 ? 1 : 0;
    metrics.allocated += job.granted;
    metrics.held += job.held;
    const auto live = live_.find(number);
    if (live != live_.end() && job.held > 0) metrics.utilised += live->second.progress.workers;
  }
  measure_tenants(metrics);
  return metrics;
}

Result<std::vector<Event>> LiveController::events(const Caller& caller, std::int64_t after,
                                                  JobNumber job, int limit, double wait_s) const {
  if (job != 0) {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
  }
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(wait_s));
  const std::string tenant = caller.admin ? "" : caller.tenant;
  for (;;) {
    std::int64_t seen = 0;
    {
      const MutexLock lock(news_mutex_);
      seen = newest_event_;
    }
    Result<std::vector<Event>> found = store_->read_events(after, limit, job, tenant);
    if (found.ok() && !caller.admin) {
      for (Event& event : *found) event.by = event.from = "";
    }
    if (!found.ok() || !found->empty()) return found;
    const MutexLock lock(news_mutex_);
    while (newest_event_ == seen) {
      if (!new_events_.wait_until(news_mutex_, until)) return std::vector<Event>{};
    }
  }
}

Result<EventPage> LiveController::find_events(const Caller& caller, EventQuery query) const {
  if (query.job != 0) {
    const Result<JobRecord> record = visible(caller, query.job);
    if (!record.ok()) return record.error();
  }
  query.tenant = caller.admin ? "" : caller.tenant;
  Result<EventPage> page = store_->find_events(query);
  if (page.ok() && !caller.admin) {
    for (Event& event : page->events) event.by = event.from = "";
  }
  return page;
}

Result<std::vector<std::string>> LiveController::log_files(const Caller& caller,
                                                           JobNumber job) const {
  const Result<JobRecord> record = visible(caller, job);
  if (!record.ok()) return record.error();
  if (at_rest(*record)) {
    const Result<bool> kept = store_->jobs().keeps_folder(job);
    if (kept.ok() && !*kept) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("the folder of {} was removed after its end, as the daemon's "
                               "--retain-folders says",
                               job_name_of(job))};
    }
  }
  return executor_->log_files(*record);
}

Result<ResultPlace> LiveController::result_place(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> record = visible(caller, job);
  if (!record.ok()) return record.error();
  return executor_->result_place(*record);
}

Result<std::string> LiveController::job_copy(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> record = visible({.tenant = "", .admin = true}, job);
  // An administrator, too, only where no job can write: in what nodes have sent.
  const bool may = nodes_ != nullptr &&
                   (caller.admin || (!caller.node.empty() && nodes_->is_on(job, caller.node)));
  if (!record.ok() || !may) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{} is not a job of node {}", job_name_of(job), caller.node)};
  }
  const std::string folder = fmt::format("{}/jobs/{}", options_.folder, job);
  if (is_directory(folder) && owns_folder(folder, record->uid)) return folder;
  return Error{ErrorCode::kNotFound,
               fmt::format("{}: its folder is not there any more", job_name_of(job))};
}

}  // namespace rubato::control
