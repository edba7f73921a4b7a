#include "agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "control/job_owner.h"
#include "control/json_fields.h"
#include "elastic/job/job_folder.h"

namespace rubato::agent {

namespace {

using control::JobNumber;
using control::Notice;

constexpr auto kBusyPause = std::chrono::milliseconds(20);
constexpr auto kIdlePause = std::chrono::milliseconds(50);
constexpr std::size_t kManyUntold = 2000;

}  // namespace

Result<std::unique_ptr<Agent>> Agent::make(AgentOptions options) {
  if (const Status address = check_address(options.daemon); !address.ok()) return address.error();
  options.folder = std::filesystem::absolute(options.folder).lexically_normal().string();
  if (const Status made = make_directories(options.folder + "/jobs"); !made.ok()) {
    return made.error();
  }
  Result<AgentMemory> memory = AgentMemory::open(options.folder);
  if (!memory.ok()) return memory.error();
  return std::unique_ptr<Agent>(new Agent(std::move(options), std::move(*memory)));
}

Agent::Agent(AgentOptions options, AgentMemory memory)
    : options_(std::move(options)),
      memory_(std::move(memory)),
      remover_(std::make_unique<control::FolderRemover>(options_.folder + "/jobs")),
      uploads_(std::make_shared<control::Uploads>(options_.folder + "/uploads",
                                                  control::UploadLimits())),
      courier_(std::make_unique<Courier>(options_.daemon, options_.machine.name, memory_.token(),
                                         uploads_)),
      desk_(
          std::make_unique<RegistryDesk>(options_.daemon, options_.machine.name, memory_.token())),
      sync_(options_.daemon, options_.machine.name, memory_.token(), options_.join_token) {
  uploads_->collect_regularly(
      [this] {
        const MutexLock lock(needed_mutex_);
        return needed_;
      },
      [] { return elastic::unix_seconds(); });
}

Agent::~Agent() { uploads_->stop(); }

std::string Agent::folder_of(JobNumber job) const {
  return fmt::format("{}/jobs/{}", options_.folder, job);
}

std::chrono::milliseconds Agent::pause() const { return jobs_.empty() ? kIdlePause : kBusyPause; }

Status Agent::turn() {
  if (executor_) take_notices();
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    job = step(job->first, job->second) ? jobs_.erase(job) : std::next(job);
  }
  for (const control::FolderRemover::Done& done : remover_->take_done()) {
    if (!done.problem.empty()) fmt::print(stderr, "rubatod agent: {}\n", done.problem);
  }
  if (Status taken = take_answer(); !taken.ok()) return taken;
  if (sync_.busy() || Clock::now() < next_call_) return ok_status();
  sync_.call(report(), unknown_);
  return ok_status();
}

// --- Notices

void Agent::tell(Notice notice) {
  // What was not told yet is not told twice; the newest progress is told again later.
  if (notice.kind == Notice::Kind::kProgress && untold_.size() > kManyUntold) return;
  untold_.push_back({++told_, std::move(notice)});
}

void Agent::tell_problem(JobNumber number, const std::string& message) {
  tell({.job = number, .kind = Notice::Kind::kFailed, .body = {{"message", message}}});
  jobs_.at(number).over = true;
}

void Agent::take_notices() {
  for (Notice& notice : executor_->poll()) {
    const auto found = jobs_.find(notice.job);
    if (found == jobs_.end() || found->second.stage == Stage::kEnding) continue;
    Job& job = found->second;
    const bool ends =
        notice.kind == Notice::Kind::kFinished || notice.kind == Notice::Kind::kFailed;
    // Its launcher has ended because the job goes on, or has finished, elsewhere.
    const bool left = notice.kind == Notice::Kind::kStopped && notice.body.contains("left");
    job.over = job.over || left;
    if (ends) {
      job.over = true;
      // People look for the results when they hear of it, so it is told when they are there.
      job.last.push_back(std::move(notice));
    } else {
      tell(std::move(notice));
    }
  }
}

bool Agent::has_untold(JobNumber number) const {
  return std::any_of(untold_.begin(), untold_.end(),
                     [&](const auto& numbered) { return numbered.notice.job == number; });
}

// --- Stages

