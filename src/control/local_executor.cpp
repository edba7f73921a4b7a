#include "control/local_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "control/json_fields.h"
#include "control/supervised_job.h"

namespace rubato::control {

namespace {

class LocalExecutorImpl final : public LocalExecutor {
 public:
  explicit LocalExecutorImpl(LocalExecutorOptions options) : options_(std::move(options)) {
    names_ = options_.machine.visible;
    for (int i = 0; names_.size() < static_cast<std::size_t>(options_.machine.devices); ++i) {
      names_.push_back(std::to_string(i));
    }
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
    SupervisedJob& job = add(record.number);
    job.want(record.document, record.granted, record.batch);
    if (ended(record.phase)) job.cancel();
    job.adopt();
    job.leave_missing(names_);
    return ok_status();
  }

  Status want(JobNumber number, const JobDocument& document, int devices,
              std::int64_t batch) override {
    if (devices < 0 || devices > options_.machine.devices) {
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
    SupervisedJob& job = found == jobs_.end() ? add(number) : *found->second;
    job.want(document, devices, batch);
    return ok_status();
  }

  void cancel(JobNumber number) override {
    const auto found = jobs_.find(number);
    if (found != jobs_.end()) found->second->cancel();
  }

  std::vector<Notice> poll() override {
    std::vector<Notice> notices;
    for (auto& [number, job] : jobs_) job->observe(notices);
    std::erase_if(jobs_, [this](const auto& entry) {
      if (!entry.second->at_rest()) return false;
      told_until_[entry.first] = entry.second->events_offset();
      return true;
    });
    for (auto& [number, job] : jobs_) job->give_back();
    for (auto& [number, job] : jobs_) {
      if (job->wants_more()) grow(*job, notices);
    }
    return notices;
  }

  int held(JobNumber number) const override {
    const auto found = jobs_.find(number);
    return found == jobs_.end() ? 0 : static_cast<int>(found->second->held().size());
  }
  int held() const override {
    std::size_t sum = 0;
    for (const auto& [number, job] : jobs_) sum += job->held().size();
    return static_cast<int>(sum);
  }
  std::string job_folder(JobNumber number) const override {
    return fmt::format("{}/{}", options_.folder, number);
  }

  std::vector<std::string> log_files(JobNumber number) const override {
    const std::string folder = job_folder(number) + "/logs";
    const Result<std::vector<std::string>> names = list_directory(folder);
    if (!names.ok()) return {};
    // worker-7.log.2, worker-7.log.1, worker-7.log
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> files;
    for (const std::string& name : *names) {
      const auto parts = split(name, '.');
      if (!name.starts_with("worker-") || parts.size() < 2 || parts[1] != "log") continue;
      const auto worker = parse_int(parts[0].substr(7));
      const auto age = parts.size() == 3 ? parse_int(parts[2]) : std::optional<std::int64_t>(0);
      if (worker && age && parts.size() <= 3) files.emplace_back(*worker, -*age, name);
    }
    std::sort(files.begin(), files.end());
    std::vector<std::string> paths;
    paths.reserve(files.size());
    for (const auto& file : files) paths.push_back(folder + "/" + std::get<2>(file));
    return paths;
  }

 private:
  SupervisedJob& add(JobNumber number) {
    auto job = std::make_unique<SupervisedJob>(number, job_folder(number), options_);
    job->go_on_at(told_until_[number]);
    return *(jobs_[number] = std::move(job));
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
  std::vector<std::string> names_;                            // names of the devices
  std::map<JobNumber, std::unique_ptr<SupervisedJob>> jobs_;  // that run or should run
  std::map<JobNumber, std::int64_t> told_until_;  // for the others: offset in their events.jsonl
};

}  // namespace

Result<std::unique_ptr<LocalExecutor>> LocalExecutor::make(LocalExecutorOptions options) {
  const Machine& machine = options.machine;
  if (machine.devices < 1) return invalid_input("the machine has no devices");
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
  std::error_code refused;
  std::filesystem::permissions(options.folder, std::filesystem::perms::owner_all, refused);
  if (refused) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot make the folder private: {}",
                                             options.folder, refused.message())};
  }
  return std::unique_ptr<LocalExecutor>(new LocalExecutorImpl(std::move(options)));
}

}  // namespace rubato::control
