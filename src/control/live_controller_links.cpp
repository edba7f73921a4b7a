// Jobs that wait for others, and arrays: how they are submitted, released and found.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/arrays.h"
#include "control/live_controller.h"

namespace rubato::control {

namespace {

constexpr std::size_t kMostLinks = 100'000;  // of one submission
constexpr std::size_t kMostEstimates = 200;

bool sees(const Caller& caller, const JobRecord& job) {
  return caller.admin || (!job.tenant.empty() && caller.tenant == job.tenant);
}

}  // namespace

// --- Submission

Result<LiveController::Links> LiveController::links_of(const Caller& caller,
                                                       const JobDocument& document) const {
  Links links;
  for (const After& after : document.after) {
    const Result<std::vector<JobNumber>> others = find_all(caller, after.job);
    if (!others.ok()) return Error{others.error().code, "/after: " + others.error().message};
    for (const JobNumber number : *others) {
      const Result<JobRecord> other = visible(caller, number);
      if (!other.ok()) continue;  // a job of an array, removed since
      switch (verdict(after.when, other->phase)) {
        case Verdict::kMet:
          break;
        case Verdict::kNever:
          if (links.never.empty()) links.never = never_text(number, after.when, other->phase);
          break;
        case Verdict::kOpen:
          if (!links.waits_for.try_emplace(number, after.when).second) {
            return invalid_input(fmt::format("/after: {} is named twice", job_name_of(number)));
          }
          break;
      }
    }
  }
  const auto jobs = static_cast<std::size_t>(std::max(1, document.array.size()));
  if (links.waits_for.size() * jobs > kMostLinks) {
    return invalid_input(
        fmt::format("/after: {} jobs, each waiting for {}: that is too much; put a job in between "
                    "that waits for all, and let these wait for it",
                    jobs, links.waits_for.size()));
  }
  return links;
}

std::vector<Event> LiveController::events_of(const Submission& submission, const Links& links,
                                             JobNumber first, double now) {
  std::vector<Event> events;
  JobNumber number = first;
  for (const NewJob& job : jobs_of(submission.document, first)) {
    Event event{.at = now,
                .type = "submitted",
                .job = number,
                .tenant = submission.tenant,
                .body = {{"document", to_json(job.document)}, {"uid", submission.uid}}};
    event.body["key"] = number == first ? submission.key : "";
    if (job.place.first > 0) {
      event.body["uid"] = fmt::format("{}-{}", submission.uid, job.place.index);
      event.body["array"] = array_json(job.place);
    }
    if (!links.waits_for.empty()) event.body["waits_for"] = waits_json(links.waits_for);
    events.push_back(given(submission.caller, std::move(event)));
    ++number;
  }
  if (links.never.empty()) return events;
  for (JobNumber job = first; job < number; ++job) {
    events.push_back({.at = now,
                      .type = "cancelled",
                      .job = job,
                      .tenant = submission.tenant,
                      .body = {{"message", links.never}}});
  }
  return events;
}

// --- Ends of jobs

std::size_t LiveController::add_consequences(std::vector<Event>& events) const {
  const std::size_t causes = events.size();
  std::vector<Event> follow = dependents_.consequences(events, store_->state());
  std::move(follow.begin(), follow.end(), std::back_inserter(events));
  return causes;
}

void LiveController::note_consequences(const std::vector<Event>& events, std::size_t causes) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    const bool end =
        event.type == "finished" || event.type == "failed" || event.type == "cancelled";
    if (end) dependents_.forget(event.job);
    if (i >= causes) settled_.insert(event.job);
  }
}

void LiveController::settle_links() {
  // Those who leave make room in their arrays, so the turns come last.
  for (const JobNumber number : std::exchange(settled_, {})) {
    const auto found = store_->state().jobs.find(number);
    if (found == store_->state().jobs.end() || ended(found->second.phase)) {
      note_cancelled(number);
      continue;
    }
    round_due_ = true;
    if (found->second.phase == Phase::kPaused) continue;
    static_cast<void>(scheduler_->refresh(found->second));
  }
  for (const JobNumber number : scheduler_->take_turns()) {
    const auto found = store_->state().jobs.find(number);
    if (found == store_->state().jobs.end() || ended(found->second.phase)) continue;
    static_cast<void>(scheduler_->refresh(found->second));
    round_due_ = true;
  }
}

void LiveController::begin_turns() {
  std::vector<const JobRecord*> active;
  for (const auto& [number, job] : store_->state().jobs) {
    if (!ended(job.phase) && job.phase != Phase::kPaused) active.push_back(&job);
  }
  scheduler_->begin_turns(active);
}

