// rubato scale, migrate, stop: change the workers of a running job.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/json_text.h"
#include "base/text.h"
#include "commands.h"
#include "elastic/launch/launcher.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

using elastic::JobSettings;
using elastic::Target;
using elastic::View;
using nlohmann::json;

struct WorkerArguments {
  std::string job;
  int number = 1;
  std::optional<std::int64_t> batch;
  bool as_json = false;
};

Status check_batch(const JobSettings& settings, int workers, std::int64_t batch) {
  if (!settings.adaptive) {
    return invalid_input(
        fmt::format("job {} is consistent, so its batch is fixed; to change the batch, start it "
                    "with --mode adaptive",
                    settings.name));
  }
  if (!settings.batch_range.contains(batch)) {
    return invalid_input(fmt::format("a batch of {} is outside of {}, the batch range of job {}",
                                     batch, to_string(settings.batch_range), settings.name));
  }
  if (batch < workers) {
    return invalid_input(
        fmt::format("a batch of {} cannot be divided among {} workers", batch, workers));
  }
  return ok_status();
}

int scale(const Context& context, const WorkerArguments& a) {
  const Result<FoundJob> found = which_job(context, a.job);
  if (!found.ok()) return fail(found.error());
  if (found->of_daemon()) {
    if (a.batch) {
      return fail(invalid_input(fmt::format(
          "--batch: {} is a job of the daemon, which chooses its batch; leave out --batch",
          found->id)));
    }
    return context.daemon->scale(*found, a.number, a.as_json);
  }
  Result<LocalJob> job = open_job(found->folder);
  if (!job.ok()) return fail(job.error());
  if (a.batch) {
    const Status fits = check_batch(job->settings, a.number, *a.batch);
    if (!fits.ok()) return fail(fits.error());
  }
  const Status asked = ask_for(*job, a.number, a.batch.value_or(0));
  if (!asked.ok()) return fail(asked.error());
  if (a.as_json) {
    json answer = {{"name", job->settings.name}, {"target", a.number}};
    if (a.batch) answer["batch"] = *a.batch;
    fmt::print("{}\n", indented_json(answer));
  } else {
    fmt::print("{} will run on {}{}; see 'rubato events {}'\n", job->settings.name,
               counted(a.number, "worker"),
               a.batch ? fmt::format(" with a batch of {}", *a.batch) : "", a.job);
  }
  return 0;
}

int migrate(const Context& context, const WorkerArguments& a) {
  const Result<FoundJob> found = which_job_of_run(
      context, a.job,
      "the daemon gives each worker its own device, so none is free for a replacement; "
      "'rubato pause' and 'rubato resume' restart all its workers");
  if (!found.ok()) return fail(found.error());
  Result<LocalJob> job = open_job(found->folder);
  if (!job.ok()) return fail(job.error());
  const Status running = require_running(*job);
  if (!running.ok()) return fail(running.error());
  const Result<View> view = elastic::newest_view(*job->registry);
  if (!view.ok()) return fail(view.error());
  if (view->find(a.number) == nullptr) {
    std::vector<std::string> ids;
    for (const int id : view->ids()) ids.push_back(std::to_string(id));
    return fail(invalid_input(fmt::format("job {} has no worker {}; it has {}", job->settings.name,
                                          a.number, join(ids, ", "))));
  }
  const Status asked = elastic::change_target(*job->registry, [&](Target& target) {
    if (std::find(target.migrate.begin(), target.migrate.end(), a.number) == target.migrate.end()) {
      target.migrate.push_back(a.number);
    }
    target.at = elastic::unix_seconds();
    return ok_status();
  });
  if (!asked.ok()) return fail(asked.error());
  if (a.as_json) {
    fmt::print("{}\n", indented_json(json{{"name", job->settings.name}, {"migrate", a.number}}));
  } else {
    fmt::print("worker {} will be replaced; see 'rubato events {}'\n", a.number, a.job);
  }
  return 0;
}

int stop(const Context& context, const WorkerArguments& a) {
  const Result<FoundJob> found = which_job_of_run(
      context, a.job,
      "'rubato pause' checkpoints it and releases its devices, 'rubato cancel' ends it");
  if (!found.ok()) return fail(found.error());
  Result<LocalJob> job = open_job(found->folder);
  if (!job.ok()) return fail(job.error());
  const Status running = require_running(*job);
  if (!running.ok()) return fail(running.error());
  const Status asked = elastic::change_target(*job->registry, [](Target& target) {
    target.stop = true;
    return ok_status();
  });
  if (!asked.ok()) return fail(asked.error());
  if (a.as_json) {
    fmt::print("{}\n", indented_json(json{{"name", job->settings.name}, {"stop", true}}));
  } else {
    fmt::print("{} will write a checkpoint and stop; the same 'rubato run' continues it\n",
               job->settings.name);
  }
  return 0;
}

}  // namespace

void add_worker_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<WorkerArguments>();
  const auto add = [&](const char* name, const char* description,
                       int (*run)(const Context&, const WorkerArguments&)) {
    CLI::App* sub = app.add_subcommand(name, description);
    sub->add_option("job", a->job, kJobHelp)->required();
    sub->add_flag("--json", a->as_json, "As JSON");
    sub->callback(
        [a, run, &context, &chosen] { chosen = [a, run, &context] { return run(context, *a); }; });
    return sub;
  };
  CLI::App* scaling =
      add("scale",
          "Change the number of workers of a running job, or pin a daemon's job to a "
          "number of devices (0: no pin)",
          scale);
  scaling->add_option("workers", a->number, "Number of workers; 0: the daemon's policy decides")
      ->required();
  scaling->add_option("--batch", a->batch,
                      "Adaptive job of 'rubato run': samples per step over all workers "
                      "(default: as many per worker as at the start)");
  CLI::App* migrating =
      add("migrate", "Replace a worker of a job of 'rubato run' with a new one", migrate);
  migrating->add_option("worker", a->number, "Worker id as shown by 'rubato ps JOB'")->required();
  add("stop", "Checkpoint and stop a job of 'rubato run'", stop);
}

}  // namespace rubato::cli
