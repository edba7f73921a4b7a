#include "which_job.h"

#include <fmt/format.h>

#include "base/file.h"
#include "commands.h"
#include "elastic/launch/launcher.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

Result<FoundJob> in_folder(const std::string& folder) {
  const elastic::JobFolder here(folder);
  const Result<elastic::JobSettings> settings = here.read_settings();
  if (!settings.ok()) return settings.error();
  FoundJob job;
  job.name = settings->name;
  job.folder = folder;
  job.active = state_of(here) == "running";
  return job;
}

Result<FoundJob> choose(const std::string& text, const FoundJob& run, const FoundJob& daemon) {
  if (run.active != daemon.active) return run.active ? run : daemon;
  return invalid_input(
      fmt::format("'{}' means two jobs: {} of the daemon, and the one of 'rubato run' in {}; use "
                  "the id or the folder",
                  text, daemon.id, run.folder));
}

Error nothing_found(const std::string& job, const Error& run, const Error& daemon) {
  for (const Error& error : {run, daemon}) {
    if (error.code != ErrorCode::kNotFound) return error;
  }
  // The local error may suggest a similar name. Otherwise the daemon's error says more.
  if (run.message.find("did you mean") != std::string::npos) return run;
  if (daemon.message.starts_with("there is no job")) return daemon;
  return {ErrorCode::kNotFound, fmt::format("there is no job '{}'; {}", job, daemon.message)};
}

}  // namespace

Result<FoundJob> which_job(const Context& context, const std::string& job) {
  if (context.server.given()) return context.daemon->find(job);
  if (is_file(elastic::JobFolder(job).settings_file())) {
    Result<FoundJob> found = in_folder(job);
    if (!found.ok() || context.daemon == nullptr) return found;
    const Result<std::string> id = context.daemon->id_of_folder(job);
    if (!id.ok()) return id.error();
    return id->empty() ? found : context.daemon->find(*id);
  }
  const Result<std::string> folder = elastic::find_job(job);
  Result<FoundJob> run = folder.ok() ? in_folder(*folder) : Result<FoundJob>(folder.error());
  if (context.daemon == nullptr) return run;
  Result<FoundJob> daemon = context.daemon->find(job);
  if (run.ok() && daemon.ok()) return choose(job, *run, *daemon);
  // A name that is ambiguous for the daemon is ambiguous here. Other errors of the daemon do not
  // matter for a job of 'rubato run'.
  if (run.ok() && daemon.error().code != ErrorCode::kRefused) return run;
  if (daemon.ok() || run.ok()) return daemon;
  return nothing_found(job, run.error(), daemon.error());
}

Result<FoundJob> which_daemon_job(const Context& context, const std::string& job,
                                  const std::string& instead) {
  Result<FoundJob> found = which_job(context, job);
  if (!found.ok() || found->of_daemon()) return found;
  return invalid_input(fmt::format("{} is a job of 'rubato run', not of the daemon{}{}",
                                   found->name, instead.empty() ? "" : "; ", instead));
}

Result<FoundJob> which_job_of_run(const Context& context, const std::string& job,
                                  const std::string& instead) {
  Result<FoundJob> found = which_job(context, job);
  if (!found.ok() || !found->of_daemon()) return found;
  return invalid_input(fmt::format("{} is a job of the daemon; {}", found->id, instead));
}

}  // namespace rubato::cli
