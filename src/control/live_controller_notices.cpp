// Handles the executor's notices: updates the log, the scheduler and the metrics.
#include <algorithm>
#include <iterator>
#include <set>

#include "control/json_fields.h"
#include "control/live_controller.h"
#include "elastic/job_folder.h"

namespace rubato::control {

namespace {

constexpr std::size_t kKeptSamples = 1000;

// True if a new worker joined the view.
bool brings_newcomers(const nlohmann::json& body) {
  const std::string cause = body.value("cause", "");
  return body.value("type", "") == "view" &&
         (cause == "join" || cause == "migrate" || cause == "replace");
}

std::string text_in(const nlohmann::json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string warning_in(const nlohmann::json& body) {
  return text_in(body, "type") == "warning" ? text_in(body, "message") : "";
}

// Logical workers that the program has, where the job names no number and it was not known; or 0.
int news_of_program(const JobRecord& job, const nlohmann::json& body) {
  if (job.document.mode == ElasticMode::kAdaptive || job.document.logical_workers > 0) return 0;
  if (text_in(body, "type") != "started") return 0;
  const std::int64_t workers = whole_in(body, "logical_workers");
  const bool possible = workers >= 1 && workers <= elastic::kMostLogicalWorkers;
  return possible && workers != job.program_workers ? static_cast<int>(workers) : 0;
}

}  // namespace

void LiveController::keep(std::vector<double>& samples, double value) {
  if (samples.size() >= kKeptSamples) samples.erase(samples.begin());
  samples.push_back(value);
}

void LiveController::handle(std::vector<Notice> notices) {
  // Events of jobs come first, because nobody reads a job's lines again once it holds nothing. Then
  // devices are given back before another job takes them, in the log as well.
  const auto rank = [&](const Notice& notice) {
    if (notice.kind == Notice::Kind::kEvent) return 0;
    const auto job = store_->state().jobs.find(notice.job);
    const bool gives_back = notice.kind == Notice::Kind::kHeld &&
                            job != store_->state().jobs.end() && notice.devices < job->second.held;
    return gives_back ? 1 : 2;
  };
  std::stable_sort(notices.begin(), notices.end(),
                   [&](const Notice& a, const Notice& b) { return rank(a) < rank(b); });
  notices.insert(notices.begin(), std::make_move_iterator(unwritten_.begin()),
                 std::make_move_iterator(unwritten_.end()));
  unwritten_.clear();
  std::set<JobNumber> waiting;
  for (Notice& notice : notices) {
    if (!waiting.contains(notice.job) && handle(notice).ok()) continue;
    waiting.insert(notice.job);
    // Progress is reported again later.
    if (notice.kind != Notice::Kind::kProgress) unwritten_.push_back(std::move(notice));
  }
}

Status LiveController::handle(const Notice& notice) {
  const auto found = store_->state().jobs.find(notice.job);
  if (found == store_->state().jobs.end()) return ok_status();
  const JobRecord& record = found->second;
  const bool over = ended(record.phase);
  const auto end = [&](std::string type, nlohmann::json body) -> Status {
    if (over) return ok_status();
    Status done = append({about(record, std::move(type), std::move(body))});
    if (!done.ok()) return done;
    scheduler_->remove(notice.job);
    const WriteLock lock(mutex_);
    live_.erase(notice.job);
    ++metrics_.ended_by_phase[std::string(to_string(record.phase))];
    round_due_ = true;
    return done;
  };
  switch (notice.kind) {
    case Notice::Kind::kHeld:
      if (notice.devices == 0) watches_.erase(notice.job);
      if (notice.devices > 0 && record.held == 0) watches_[notice.job].started(now_unix());
      if (record.held == notice.devices) return ok_status();
      return append({about(record, "held", {{"devices", notice.devices}})});
    case Notice::Kind::kEvent:
      return note_view(record, notice.body);
    case Notice::Kind::kProgress:
      return over ? ok_status() : note_progress(notice);
    case Notice::Kind::kRestarted:
      if (over) return ok_status();
      watches_[notice.job].started(now_unix());
      return append({about(record, "restarted", notice.body)});
    case Notice::Kind::kStopped:
      return ok_status();  // as requested; kHeld reports its devices
    case Notice::Kind::kFinished:
      return end("finished", {{"result", notice.body}});
    case Notice::Kind::kFailed:
      return end("failed", {{"message", notice.body.value("message", "failed without a message")}});
  }
  return ok_status();
}

Status LiveController::note_view(const JobRecord& job, const nlohmann::json& body) {
  std::vector<Event> events{about(job, "view", body)};
  const std::string warning = warning_in(body);
  if (!warning.empty()) events.push_back(about(job, "warning", {{"message", warning}}));
  const int program_workers = ended(job.phase) ? 0 : news_of_program(job, body);
  if (program_workers > 0) {
    events.push_back(about(job, "program", {{"logical_workers", program_workers}}));
  }
  const bool joined = brings_newcomers(body) && scheduler_->find(job.number) != nullptr;
  if (joined) {
    // The cost of a resize is learned together with the program's speed.
    Profile profile = scheduler_->find(job.number)->profile();
    profile.note_change(number_in(body, "prepare_s"));
    events.push_back(
        about(job, "learned",
              {{"key", profile_key(job, options_.machine.type)}, {"profile", profile.to_json()}}));
  }
  Status noted = append(std::move(events));
  if (noted.ok() && program_workers > 0 && job.phase != Phase::kPaused) {
    static_cast<void>(scheduler_->refresh(job));
    round_due_ = true;
  }
  if (!noted.ok() || ended(job.phase) || body.value("type", "") != "view") return noted;
  if (joined) scheduler_->note_change(job, number_in(body, "prepare_s"));
  const WriteLock lock(mutex_);
  if (body.contains("stall_ms")) keep(metrics_.stall_s, number_in(body, "stall_ms") / 1000);
  Live& live = live_[job.number];
  if (live.grown_to > 0 && number_in(body, "workers") >= live.grown_to) {
    keep(metrics_.reach_s, now_unix() - live.grown_at);
    live.grown_to = 0;
  }
  return noted;
}

Status LiveController::note_progress(const Notice& notice) {
  const JobRecord& record = store_->state().jobs.at(notice.job);
  const LiveProgress progress = LiveProgress::from_json(notice.body);
  const Profile::News news = scheduler_->report(record, progress);
  const LiveJob* job = scheduler_->find(notice.job);
  const Seconds modelled_s = job == nullptr ? 0 : job->step_s(progress.workers);
  watches_[notice.job].report(progress.step, progress.workers,
                              std::max(progress.step_s, modelled_s), now_unix());
  {
    const WriteLock lock(mutex_);
    Live& live = live_[notice.job];
    live.progress = progress;
    if (job != nullptr) live.profile = job->profile();
  }
  if (job == nullptr || news == Profile::News::kNone) return ok_status();
  round_due_ = round_due_ || news == Profile::News::kSize;
  const std::string key = profile_key(record, options_.machine.type);
  Status noted =
      append({about(record, "learned", {{"key", key}, {"profile", job->profile().to_json()}}),
              about(record, "progress", notice.body)});
  if (!noted.ok()) return noted;
  // More devices made the job slower: it returns to the best size, and this is recorded.
  const int useful = job->profile().largest_useful(now_unix());
  if (useful > 0 && useful != record.max_useful && useful >= record.document.min_devices) {
    noted = append({about(record, "capped", {{"max_useful", useful}})});
    static_cast<void>(scheduler_->refresh(store_->state().jobs.at(notice.job)));
  }
  return noted;
}

// Allows sizes that were too large to be tried again after a while.
void LiveController::forget_caps() {
  std::vector<Event> events;
  for (const auto& [number, job] : store_->state().jobs) {
    const LiveJob* live = job.max_useful > 0 ? scheduler_->find(number) : nullptr;
    if (live == nullptr || !live->may_forget_cap(now_unix())) continue;
    events.push_back(about(job, "capped", {{"max_useful", 0}}));
  }
  const std::vector<Event> forgotten = events;
  if (!append(std::move(events)).ok()) return;
  for (const Event& event : forgotten) {
    static_cast<void>(scheduler_->refresh(store_->state().jobs.at(event.job)));
  }
}

}  // namespace rubato::control
