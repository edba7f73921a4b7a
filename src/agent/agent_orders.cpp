// What the daemon says, and what the agent answers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "agent/agent.h"
#include "agent/own_address.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "control/job_owner.h"
#include "control/json_fields.h"
#include "control/upload_unpack.h"

namespace rubato::agent {

namespace {

using control::JobNumber;
using control::JobRecord;
using control::NodeOrders;
using control::NodeReport;

constexpr auto kRetryFirst = std::chrono::milliseconds(200);
constexpr int kMostDoublings = 3;

}  // namespace

control::NodeReport Agent::report() const {
  const control::Machine& machine = options_.machine;
  NodeReport report{.node = {.name = machine.name,
                             .device_type = machine.type,
                             .devices = machine.devices,
                             .labels = machine.labels},
                    .leaving = leaving_,
                    .start = memory_.start(),
                    .session = session_,
                    .epoch = memory_.epoch(),
                    .obeyed = obeyed_};
  if (unknown_) report.token_sha256 = sha256_hex(memory_.token());
  for (const auto& [number, job] : jobs_) {
    if (job.stage == Stage::kEnding) continue;
    NodeReport::Job told{.job = number};
    if (executor_ && job.stage == Stage::kHere) {
      const control::LocalExecutor::Share share = executor_->share_of(number);
      told.held = control::devices_on(executor_->held(number));
      told.called_runtime = executor_->has_called_runtime(number);
      told.view = share.view;
      told.members = share.members;
    }
    report.jobs.push_back(told);
  }
  if (executor_) report.use = executor_->device_use();
  std::size_t bytes = 0;
  for (const control::NumberedNotice& notice : untold_) {
    bytes += notice.notice.body.dump().size();
    const bool full = report.notices.size() == control::kMostNotices;
    if (full || (bytes > control::kMostNoticeBytes && !report.notices.empty())) break;
    report.notices.push_back(notice);
  }
  return report;
}

Status Agent::take_answer() {
  auto answer = sync_.take_answer();
  if (!answer) return ok_status();
  if (answer->ok()) {
    const NodeOrders& orders = answer->value();
    failures_ = 0;
    if (!std::exchange(told_problem_, "").empty()) fmt::print(stderr, "rubatod agent: connected\n");
    unknown_ = false;
    next_call_ = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * orders.next_s));
    return obey(orders);
  }
  const Error& error = answer->error();
  next_call_ = Clock::now() + kRetryFirst * (1 << std::min(failures_++, kMostDoublings));
  if (error.code == ErrorCode::kForbidden && !unknown_) {
    if (leaving_ && jobs_.empty()) {
      left_ = true;
      return ok_status();
    }
    unknown_ = true;  // it has never joined, or was removed
    next_call_ = Clock::now();
    return ok_status();
  }
  if (error.code != ErrorCode::kIo) return error;
  if (told_problem_ == error.message) return ok_status();
  told_problem_ = error.message;
  fmt::print(stderr, "rubatod agent: {}; jobs go on, and this is tried again\n", error.message);
  return ok_status();
}

void Agent::acknowledge(std::int64_t number) {
  while (!untold_.empty() && untold_.front().number <= number) untold_.pop_front();
}

Status Agent::obey(const NodeOrders& orders) {
  if (orders.epoch < memory_.epoch()) return ok_status();  // of a daemon that was replaced
  if (Status noted = memory_.obey(orders.epoch); !noted.ok()) return noted;
  if (orders.session.empty()) return ok_status();  // the daemon is not ready for this node
  if (orders.session != session_) {
    if (Status begun = begin_session(orders); !begun.ok()) return begun;
  }
  acknowledge(orders.acknowledged);
  apply(orders);
  obeyed_ = orders.number;
  return ok_status();
}

// All daemons are in the same network.
Result<std::string> Agent::address_towards_daemons() const {
  Result<std::string> address = Error{ErrorCode::kIo, "no daemon is named"};
  for (const std::string& url : urls_of(options_.daemon)) {
    address = own_address_towards(url);
    if (address.ok()) break;
  }
  return address;
}

