#include <fmt/format.h>

#include "api/handlers.h"
#include "api/job_text.h"
#include "api/plans.h"
#include "base/text.h"

namespace rubato::api {

namespace {

using control::JobDocument;
using control::JobFilter;
using control::JobNumber;
using control::JobRecord;
using control::Phase;
using nlohmann::json;

Result<JobDocument> read_document(const Call& call) {
  Result<JobDocument> document = call.yaml.empty() ? control::parse_job_json(call.body)
                                                   : control::parse_job_yaml(call.yaml, "body");
  // Nobody knows in which folder the caller is.
  if (document.ok() && !document->dir.empty() && !document->dir.starts_with('/')) {
    return invalid_input(
        fmt::format("/dir: '{}' is a relative path; over HTTP it must be absolute", document->dir));
  }
  return document;
}

Reply job_reply(const Call& call, JobNumber number) {
  const Result<JobRecord> job = call.controller.job(call.caller, number);
  if (!job.ok()) return error_reply(job.error());
  return {.body = job_text(*job)};
}

Result<std::vector<Phase>> phases_in(const std::vector<std::string_view>& names) {
  std::vector<Phase> phases;
  for (const std::string_view name : names) {
    const std::optional<Phase> phase = control::parse_phase(name);
    if (!phase) {
      return invalid_input(
          fmt::format("phases: '{}'; expected queued, running, paused, finished, failed or "
                      "cancelled",
                      name.substr(0, 40)));
    }
    phases.push_back(*phase);
  }
  return phases;
}

Result<JobFilter> query_filter(const Call& call) {
  JobFilter filter{.name = call.text("name"),
                   .tenant = call.text("tenant"),
                   .user = call.text("user"),
                   .array = call.text("array"),
                   .since = static_cast<double>(call.number("since"))};
  auto labels = control::parse_labels(call.text("labels"));
  if (!labels.ok()) return invalid_input("labels: " + labels.error().message);
  filter.labels = std::move(*labels);
  const std::string phases = call.text("phases");
  if (phases.empty()) return filter;
  auto all = phases_in(split(phases, ','));
  if (!all.ok()) return all.error();
  filter.phases = std::move(*all);
  return filter;
}

// The body has been checked against its schema.
Result<JobFilter> body_filter(const json& body) {
  JobFilter filter{.name = body.value("name", ""),
                   .tenant = body.value("tenant", ""),
                   .user = body.value("user", ""),
                   .array = body.value("array", ""),
                   .since = body.value("since", 0.0),
                   .before = body.value("submitted_before", 0.0)};
  const json labels = body.value("labels", json::object());
  for (const auto& [name, value] : labels.items()) {
    filter.labels[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  for (const json& name : body.value("phases", json::array())) {
    if (const auto phase = control::parse_phase(name.get<std::string>())) {
      filter.phases.push_back(*phase);
    }
  }
  if (filter.any()) return invalid_input("expected at least one condition, such as {name: *}");
  return filter;
}

Reply called_jobs(const Call& call, int limit) {
  const Result<std::vector<JobNumber>> numbers =
      call.controller.find_all(call.caller, call.text("job"));
  if (!numbers.ok()) return error_reply(numbers.error());
  std::vector<JobRecord> jobs;
  for (const JobNumber number : *numbers) {
    if (number <= call.number("after") || std::ssize(jobs) == limit) continue;
    Result<JobRecord> job = call.controller.job(call.caller, number);
    if (job.ok()) jobs.push_back(std::move(*job));
  }
  return {.body = job_list_text(jobs, limit)};
}

// Finds the job, applies the change and returns the changed job.
Reply change_job(const Call& call, const std::function<Status(JobNumber)>& change) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const Status changed = change(*number);
  if (!changed.ok()) return error_reply(changed.error());
  return job_reply(call, *number);
}

}  // namespace

Reply submit_job(const Call& call) {
  Result<JobDocument> document = read_document(call);
  if (!document.ok()) return error_reply(document.error());
  const Result<JobRecord> job =
      call.controller.submit(call.caller, std::move(*document), call.text("Idempotency-Key"));
  if (!job.ok()) return error_reply(job.error());
  return {.status = 201,
          .body = job_text(*job),
          .headers = {{"Location", fmt::format("/api/v1/jobs/{}", job->number)}}};
}

Reply list_jobs(const Call& call) {
  const auto limit = static_cast<int>(call.number("limit"));
  if (!call.text("job").empty()) return called_jobs(call, limit);
  const Result<JobFilter> filter = query_filter(call);
  if (!filter.ok()) return error_reply(filter.error());
  const Result<std::vector<JobRecord>> jobs = call.controller.list(
      call.caller,
      {.after = call.number("after"),
       .before = call.number("before"),
       .submitted_before = static_cast<double>(call.number("submitted_before")),
       .newest_first = call.flag("newest_first"),
       .limit = limit},
      call.flag("active"), *filter);
  if (!jobs.ok()) return error_reply(jobs.error());
  return {.body = job_list_text(*jobs, limit)};
}

Reply cancel_jobs(const Call& call) {
  const Result<JobFilter> filter = body_filter(call.body);
  if (!filter.ok()) return error_reply(filter.error());
  const Result<std::vector<JobNumber>> jobs = call.controller.cancel_all(call.caller, *filter);
  if (!jobs.ok()) return error_reply(jobs.error());
  json ids = json::array();
  for (const JobNumber job : *jobs) ids.push_back(control::job_name_of(job));
  return json_reply({{"jobs", std::move(ids)}});
}

Reply get_job(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  return job_reply(call, *number);
}

Reply change_fields(const Call& call) {
  return change_job(
      call, [&](JobNumber job) { return call.controller.change(call.caller, job, call.body); });
}

Reply job_profile(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const Result<json> profile = call.controller.profile(call.caller, *number);
  return profile.ok() ? json_reply(*profile) : error_reply(profile.error());
}

Reply cancel_job(const Call& call) {
  return change_job(call, [&](JobNumber job) { return call.controller.cancel(call.caller, job); });
}

// Answers with the job as it was.
Reply remove_job(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const Result<JobRecord> job = call.controller.job(call.caller, *number);
  if (!job.ok()) return error_reply(job.error());
  const Status removed = call.controller.remove(call.caller, *number);
  if (!removed.ok()) return error_reply(removed.error());
  return {.body = job_text(*job)};
}

Reply pause_job(const Call& call) {
  return change_job(call, [&](JobNumber job) { return call.controller.pause(call.caller, job); });
}

Reply resume_job(const Call& call) {
  return change_job(call, [&](JobNumber job) { return call.controller.resume(call.caller, job); });
}

Reply scale_job(const Call& call) {
  return change_job(call, [&](JobNumber job) {
    return call.controller.scale(call.caller, job, call.body.at("devices").get<int>());
  });
}

Reply explain_job(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const Result<json> why = call.controller.why(call.caller, *number);
  return why.ok() ? json_reply(*why) : error_reply(why.error());
}

Reply job_outlook(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const Result<json> outlook = call.controller.outlook(call.caller, *number);
  return outlook.ok() ? json_reply(*outlook) : error_reply(outlook.error());
}

Reply plan_job(const Call& call) {
  Result<JobDocument> document = read_document(call);
  if (!document.ok()) return error_reply(document.error());
  // Only what the work may still use when the caller is gone.
  return call.plans.run(call.caller.admin ? "" : call.caller.tenant, call.gone,
                        [&controller = call.controller, caller = call.caller,
                         document = std::move(*document)](const Plans::Abandoned& abandoned) {
                          const Result<json> plan = controller.plan(caller, document, abandoned);
                          return plan.ok() ? json_reply(*plan) : error_reply(plan.error());
                        });
}

}  // namespace rubato::api