std::vector<EtaJob> LiveController::held_back() const {
  std::vector<EtaJob> rows;
  std::map<JobNumber, std::deque<JobNumber>> lanes;  // jobs of each array that end before the next
  const auto& jobs = store_->state().jobs;
  for (const JobState* state : scheduler_->jobs()) {
    const JobRecord& job = jobs.at(number_of(state->spec.id));
    if (job.array.at_once > 0) lanes[job.array.first].push_back(job.number);
  }
  for (const auto& [number, profile] : scheduler_->waiting()) {
    if (rows.size() == kMostEstimates) break;
    const auto found = jobs.find(number);
    if (found == jobs.end() || ended(found->second.phase)) continue;  // cancelled a moment ago
    const JobRecord& job = found->second;
    EtaJob row{.job = number};
    bool known = true;
    for (const auto& [other, when] : job.waits_for) {
      known = known && when != When::kFailed;
      row.after.push_back(other);
    }
    if (job.waits_for.empty()) {
      std::deque<JobNumber>& lane = lanes[job.array.first];
      if (lane.empty()) continue;
      row.after.push_back(lane.front());
      lane.pop_front();
      lane.push_back(number);
    }
    if (!known) continue;
    const LiveJob live(job, profile, scheduler_->cluster());
    row.needs = live.spec().min_devices;
    row.left_s = live.seconds_left(row.needs);
    if (row.left_s) *row.left_s += live.start_cost();
    rows.push_back(std::move(row));
  }
  return rows;
}

// --- Names

// Of an active array if there is one. Jobs at rest are in the table only.
Result<std::optional<JobRecord>> LiveController::one_of(const Caller& caller,
                                                        const ArrayName& name) const {
  std::map<JobNumber, JobRecord> active;  // one job of each array
  {
    const ReadLock lock(mutex_);
    for (const auto& [number, job] : store_->state().jobs) {
      if (ended(job.phase) || !sees(caller, job)) continue;
      if (is_named(job.array, {.name = name.name})) active.try_emplace(job.array.first, job);
    }
  }
  if (active.size() > 1) {
    std::vector<std::string> ids;
    for (const auto& [first, job] : active) ids.push_back(job_name_of(first) + "[]");
    return Error{ErrorCode::kRefused, fmt::format("'{}' means {} active arrays: {}; use the id",
                                                  name.name, ids.size(), join(ids, ", "))};
  }
  if (active.size() == 1) return std::optional(active.begin()->second);
  if (!caller.admin && caller.tenant.empty()) return std::optional<JobRecord>();
  JobNumber number = parse_job_number(name.name).value_or(0);
  if (number == 0) {
    const Result<JobNumber> newest =
        store_->jobs().newest_of_array(name.name, caller.admin ? "" : caller.tenant);
    if (!newest.ok()) return newest.error();
    number = *newest;
  }
  if (number == 0) return std::optional<JobRecord>();
  Result<JobRecord> job = visible(caller, number);
  const bool is_it = job.ok() && is_named(job->array, {.name = name.name});
  return is_it ? std::optional(std::move(*job)) : std::optional<JobRecord>();
}

Result<std::vector<JobNumber>> LiveController::members_of(const Caller& caller,
                                                          const ArrayName& name) const {
  const Result<std::optional<JobRecord>> one = one_of(caller, name);
  if (!one.ok()) return one.error();
  std::vector<JobNumber> members;
  if (!*one) return members;
  // Consecutive numbers, but some may have been removed.
  const ArrayPlace& place = (*one)->array;
  const Result<std::vector<JobRecord>> jobs = store_->jobs().list(
      {.after = place.first - 1, .before = place.first + place.size, .limit = place.size});
  if (!jobs.ok()) return jobs.error();
  for (const JobRecord& job : *jobs) {
    if (is_named(job.array, {.name = job_name_of(place.first), .index = name.index})) {
      members.push_back(job.number);
    }
  }
  return members;
}

Result<std::vector<JobNumber>> LiveController::find_all(const Caller& caller,
                                                        std::string_view text) const {
  const ArrayName name = parse_array_name(text);
  if (!name.index) {
    Result<std::vector<JobNumber>> members = members_of(caller, name);
    const bool is_id = parse_job_number(text).has_value();  // of the array's first job
    if (!members.ok() || (!members->empty() && !is_id)) return members;
  }
  const Result<JobNumber> one = find_job(caller, text);
  if (!one.ok()) return one.error();
  return std::vector<JobNumber>{*one};
}

Result<std::vector<JobNumber>> LiveController::cancel_all(const Caller& caller,
                                                          const JobFilter& filter) {
  return ask<std::vector<JobNumber>>([this, caller, filter]() -> Result<std::vector<JobNumber>> {
    std::vector<JobNumber> jobs;
    std::vector<Event> events;
    for (const auto& [number, job] : store_->state().jobs) {
      if (ended(job.phase) || !sees(caller, job) || !matches(filter, job)) continue;
      jobs.push_back(number);
      events.push_back(given(caller, about(job, "cancelled", nlohmann::json::object())));
    }
    const Status done = append(std::move(events));
    if (!done.ok()) return done.error();
    for (const JobNumber job : jobs) note_cancelled(job);
    return jobs;
  });
}

}  // namespace rubato::control
