#include "elastic/launch/opaque_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "elastic/job/registry_url.h"
#include "elastic/job/remembered_registry.h"
#include "elastic/launch/command_check.h"
#include "elastic/launch/interrupts.h"
#include "elastic/launch/ordinary_program.h"

namespace rubato::elastic {

namespace {

constexpr auto kOpaqueLook = std::chrono::milliseconds(20);

class OpaqueJob {
 public:
  OpaqueJob(const LaunchOptions& options, std::unique_ptr<Registry> registry)
      : options_(options),
        folder_(options.folder),
        registry_(std::make_unique<RememberedRegistry>(std::move(registry))),
        processes_(folder_, options.processes, options.command),
        program_(folder_, {.retries = options.settings.retries,
                           .grace_s = options.settings.grace_s,
                           .retry_after_s = options.processes.retry_after_s}) {
    processes_.be_ordinary();
  }

  Result<LaunchResult> run() {
    count_interrupts();
    Result<LaunchResult> result = watch();
    processes_.end_all();
    if (result.ok()) {
      using enum LaunchResult::State;
      write_status(result->state == kFinished  ? "finished"
                   : result->state == kStopped ? "stopped"
                                               : "failed",
                   result->message);
    }
    return result;
  }

 private:
  Result<LaunchResult> watch() {
    Result<std::optional<LaunchResult>> over = program_.resume();
    for (;;) {
      if (!over.ok()) return over.error();
      if (over->has_value()) return **over;
      for (const WorkerProcesses::End& end : processes_.reap()) over = program_.ended(end.status);
      if (!over.ok() || over->has_value()) continue;
      processes_.limit_logs();
      std::int64_t version = 0;
      const Result<Target> target = newest_target(*registry_, &version);
      if (!target.ok()) return target.error();
      const bool abandoned = options_.abandoned && options_.abandoned();
      const bool stop = target->stop || interrupts() > 0 || abandoned;
      if (stop && processes_.empty()) return LaunchResult{LaunchResult::State::kStopped, ""};
      if (stop) {
        program_.stop(processes_);
      } else if (processes_.empty() || target->devices == devices_) {
        target_ = version;
        devices_ = target->devices;
      }
      if (!stop && processes_.empty() && program_.may_start()) {
        Status started = start();
        if (!started.ok()) return started.error();
      }
      write_status("running", "");
      std::this_thread::sleep_for(kOpaqueLook);
    }
  }

  Status start() {
    const ProcessOptions& processes = options_.processes;
    Status possible =
        processes.directory.empty() ? ok_status() : check_directory(processes.directory);
    if (possible.ok()) {
      possible = check_program(options_.command, processes.directory,
                               search_path_with(processes.environment));
    }
    if (!possible.ok()) return invalid_input(possible.error().message);  // another try cannot help
    const Result<int> worker = next_worker_id(*registry_);
    if (!worker.ok()) return worker.error();
    Status begun = program_.begin(*worker);
    if (!begun.ok()) return begun;
    processes_.set_variable(kDevicesVariable, std::to_string(devices_.size()));
    processes_.set_variable(kTryVariable, std::to_string(program_.number_of_try()));
    Status started = processes_.start(*worker, rubato::join(devices_, ","));
    if (!started.ok()) program_.not_started();
    return started;
  }

  // The job keeps the devices of the target under which its program was started until it has ended.
  void write_status(const std::string& state, const std::string& message) {
    nlohmann::json workers = nlohmann::json::array();
    for (const WorkerProcess& process : processes_.all()) {
      workers.push_back({{"id", process.worker}, {"pid", process.pid}, {"device", ""}});
    }
    nlohmann::json status = {{"state", state},
                             {"pid", getpid()},
                             {"message", message},
                             {"newcomers", nlohmann::json::array()},
                             {"workers", std::move(workers)},
                             {"target", target_},
                             {"devices", devices_}};
    if (status == status_) return;
    if (write_file(folder_.status_file(), compact_json(status) + "\n").ok()) {
      status_ = std::move(status);
    }
  }

  const LaunchOptions& options_;
  JobFolder folder_;
  std::unique_ptr<Registry> registry_;
  WorkerProcesses processes_;
  OrdinaryProgram program_;
  std::int64_t target_ = 0;
  std::vector<std::string> devices_;
  nlohmann::json status_;  // as last written
};

}  // namespace

Result<LaunchResult> run_opaque(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  Status made = make_directories(options.folder + "/logs");
  if (!made.ok()) return made.error();
  JobSettings settings = options.settings;
  settings.command = options.command;
  settings.home = options.node.name;
  Status written = folder.write_settings(settings);
  if (!written.ok()) return written.error();
  Result<std::unique_ptr<Registry>> registry = open_registry(folder, settings);
  if (!registry.ok()) return registry.error();
  return OpaqueJob(options, std::move(*registry)).run();
}

}  // namespace rubato::elastic