Status Agent::make_executor() {
  executor_.reset();
  Result<std::string> address =
      options_.address.empty() ? address_towards_daemons() : options_.address;
  if (!address.ok()) return address.error();
  auto made = control::LocalExecutor::make({.folder = options_.folder + "/jobs",
                                            .supervisor = options_.supervisor,
                                            .machine = options_.machine,
                                            .node_of_jobs = options_.machine.name,
                                            .of_cluster = true,
                                            .listen = std::move(*address),
                                            .ends_with = options_.ends_with,
                                            .isolation = options_.isolation,
                                            .uploads = uploads_});
  if (!made.ok()) return made.error();
  executor_ = std::move(*made);
  return ok_status();
}

Status Agent::begin_session(const NodeOrders& orders) {
  for (const auto& [number, job] : jobs_) {
    courier_->drop(number);
    desk_->close(number);
  }
  jobs_.clear();
  untold_.clear();
  told_ = 0;
  if (Status made = make_executor(); !made.ok()) return made;
  const bool same_life = memory_.store() == orders.store && memory_.life() == orders.life;
  if (same_life) {
    for (const JobRecord& record : orders.adopt) take_over(record);
  }
  end_strangers();
  if (!same_life) {
    Status begun = memory_.begin_life(orders.store, orders.life);
    if (!begun.ok()) return begun;
  }
  session_ = orders.session;
  return ok_status();
}

void Agent::take_over(const JobRecord& record) {
  const std::string folder = folder_of(record.number);
  const bool complete = is_directory(folder) && !is_file(folder + "/fetching");
  if (!complete || !control::owns_folder(folder, record.uid)) return;
  const Status adopted = executor_->adopt(record);
  if (!adopted.ok()) {
    fmt::print(stderr, "rubatod agent: {}\n", adopted.error().message);
    return;
  }
  Job& job = jobs_[record.number];
  job.stage = Stage::kHere;
  job.over = control::ended(record.phase);
  attend(record.number, record.document);
}

// Folders of jobs that the daemon does not have here.
void Agent::end_strangers() {
  const auto names = list_directory(options_.folder + "/jobs");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const auto number = parse_int(name);
    if (!number || *number <= 0 || name != std::to_string(*number)) continue;
    if (jobs_.contains(*number)) continue;
    // As of a job that holds something: its processes are looked for.
    JobRecord record{.number = *number, .phase = control::Phase::kCancelled};
    record.document.run = {"true"};
    record.held = 1;
    const Status adopted = executor_->adopt(record);
    if (adopted.ok()) executor_->end_at_once(*number);
    jobs_[*number].stage = Stage::kEnding;
  }
}

// Those that must not be removed.
void Agent::note_uploads() {
  control::Uploads::Needed needed;
  for (const auto& [number, job] : jobs_) {
    const auto name = control::parse_upload(job.order.document.upload);
    if (name) needed.emplace(name->store, name->digest);
  }
  const MutexLock lock(needed_mutex_);
  needed_ = std::move(needed);
}

void Agent::apply(const NodeOrders& orders) {
  std::set<JobNumber> wanted;
  for (const NodeOrders::Job& order : orders.jobs) {
    wanted.insert(order.job);
    const auto known = jobs_.find(order.job);
    if (known == jobs_.end() && (order.devices == 0 || order.cancelled)) continue;
    Job& job = jobs_[order.job];
    const bool fresh = known == jobs_.end();
    job.order = order;
    if (fresh) begin_fetch(order.job, job);
    if (job.stage == Stage::kHere) want(order.job, job);
    desk_->note_changes(order.job, order.changes);
  }
  for (auto& [number, job] : jobs_) {
    if (wanted.contains(number) || job.stage == Stage::kEnding) continue;
    courier_->drop(number);
    executor_->end_at_once(number);
    job.order.devices = 0;
    job.stage = Stage::kEnding;
  }
  note_uploads();
}

}  // namespace rubato::agent
