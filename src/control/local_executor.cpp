#include "control/local_executor.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/mutex.h"
#include "control/device_watch.h"
#include "control/job_logs.h"
#include "control/job_owner.h"
#include "control/json_fields.h"
#include "control/process_killer.h"
#include "control/result_files.h"
#include "control/supervised_job.h"
#include "elastic/job/job_folder.h"

namespace rubato::control {

namespace {

class LocalExecutorImpl final : public LocalExecutor {
 public:
  explicit LocalExecutorImpl(LocalExecutorOptions options)
      : options_(std::move(options)), node_(node_of(options_.machine)) {
    names_ = options_.machine.visible;
    for (int i = 0; names_.size() < static_cast<std::size_t>(options_.machine.devices); ++i) {
      names_.push_back(std::to_string(i));
    }
    if (!options_.machine.nvml.empty()) {
      watch_ = std::make_unique<DeviceWatch>(options_.machine.nvml, names_);
    }
  }

  std::span<const LiveNode> nodes() const override { return {&node_, 1}; }

  Remains remains_of(const JobRecord& record) const override {
    const std::string folder = job_folder(record.number);
    if (!owns_folder(folder, record.uid)) return Remains::kStrangers;
    return is_directory(folder) ? Remains::kItsOwn : Remains::kNothing;
  }

  // All jobs of this folder run here, whatever the machine was called.
  JobPlacement named_today(const JobPlacement& recorded) const override {
    return here(devices_on(recorded));
  }

  Status adopt(const JobRecord& record) override {
    if (jobs_.contains(record.number)) {
      return invalid_input(fmt::format("job {} was already adopted", record.number));
    }
    const std::string folder = job_folder(record.number);
    const bool may_run = is_file(folder + "/supervise.json");
    told_until_[record.number] =
        std::max<std::int64_t>(0, whole_in(record.progress, "events_offset"));
    if (!may_run && record.granted == 0 && record.held == 0) return ok_status();
    const AsUser rights = rights_in(record.number);
    SupervisedJob& job = add(record.number);
    job.errors().know(record.errors);
    job.want(record.document, record.granted, record.batch);
    if (ended(record.phase)) job.cancel();
    // A daemon that died while it started the job recorded only what it had granted.
    job.adopt(record.held > 0 || record.granted > 0, record.held);
    job.leave_missing(names_);
    return ok_status();
  }

  Status claim(JobNumber number, const FolderOwner& owner) override {
    return claim_folder(job_folder(number), owner);
  }

  Status want(JobNumber number, const JobDocument& document, const JobPlacement& placement,
              std::int64_t batch) override {
    const int devices = devices_on(placement);
    for (const NodeDevices& part : placement) {
      if (part.node == node_.name) continue;
      return invalid_input(fmt::format("job {}: devices of node {} requested, but this is {}",
                                       number, part.node, node_.name));
    }
    if (devices > options_.machine.devices) {
      return invalid_input(fmt::format("job {}: {} devices requested, but the machine has {}",
                                       number, devices, options_.machine.devices));
    }
    if (document.logical_workers > 0 && devices > document.logical_workers) {
      return invalid_input(fmt::format("job {}: {} devices requested for {} logical workers",
                                       number, devices, document.logical_workers));
    }
    if (document.run.empty()) return invalid_input(fmt::format("job {}: nothing to run", number));
    const auto found = jobs_.find(number);
    if (found == jobs_.end() && devices == 0) return ok_status();  // nothing to stop
    if (devices > 0) {
      Status given = give_folder(options_.isolation, job_folder(number), document);
      if (!given.ok()) return given;
    }
    const AsUser rights = rights_in(number);
    SupervisedJob& job = found == jobs_.end() ? add(number) : *found->second;
    job.want(document, devices, batch);
    return ok_status();
  }

  void cancel(JobNumber number) override {
    const auto found = jobs_.find(number);
    if (found != jobs_.end()) found->second->cancel();
  }
  void end_at_once(JobNumber number) override {
    const auto found = jobs_.find(number);
    if (found != jobs_.end()) found->second->cancel(true);
  }

  bool forget(JobNumber number) override {
    if (jobs_.contains(number)) return false;
    told_until_.erase(number);
    return true;
  }

  std::vector<Notice> poll() override {
    std::vector<Notice> notices;
    std::vector<JobNumber> growing;  // after all others have given back
    for (auto& [number, job] : jobs_) {
      const AsUser rights = rights_in(number);
      try {
        job->observe(notices);
        job->tell_errors(notices);
      } catch (const std::exception& problem) {  // the last resort: nothing above should throw
        job->distrust(problem.what(), notices);
      }
    }
    std::erase_if(jobs_, [this](const auto& entry) {
      if (!entry.second->at_rest()) return false;
      told_until_[entry.first] = entry.second->events_offset();
      return true;
    });
    for (auto& [number, job] : jobs_) {
      const AsUser rights = rights_in(number);
      job->give_back();
      if (job->wants_more()) growing.push_back(number);
    }
    for (const JobNumber number : growing) {
      const AsUser rights = rights_in(number);
      grow(*jobs_.at(number), notices);
    }
    for (Notice& notice : notices) {
      if (notice.kind == Notice::Kind::kHeld) notice.nodes = here(notice.devices);
    }
    if (watch_ != nullptr) note_owners();
    return notices;
  }

