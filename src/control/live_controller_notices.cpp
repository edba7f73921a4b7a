// Handles the executor's notices: updates the log, the scheduler and the metrics.
#include <algorithm>
#include <exception>
#include <iterator>
#include <set>
#include <utility>

#include "control/job_files.h"
#include "control/json_fields.h"
#include "control/live_controller.h"
#include "control/notice_order.h"
#include "elastic/job/job_folder.h"

namespace rubato::control {

namespace {

constexpr std::size_t kKeptSamples = 1000;

// True if a new worker joined the view.
bool brings_newcomers(const nlohmann::json& body) {
  const std::string cause = text_of(body, "cause");
  return text_of(body, "type") == "view" &&
         (cause == "join" || cause == "migrate" || cause == "replace");
}

std::string warning_in(const nlohmann::json& body) {
  const std::string type = text_of(body, "type");
  const std::string message = text_of(body, "message");
  // An audit has a message only if something differs.
  if (type == "audit" && !message.empty()) return "audit: " + message;
  return type == "warning" ? message : "";
}

// Logical workers that the program has, where the job names no number and it was not known; or 0.
int news_of_program(const JobRecord& job, int known, const nlohmann::json& body) {
  if (job.document.mode == ElasticMode::kAdaptive || job.document.logical_workers > 0) return 0;
  if (text_of(body, "type") != "started") return 0;
  const std::int64_t workers = whole_in(body, "logical_workers");
  const bool possible = workers >= 1 && workers <= elastic::kMostLogicalWorkers;
  return possible && workers != known ? static_cast<int>(workers) : 0;
}

}  // namespace

void LiveController::keep(std::vector<double>& samples, double value) {
  if (samples.size() >= kKeptSamples) samples.erase(samples.begin());
  samples.push_back(value);
}

void LiveController::handle(std::vector<Notice> notices) {
  notices.insert(notices.begin(), std::make_move_iterator(unwritten_.begin()),
                 std::make_move_iterator(unwritten_.end()));
  unwritten_.clear();
  notices = in_recorded_order(std::move(notices), store_->state());
  Turn turn;
  std::vector<Deed> deeds;
  for (const Notice& notice : notices) {
    try {
      deeds.push_back(deed_of(notice, turn));
    } catch (const std::exception& problem) {  // the last resort: nothing in it should throw
      deeds.push_back(instead_of(notice, problem.what()));
    }
  }
  std::set<JobNumber> waiting;
  carry_out(deeds, waiting);
}

// All at once if possible. If the store refuses something, halving finds it.
void LiveController::carry_out(std::span<Deed> deeds, std::set<JobNumber>& waiting) {
  std::vector<Event> events;
  for (const Deed& deed : deeds) {
    if (waiting.contains(deed.notice->job)) continue;
    events.insert(events.end(), deed.events.begin(), deed.events.end());
  }
  const Status recorded = append(std::move(events));
  if (!recorded.ok() && recorded.error().code != ErrorCode::kIo && deeds.size() > 1) {
    carry_out(deeds.first(deeds.size() / 2), waiting);
    carry_out(deeds.subspan(deeds.size() / 2), waiting);
    return;
  }
  if (!recorded.ok() && recorded.error().code != ErrorCode::kIo && !deeds.front().last_try) {
    Deed other = instead_of(*deeds.front().notice, recorded.error().message);
    carry_out({&other, 1}, waiting);
    return;
  }
  for (Deed& deed : deeds) {
    if (recorded.ok() && !waiting.contains(deed.notice->job)) {
      for (const auto& effect : deed.effects) effect();
      continue;
    }
    waiting.insert(deed.notice->job);
    // Progress is reported again later.
    if (deed.notice->kind != Notice::Kind::kProgress) unwritten_.push_back(*deed.notice);
  }
}

// What is recorded of a notice that cannot be recorded as it is. All text is plain.
LiveController::Deed LiveController::instead_of(const Notice& notice, const std::string& why) {
  Deed deed{.notice = &notice, .last_try = true};
  const auto found = store_->state().jobs.find(notice.job);
  if (found == store_->state().jobs.end()) return deed;
  const JobRecord& job = found->second;
  const std::string text = plain_text(why);
  if (!job.errors.contains("notice")) {
    deed.events.push_back(about(job, "error",
                                {{"kind", "notice"},
                                 {"place", "the job's folder"},
                                 {"message", text + "; it is not recorded"},
                                 {"count", 1}}));
  }
  const bool ends = notice.kind == Notice::Kind::kFinished || notice.kind == Notice::Kind::kFailed;
  if (ends && !ended(job.phase)) {
    note_end(job, "failed", {{"message", "its end cannot be recorded as it is: " + text}}, deed);
  }
  return deed;
}

LiveController::Deed LiveController::deed_of(const Notice& notice, Turn& turn) {
  Deed deed{.notice = &notice};
  const auto found = store_->state().jobs.find(notice.job);
  if (found == store_->state().jobs.end()) return deed;
  const JobRecord& record = found->second;
  const auto [entry, fresh] = turn.try_emplace(notice.job);
  Upcoming& upcoming = entry->second;
  if (fresh) {
    upcoming = {.over = ended(record.phase),
                .held = record.held,
                .held_nodes = record.held_nodes,
                .program_workers = record.program_workers};
  }
  switch (notice.kind) {
    case Notice::Kind::kHeld:
      if (notice.devices == 0) watches_.erase(notice.job);
      if (notice.devices > 0 && upcoming.held == 0) watches_[notice.job].started(now_unix());
      if (upcoming.held_nodes == notice.nodes) break;
      upcoming.held = notice.devices;
      upcoming.held_nodes = notice.nodes;
      deed.events.push_back(about(record, "held",
                                  {{"devices", notice.devices},
                                   {"nodes", placement_json(notice.nodes)},
                                   {"clock", time_.steady()}}));
      break;
    case Notice::Kind::kEvent:
      note_view(record, notice.body, upcoming, deed);
      break;
    case Notice::Kind::kError:
      deed.events.push_back(about(record, "error", notice.body));
      break;
    case Notice::Kind::kProgress:
      if (!upcoming.over) note_progress(record, notice.body, deed);
      break;
    case Notice::Kind::kRestarted:
      if (upcoming.over) break;
      watches_[notice.job].started(now_unix());
      deed.events.push_back(about(record, "restarted", notice.body));
      break;
    case Notice::Kind::kStopped:
      break;  // as requested; kHeld reports its devices
    case Notice::Kind::kFinished:
    case Notice::Kind::kFailed: {
      if (std::exchange(upcoming.over, true)) break;
      const bool finished = notice.kind == Notice::Kind::kFinished;
      const std::string message = text_of(notice.body, "message");
      note_end(record, finished ? "finished" : "failed",
               finished ? nlohmann::json{{"result", notice.body}}
                        : nlohmann::json{{"message",
                                          message.empty() ? "failed without a message" : message}},
               deed);
      break;
    }
  }
  return deed;
}

void LiveController::note_end(const JobRecord& job, const std::string& type, nlohmann::json body,
                              Deed& deed) {
  deed.events.push_back(about(job, type, std::move(body)));
  deed.effects.emplace_back([this, number = job.number] {
    const JobRecord& record = store_->state().jobs.at(number);
    scheduler_->remove(number);
    const WriteLock lock(mutex_);
    live_.erase(number);
    ++metrics_.ended_by_phase[std::string(to_string(record.phase))];
    round_due_ = true;
  });
}

void LiveController::note_view(const JobRecord& job, const nlohmann::json& body, Upcoming& upcoming,
                               Deed& deed) {
  deed.events.push_back(about(job, "view", body));
  const std::string warning = warning_in(body);
  if (!warning.empty()) deed.events.push_back(about(job, "warning", {{"message", warning}}));
  const int program_workers =
      upcoming.over ? 0 : news_of_program(job, upcoming.program_workers, body);
  if (program_workers > 0) {
    upcoming.program_workers = program_workers;
    deed.events.push_back(about(job, "program", {{"logical_workers", program_workers}}));
    deed.effects.emplace_back([this, number = job.number] {
      const JobRecord& record = store_->state().jobs.at(number);
      if (ended(record.phase) || record.phase == Phase::kPaused) return;
      static_cast<void>(scheduler_->refresh(record));
      round_due_ = true;
    });
  }
  const LiveJob* live_job = scheduler_->find(job.number);
  const bool joined = brings_newcomers(body) && live_job != nullptr;
  const double prepare_s = number_in(body, "prepare_s");
  if (joined) {
    // The cost of a resize is learned together with the program's speed.
    if (!upcoming.profile) upcoming.profile = live_job->profile();
    upcoming.profile->note_change(prepare_s);
    deed.events.push_back(about(job, "learned",
                                {{"key", profile_key(job, live_cluster().type_of(job))},
                                 {"profile", upcoming.profile->to_json()}}));
  }
  if (upcoming.over || text_of(body, "type") != "view") return;
  deed.effects.emplace_back(
      [this, number = job.number, joined, prepare_s, stalled = body.contains("stall_ms"),
       stall_s = number_in(body, "stall_ms") / 1000, workers = number_in(body, "workers")] {
        if (joined) scheduler_->note_change(store_->state().jobs.at(number), prepare_s);
        const WriteLock lock(mutex_);
        if (stalled) keep(metrics_.stall_s, stall_s);
        Live& live = live_[number];
        if (live.grown_to > 0 && workers >= live.grown_to) {
          keep(metrics_.reach_s, now_unix() - live.grown_at);
          live.grown_to = 0;
        }
      });
}

void LiveController::note_progress(const JobRecord& record, const nlohmann::json& body,
                                   Deed& deed) {
  const LiveProgress progress = LiveProgress::from_json(body);
  const Profile::News news = scheduler_->report(record, progress);
  const LiveJob* job = scheduler_->find(record.number);
  const Seconds modelled_s = job == nullptr ? 0 : job->step_s(progress.workers);
  watches_[record.number].report(progress.step, progress.workers,
                                 std::max(progress.step_s, modelled_s), now_unix());
  {
    const WriteLock lock(mutex_);
    Live& live = live_[record.number];
    live.progress = progress;
    live.step_times.note(progress.step, progress.workers, progress.step_s);
    if (job != nullptr) live.profile = job->profile();
  }
  if (job == nullptr || news == Profile::News::kNone) return;
  round_due_ = round_due_ || news == Profile::News::kSize;
  const std::string key = profile_key(record, live_cluster().type_of(record));
  deed.events.push_back(
      about(record, "learned", {{"key", key}, {"profile", job->profile().to_json()}}));
  deed.events.push_back(about(record, "progress", body));
  // More devices made the job slower: it returns to the best size, and this is recorded.
  const int useful = job->profile().largest_useful(now_unix());
  if (useful > 0 && useful != record.max_useful && useful >= record.document.min_devices) {
    deed.events.push_back(about(record, "capped", {{"max_useful", useful}}));
    deed.effects.emplace_back([this, number = record.number] {
      static_cast<void>(scheduler_->refresh(store_->state().jobs.at(number)));
    });
  }
}

// Allows sizes that were too large to be tried again after a while.
void LiveController::forget_caps() {
  std::vector<Event> events;
  for (const auto& [number, job] : store_->state().jobs) {
    const LiveJob* live = job.max_useful > 0 ? scheduler_->find(number) : nullptr;
    if (live == nullptr || silent_.contains(number) || !live->may_forget_cap(now_unix())) continue;
    events.push_back(about(job, "capped", {{"max_useful", 0}}));
  }
  const std::vector<Event> forgotten = events;
  if (!append(std::move(events)).ok()) return;
  for (const Event& event : forgotten) {
    static_cast<void>(scheduler_->refresh(store_->state().jobs.at(event.job)));
  }
}

}  // namespace rubato::control