void Agent::begin_fetch(JobNumber number, Job& job) {
  job.stage = Stage::kFetching;
  job.removing = false;
  const std::string folder = folder_of(number);
  if (is_directory(folder)) return;  // of an earlier stay; it is removed first
  Status made = control::claim_folder(folder, {.store = memory_.store(), .job = job.order.uid});
  if (made.ok()) made = control::give_folder(options_.isolation, folder, job.order.document);
  if (made.ok()) made = write_file(folder + "/fetching", "");
  if (made.ok() && job.order.guest) made = write_file(folder + "/guest", "");
  if (!made.ok()) {
    tell_problem(number, made.error().message);
    return;
  }
  courier_->fetch(number, folder,
                  {.events_length = job.order.events_offset,
                   .guest_of = job.order.guest ? options_.machine.name : "",
                   .upload = job.order.document.upload});
}

void Agent::attend(JobNumber number, const control::JobDocument& document) {
  const std::string folder = folder_of(number);
  const bool spread = control::spans_nodes(document);
  const bool guest = is_file(folder + "/guest");
  courier_->mirror(number, folder,
                   {.outputs = control::outputs_of(document),
                    .node = guest ? options_.machine.name : "",
                    .spread = spread});
  if (!spread || desk_->is_open(number)) return;
  const Status opened = desk_->open(number, folder);
  if (!opened.ok()) fmt::print(stderr, "rubatod agent: {}\n", opened.error().message);
}

// Its earlier events were told by the nodes on which it was before.
void Agent::begin_here(JobNumber number, const Job& job) {
  control::JobRecord record{.number = number, .document = job.order.document, .uid = job.order.uid};
  record.progress = {{"events_offset", job.order.events_offset}};
  const Status adopted = executor_->adopt(record);
  if (!adopted.ok()) tell_problem(number, adopted.error().message);
}

void Agent::want(JobNumber number, Job& job) {
  if (job.order.devices == 0 && job.order.at_once) return executor_->end_at_once(number);
  if (job.order.cancelled) return executor_->cancel(number);
  if (job.over) return;
  const control::Machine& machine = options_.machine;
  control::JobPlacement placement;
  if (job.order.devices > 0) {
    placement = {{.node = machine.name, .device_type = machine.type, .devices = job.order.devices}};
  }
  const Status wanted = executor_->want(number, job.order.document, placement, job.order.batch);
  if (!wanted.ok()) tell_problem(number, wanted.error().message);
}

bool Agent::remove_folder(JobNumber number, Job& job) {
  if (courier_->busy(number)) return false;
  if (!is_directory(folder_of(number))) return true;
  if (!std::exchange(job.removing, true)) {
    courier_->drop(number);
    desk_->close(number);
    const std::string owner = control::read_folder_owner(folder_of(number)).job;
    remover_->add({.job = number, .uid = owner});
  }
  return false;
}

bool Agent::step(JobNumber number, Job& job) {
  const std::string folder = folder_of(number);
  switch (job.stage) {
    case Stage::kFetching: {
      const bool wanted = job.order.devices > 0 && !job.order.cancelled && !job.over;
      if (!is_file(folder + "/fetching")) {
        // Of an earlier stay, or it could not be made.
        if (!wanted) return remove_folder(number, job);
        if (remove_folder(number, job)) begin_fetch(number, job);
        return false;
      }
      if (!wanted) {
        courier_->drop(number);
        return remove_folder(number, job) && !has_untold(number);
      }
      if (!courier_->done(number)) return false;
      std::error_code error;
      std::filesystem::remove(folder + "/fetching", error);
      job.stage = Stage::kHere;
      attend(number, job.order.document);
      begin_here(number, job);
      want(number, job);
      return false;
    }
    case Stage::kHere:
      if (job.order.devices > 0 && !job.order.cancelled && !job.over) return false;
      if (!executor_->forget(number)) return false;
      job.stage = Stage::kClosing;
      courier_->finish(number);
      return false;
    case Stage::kClosing:
      if (!job.removing) {
        if (!courier_->done(number)) return false;
        for (Notice& notice : job.last) tell(std::move(notice));
        job.last.clear();
        if (has_untold(number)) return false;  // if this agent dies now, the next one tells
      }
      if (!remove_folder(number, job)) return false;
      if (job.order.devices == 0 || job.order.cancelled || job.over) return true;
      begin_fetch(number, job);  // it is wanted again
      return false;
    case Stage::kEnding:
      return executor_->forget(number) && remove_folder(number, job);
  }
  return false;
}

}  // namespace rubato::agent