  std::vector<DeviceUse> device_use() const override {
    if (watch_ == nullptr) return {};
    std::vector<DeviceUse> all = watch_->newest();
    const MutexLock lock(owners_mutex_);
    for (DeviceUse& use : all) {
      use.node = node_.name;
      const auto owner = owners_.find(names_[static_cast<std::size_t>(use.index)]);
      if (owner != owners_.end()) use.job = owner->second;
    }
    return all;
  }

  JobPlacement held(JobNumber number) const override {
    const auto found = jobs_.find(number);
    return found == jobs_.end() ? JobPlacement()
                                : here(static_cast<int>(found->second->held().size()));
  }
  int held() const override {
    std::size_t sum = 0;
    for (const auto& [number, job] : jobs_) sum += job->held().size();
    return static_cast<int>(sum);
  }
  Share share_of(JobNumber number) const override {
    const auto found = jobs_.find(number);
    return found == jobs_.end() ? Share() : found->second->share();
  }
  bool has_called_runtime(JobNumber number) const override {
    return is_file(elastic::JobFolder(job_folder(number)).hello_file());
  }

  std::string job_folder(JobNumber number) const override {
    return fmt::format("{}/{}", options_.folder, number);
  }

  std::vector<std::string> log_files(const JobRecord& record) const override {
    if (!owns_folder(job_folder(record.number), record.uid)) return {};
    return log_files(record.number);
  }

  Result<ResultPlace> result_place(const JobRecord& record) const override {
    const std::string folder = job_folder(record.number);
    if (owns_folder(folder, record.uid)) {
      return ResultPlace{.folder = folder, .outputs = outputs_of(record.document)};
    }
    return Error{ErrorCode::kNotFound,
                 fmt::format("{}: its folder is not there any more", job_name_of(record.number))};
  }

  std::vector<std::string> log_files(JobNumber number) const override {
    return job_log_files(job_folder(number));
  }

 private:
  JobPlacement here(int devices) const {
    if (devices == 0) return {};
    return {{.node = node_.name, .device_type = node_.device_type, .devices = devices}};
  }

  // Whatever happens in a job's folder happens with its user's rights. Groups matter only for the
  // program and its directory; they are looked up once per user.
  AsUser rights_in(JobNumber number) {
    struct stat folder {};
    if (!options_.isolation.users || lstat(job_folder(number).c_str(), &folder) != 0 ||
        folder.st_uid == 0) {
      return AsUser::owner_of(job_folder(number));
    }
    const auto known = users_.find(folder.st_uid);
    if (known != users_.end()) return AsUser(known->second);
    const Result<UnixUser> user = find_unix_user(std::to_string(folder.st_uid));
    if (!user.ok()) return AsUser::owner_of(job_folder(number));
    return AsUser(users_.emplace(folder.st_uid, *user).first->second);
  }

  SupervisedJob& add(JobNumber number) {
    auto job = std::make_unique<SupervisedJob>(number, job_folder(number), options_);
    job->go_on_at(told_until_[number]);
    return *(jobs_[number] = std::move(job));
  }

  // For device_use(), which other threads call.
  void note_owners() {
    std::map<std::string, JobNumber> owners;
    for (const auto& [number, job] : jobs_) {
      for (const std::string& name : job->held()) owners[name] = number;
    }
    const MutexLock lock(owners_mutex_);
    owners_ = std::move(owners);
  }

  // All or nothing, because the job's owner may have excluded sizes in between.
  void grow(SupervisedJob& job, std::vector<Notice>& notices) {
    const auto missing = static_cast<std::size_t>(job.missing());
    std::vector<std::string> free;
    for (const std::string& name : names_) {
      if (free.size() == missing) break;
      const bool taken = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
        return entry.second->held().contains(name);
      });
      if (!taken) free.push_back(name);
    }
    if (free.size() == missing) job.take(free, notices);
  }

  const LocalExecutorOptions options_;
  const LiveNode node_;
  std::vector<std::string> names_;                            // names of the devices
  std::map<JobNumber, std::unique_ptr<SupervisedJob>> jobs_;  // that run or should run
  std::map<uid_t, UnixUser> users_;
  std::map<JobNumber, std::int64_t> told_until_;  // for the others: offset in their events.jsonl
  mutable Mutex owners_mutex_;
  std::map<std::string, JobNumber> owners_ RUBATO_GUARDED_BY(owners_mutex_);  // by device
  std::unique_ptr<DeviceWatch> watch_;  // null: nobody tells anything of the devices
};

}  // namespace

Result<std::unique_ptr<LocalExecutor>> LocalExecutor::make(LocalExecutorOptions options) {
  const Machine& machine = options.machine;
  if (machine.devices < 1) return invalid_input("the machine has no devices");
  if (const std::string_view problem = node_name_problem(machine.name); !problem.empty()) {
    return invalid_input(fmt::format("the name of the node '{}' {}", machine.name, problem));
  }
  if (!machine.visible.empty() &&
      machine.visible.size() != static_cast<std::size_t>(machine.devices)) {
    return invalid_input(
        fmt::format("{} devices but {} device names", machine.devices, machine.visible.size()));
  }
  // Supervisors have another working directory and identify the job by this path.
  options.folder = std::filesystem::absolute(options.folder).lexically_normal().string();
  Status made = make_directories(options.folder);
  if (!made.ok()) return made.error();
  // The folder contains the environment variables of jobs.
  Status reachable = open_way_to(options.isolation, options.folder);
  if (!reachable.ok()) return reachable.error();
  options.killer = std::make_shared<ProcessKiller>();
  return std::unique_ptr<LocalExecutor>(new LocalExecutorImpl(std::move(options)));
}

}  // namespace rubato::control
