// Commands. They are checked in the caller's thread as far as possible and carried out by the loop.
#include <fmt/format.h>

#include "base/file.h"
#include "base/sha256.h"
#include "control/arrays.h"
#include "control/live_controller.h"
#include "control/local_executor.h"
#include "control/pins.h"
#include "control/quota_check.h"
#include "control/tokens.h"
#include "elastic/launch/command_check.h"

namespace rubato::control {

namespace {

constexpr const char* kDefaultTenant = "default";
constexpr double kLongestReservation = 366.0 * 86'400;

Error refused(std::string message) { return {ErrorCode::kRefused, std::move(message)}; }
Error forbidden() { return {ErrorCode::kForbidden, "only an administrator may do this"}; }

// What lies in the daemon's folder.
struct Opened {
  std::unique_ptr<Store> store;
  std::string token;
  std::shared_ptr<Uploads> uploads;
};

Result<Opened> open(const ControllerOptions& options) {
  Result<std::unique_ptr<Store>> store = Store::open(options.folder, options.witness);
  if (!store.ok()) return store.error();
  Result<std::string> token = token_in_file(options.folder + "/admin.token");
  if (!token.ok()) return token.error();
  return Opened{.store = std::move(*store),
                .token = std::move(*token),
                .uploads = std::make_shared<Uploads>(options.folder + "/uploads", options.uploads)};
}

Result<std::unique_ptr<Controller>> begin(const ControllerOptions& options, Opened opened,
                                          std::unique_ptr<JobExecutor> executor,
                                          const std::function<void(LiveController&)>& use = {}) {
  const std::span<const LiveNode> nodes = executor->nodes();
  Result<LiveCluster> cluster =
      LiveCluster::make({nodes.begin(), nodes.end()}, executor->keeps_some_together());
  if (!cluster.ok()) return cluster.error();
  auto controller =
      std::make_unique<LiveController>(options, std::move(opened.store), std::move(executor),
                                       std::move(*cluster), sha256_hex(opened.token));
  controller->use_uploads(std::move(opened.uploads));
  if (use) use(*controller);
  controller->begin();
  return std::unique_ptr<Controller>(std::move(controller));
}

// Jobs run on the nodes of the log, and on others that join.
Result<std::unique_ptr<Controller>> begin_cluster(const ControllerOptions& options, Opened opened) {
  Result<std::string> token = token_in_file(options.folder + "/join.token");
  if (!token.ok()) return token.error();
  ClusterOptions cluster = *options.cluster;
  cluster.folder = options.folder + "/jobs";
  const Status made = make_directories(cluster.folder);
  if (!made.ok()) return made.error();
  auto executor = std::make_unique<ClusterExecutor>(cluster, opened.store->identity(),
                                                    opened.store->state().nodes);
  ClusterExecutor* nodes = executor.get();
  const auto use = [&](LiveController& controller) {
    controller.use_cluster(nodes, sha256_hex(*token));
  };
  return begin(options, std::move(opened), std::move(executor), use);
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::start(const ControllerOptions& options) {
  Result<Opened> opened = open(options);
  if (!opened.ok()) return opened.error();
  if (options.cluster) return begin_cluster(options, std::move(*opened));
  auto executor = LocalExecutor::make({.folder = options.folder + "/jobs",
                                       .supervisor = options.supervisor,
                                       .machine = options.machine,
                                       .isolation = options.isolation,
                                       .uploads = opened->uploads});
  if (!executor.ok()) return executor.error();
  return begin(options, std::move(*opened), std::move(*executor));
}

Result<std::unique_ptr<Controller>> Controller::start(const ControllerOptions& options,
                                                      std::unique_ptr<JobExecutor> executor) {
  Result<Opened> opened = open(options);
  if (!opened.ok()) return opened.error();
  return begin(options, std::move(*opened), std::move(executor));
}

Status LiveController::check_possible(const JobDocument& document) const {
  if (nodes_ != nullptr) return ok_status();  // it waits for a node that can run it
  const LiveCluster cluster = live_cluster();
  if (!document.device_type.empty() && !cluster.has_type(document.device_type)) {
    return invalid_input(fmt::format("device_type: {} has no '{}', only '{}'", cluster.here(),
                                     document.device_type, cluster.device_types()));
  }
  const int most = cluster.most_devices(document);
  if (document.min_devices > most) {
    return invalid_input(
        fmt::format("devices: the job needs at least {} devices, but {} has {}{}; ask for fewer",
                    document.min_devices, cluster.here(), most,
                    most < cluster.devices() ? " of one type" : ""));
  }
  return ok_status();
}

Status LiveController::check_startable(const JobDocument& document) const {
  const std::string& program = document.run.front();
  const bool relative = program.find('/') != std::string::npos && !program.starts_with('/');
  if (!document.upload.empty() && relative) return ok_status();  // settle_upload() has found it
  if (document.dir.empty() && relative) {
    return invalid_input(
        fmt::format("run: '{}' is a relative path; give an absolute one, or set dir", program));
  }
  if (nodes_ != nullptr) return ok_status();  // the rest shows on the node that runs it
  if (!document.dir.empty()) {
    const Status folder = elastic::check_directory(document.dir);
    if (!folder.ok()) return invalid_input("dir: " + folder.error().message);
  }
  const Status found =
      elastic::check_program(document.run, document.dir,
                             elastic::search_path_with({document.env.begin(), document.env.end()}));
  return found.ok() ? found : Status(invalid_input("run: " + found.error().message));
}

Result<JobNumber> LiveController::job_of_key(const std::string& tenant,
                                             const std::string& key) const {
  if (key.empty()) return JobNumber{0};
  const auto use = store_->jobs().stored_key(tenant, key);
  if (!use.ok()) return use.error();
  return *use && now_unix() < (*use)->at + kKeyLasts ? (*use)->job : JobNumber{0};
}

Result<JobRecord> LiveController::submit(const Caller& caller, JobDocument document,
                                         const std::string& key) {
  if (!caller.admin && !document.tenant.empty() && document.tenant != caller.tenant) {
    return invalid_input(fmt::format(
        "tenant: this token does not belong to '{}'; leave the field out", document.tenant));
  }
  std::string tenant = !document.tenant.empty() ? document.tenant : caller.tenant;
  if (tenant.empty()) tenant = kDefaultTenant;
  Status possible = check_possible(document);
  if (!possible.ok()) return refuse(tenant, "does-not-fit", possible.error());
  possible = check_array(document);
  if (!possible.ok()) return refuse(tenant, "array", possible.error());
  possible = check_limits(options_.isolation, document);
  if (!possible.ok()) return refuse(tenant, "no-limits-here", possible.error());
  possible = settle_user(caller, tenant, document);
  if (!possible.ok()) return refuse(tenant, "user", possible.error());
  if (options_.encrypt_jobs && !document.encrypt) document.encrypt = true;
  const Result<JobNumber> known = job_of_key(tenant, key);
  if (!known.ok()) return known.error();
  if (*known == 0) {
    possible = settle_upload(caller, document);
    if (!possible.ok()) return refuse(tenant, "upload", possible.error());
    {
      const AsUser rights = rights_for(document);
      possible = check_startable(document);
    }
    if (!possible.ok()) return refuse(tenant, "not-startable", possible.error());
    {
      const ReadLock lock(mutex_);
      possible = check_quota(document, tenant, store_->state());
    }
    if (!possible.ok()) return refuse(tenant, "quota", possible.error());
  }
  const Result<std::string> uid = random_uid();
  if (!uid.ok()) return uid.error();
  std::future<Result<JobRecord>> answer;
  {
    const MutexLock lock(inbox_mutex_);
    if (stopping_) return Error{ErrorCode::kIo, "the daemon is stopping; retry"};
    Submission& submission = submissions_.emplace_back();
    submission.document = std::move(document);
    submission.tenant = std::move(tenant);
    submission.key = key;
    submission.uid = *uid;
    submission.caller = caller;
    answer = submission.answer.get_future();
  }
  inbox_filled_.notify_all();
  return answer.get();
}

Status LiveController::cancel(const Caller& caller, JobNumber job) {
  return ask<std::monostate>([this, caller, job]() -> Status {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
    if (ended(record->phase)) {
      return refused(
          fmt::format("{} has already ended ({})", job_name_of(job), to_string(record->phase)));
    }
    Status done = append({given(caller, about(*record, "cancelled", nlohmann::json::object()))});
    if (done.ok()) note_cancelled(job);
    return done;
  });
}

Status LiveController::remove(const Caller& caller, JobNumber job) {
  return ask<std::monostate>([this, caller, job]() -> Status {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
    if (!ended(record->phase)) {
      return refused(
          fmt::format("{0} is {1}; only a job that has ended can be removed; "
                      "next: rubato cancel {0}",
                      job_name_of(job), to_string(record->phase)));
    }
    if (!at_rest(*record)) {
      return refused(fmt::format("{} has ended, but its processes have not; try again in a moment",
                                 job_name_of(job)));
    }
    Status done = append({given(caller, about(*record, "removed",
                                              {{"phase", std::string(to_string(record->phase))},
                                               {"device_s", record->device_s}}))});
    next_removals_at_ = 0;
    return done;
  });
}

void LiveController::note_cancelled(JobNumber job) {
  scheduler_->remove(job);
  executor_->cancel(job);
  not_started_.erase(job);
  const WriteLock lock(mutex_);
  live_.erase(job);
  ++metrics_.ended_by_phase["cancelled"];
  round_due_ = true;
}

Status LiveController::pause(const Caller& caller, JobNumber job) {
  return ask<std::monostate>([this, caller, job]() -> Status {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
    if (record->phase != Phase::kQueued && record->phase != Phase::kRunning) {
      return refused(fmt::format("{} is {}; only a queued or running job can be paused",
                                 job_name_of(job), to_string(record->phase)));
    }
    Status done = append({given(caller, about(*record, "paused", nlohmann::json::object()))});
    if (!done.ok()) return done;
    scheduler_->remove(job);
    round_due_ = true;
    // Of a job that never ran there is nothing to stop.
    if (record->started_at > 0) static_cast<void>(executor_->want(job, record->document, {}, 0));
    return ok_status();
  });
}

Status LiveController::resume(const Caller& caller, JobNumber job) {
  return ask<std::monostate>([this, caller, job]() -> Status {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
    if (record->phase != Phase::kPaused) {
      return refused(
          fmt::format("{} is {}, not paused", job_name_of(job), to_string(record->phase)));
    }
    Status done = append({given(caller, about(*record, "resumed", nlohmann::json::object()))});
    if (!done.ok()) return done;
    round_due_ = true;
    // A job that does not fit this machine waits, with that reason.
    static_cast<void>(scheduler_->add(store_->state().jobs.at(job), known_profile_of(*record)));
    return ok_status();
  });
}

Status LiveController::scale(const Caller& caller, JobNumber job, int devices) {
  return ask<std::monostate>([this, caller, job, devices]() -> Status {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
    if (ended(record->phase)) {
      return refused(fmt::format("{} has already ended", job_name_of(job)));
    }
    Status possible = check_pin(*record, devices, store_->state(), live_cluster(),
                                caller.admin ? "" : caller.tenant);
    if (!possible.ok()) return possible;
    Status done = append({given(caller, about(*record, "scaled", {{"devices", devices}}))});
    if (!done.ok()) return done;
    round_due_ = true;
    if (record->phase != Phase::kPaused) {
      static_cast<void>(scheduler_->refresh(store_->state().jobs.at(job)));
    }
    return ok_status();
  });
}

Status LiveController::change(const Caller& caller, JobNumber job, const nlohmann::json& fields) {
  return ask<std::monostate>([this, caller, job, fields]() -> Status {
    const Result<JobRecord> record = visible(caller, job);
    if (!record.ok()) return record.error();
    const Result<JobDocument> changed = with_changes(record->document, fields);
    if (!changed.ok()) return changed.error();
    if (ended(record->phase)) {
      return refused(
          fmt::format("{} has already ended ({})", job_name_of(job), to_string(record->phase)));
    }
    if (*changed == record->document) return ok_status();
    Status done = append({given(caller, about(*record, "changed", {{"fields", fields}}))});
    if (!done.ok()) return done;
    round_due_ = true;
    if (record->phase != Phase::kPaused) {
      static_cast<void>(scheduler_->refresh(store_->state().jobs.at(job)));
    }
    return ok_status();
  });
}

Status LiveController::use_policy(const Caller& caller, const std::string& name,
                                  const Settings& settings) {
  if (!caller.admin) return forbidden();
  const Result<const PolicyInfo*> info = find_policy(name);
  if (!info.ok()) return info.error();
  const auto made = make_policy(**info, settings, 1);
  if (!made.ok()) return made.error();
  return ask<std::monostate>([this, caller, name, settings]() -> Status {
    Status done = append(
        {given(caller, event("policy", {{"name", name}, {"settings", nlohmann::json(settings)}}))});
    if (done.ok()) start_scheduler();
    return done;
  });
}

Status LiveController::note_supply(const Caller& caller, const std::string& text, double seconds) {
  if (!caller.admin) return forbidden();
  return ask<std::monostate>([this, caller, text, seconds]() -> Status {
    return append(
        {given(caller, event("supply", {{"text", text}, {"until", now_unix() + seconds}}))});
  });
}

Result<Reservation> LiveController::reserve(const Caller& caller, int devices, double seconds) {
  if (!caller.admin) return forbidden();
  if (!(seconds > 0) || seconds > kLongestReservation) {
    return invalid_input("seconds: a reservation must last more than 0 s and at most a year");
  }
  return ask<Reservation>([this, caller, devices, seconds]() -> Result<Reservation> {
    const int all = live_cluster().devices();
    const int left = all - reserved_now();
    if (left < 1) {
      return invalid_input(fmt::format("devices: all {} devices are reserved already", all));
    }
    if (devices < 1 || devices > left) {
      return invalid_input(fmt::format("devices: {} of {} devices can be reserved, not {}",
                                       left == 1 ? "only 1" : fmt::format("1 to {}", left), all,
                                       devices));
    }
    const std::int64_t number = store_->state().next_reservation;
    Status done = append({given(caller, event("reserved", {{"number", number},
                                                           {"devices", devices},
                                                           {"until", now_unix() + seconds}}))});
    if (!done.ok()) return done.error();
    carry_out(scheduler_->set_reserved(reserved_now()));
    round_due_ = true;
    return store_->state().reservations.at(number);
  });
}

Status LiveController::release(const Caller& caller, std::int64_t reservation) {
  if (!caller.admin) return forbidden();
  return ask<std::monostate>([this, caller, reservation]() -> Status {
    if (!store_->state().reservations.contains(reservation)) {
      return Error{ErrorCode::kNotFound, fmt::format("no reservation {}", reservation)};
    }
    Status done = append({given(caller, event("released", {{"number", reservation}}))});
    if (!done.ok()) return done;
    carry_out(scheduler_->set_reserved(reserved_now()));
    round_due_ = true;
    return ok_status();
  });
}

}  // namespace rubato::control
