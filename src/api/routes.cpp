#include "api/handlers.h"
#include "api/route.h"
#include "api/schemas.h"

namespace rubato::api {

namespace {

using nlohmann::json;
using In = Parameter::In;

Parameter job_parameter() {
  return {"job", In::kPath, text_schema(200),
          "number (12 or j12) or name; a name stands for the active job of that name, or for the "
          "newest one"};
}
Parameter path_parameter() {
  return {"path",
          In::kQuery,
          {{"type", "string"}, {"maxLength", 4096}, {"default", ""}},
          "such as outputs/model.pt; a path that begins with none of the names is one of the "
          "outputs"};
}
Parameter after_parameter() {
  json schema = integer_schema(0, kLargestInteger);
  schema["default"] = 0;
  return {"after", In::kQuery, std::move(schema), "only entries after this number"};
}
Parameter number_parameter(const char* name, const char* help) {
  json schema = integer_schema(0, kLargestInteger);
  schema["default"] = 0;
  return {name, In::kQuery, std::move(schema), help};
}
Parameter limit_parameter(std::int64_t most) {
  json schema = integer_schema(1, most);
  schema["default"] = 1000;
  return {"limit", In::kQuery, std::move(schema), "maximum number of entries"};
}
Parameter text_parameter(const char* name, const char* help) {
  return {name, In::kQuery, text_schema(4096), help};
}
Parameter flag_parameter(const char* name, const char* help) {
  return {name, In::kQuery, {{"type", "boolean"}, {"default", false}}, help};
}
Parameter last_event_parameter() {
  return {"Last-Event-ID", In::kHeader, integer_schema(0, kLargestInteger),
          "resume an interrupted event stream after this event"};
}
// What a search in the events can be narrowed by.
std::vector<Parameter> event_parameters() {
  return {after_parameter(),
          limit_parameter(10'000),
          number_parameter("before", "only events with lower numbers; 0: no limit"),
          number_parameter("since", "only events of this second since 1970 or later"),
          number_parameter("until", "only events before this second since 1970; 0: no limit"),
          text_parameter("types", "only events of these types: granted,view"),
          flag_parameter("newest_first",
                         "the newest event first; for the next page, give `next` as `before`"),
          last_event_parameter()};
}
Parameter key_parameter() {
  return {"Idempotency-Key", In::kHeader, text_schema(200),
          "a submission repeated with the same key returns the job of the first one"};
}

Answer ok(const char* help, const std::string& schema) { return {200, help, schema_of(schema)}; }

std::vector<Answer> event_answers() {
  return {
      ok("events, oldest first unless asked otherwise", "EventList"),
      {200, "with Accept: text/event-stream: events as they happen", nullptr, "text/event-stream"}};
}

std::vector<Route> job_routes() {
  const auto change = [](const char* what, const char* summary, Reply (*handle)(const Call&)) {
    return Route{.method = "POST",
                 .path = std::string("/api/v1/jobs/{job}/") + what,
                 .name = std::string(what) + "Job",
                 .summary = summary,
                 .parameters = {job_parameter()},
                 .answers = {ok("the job after the change", "Job")},
                 .errors = {404, 409},
                 .handle = handle};
  };
  std::vector<Route> table{
      {.method = "POST",
       .path = "/api/v1/jobs",
       .name = "submitJob",
       .summary = "Submit a job; it is durable before the response",
       .parameters = {key_parameter()},
       .body = schema_of("JobDocument"),
       .takes_yaml = true,
       .answers = {{201, "the job", schema_of("Job")}},
       .errors = {409},
       .handle = submit_job},
      {.method = "GET",
       .path = "/api/v1/jobs",
       .name = "listJobs",
       .summary = "Jobs in order of submission",
       .parameters = {flag_parameter("active", "only jobs that have not ended"),
                      after_parameter(),
                      limit_parameter(100'000),
                      text_parameter("job",
                                     "only what this means: one job by number or name, or "
                                     "all jobs of an array by its name or as j5[]"),
                      text_parameter("labels",
                                     "only jobs with all these labels: team=vision,run=7"),
                      text_parameter("name",
                                     "only names like this: `*` stands for anything, `?` "
                                     "for one character"),
                      text_parameter("phases", "only jobs in one of these states: queued,running"),
                      text_parameter("tenant", "only jobs of this tenant"),
                      text_parameter("user", "only jobs that this unix user runs"),
                      text_parameter("array", "only jobs of arrays with this name"),
                      {"since", In::kQuery, integer_schema(0, kLargestInteger),
                       "only jobs submitted then or later, in seconds since 1970"},
                      number_parameter("submitted_before",
                                       "only jobs submitted before this second since 1970; 0: no "
                                       "limit"),
                      number_parameter("before", "only jobs with lower numbers; 0: no limit"),
                      flag_parameter("newest_first",
                                     "the newest job first; for the next page, give `next` as "
                                     "`before`")},
       .answers = {ok("jobs, without their documents", "JobList")},
       .errors = {404, 409},
       .handle = list_jobs},
      {.method = "POST",
       .path = "/api/v1/cancel",
       .name = "cancelJobs",
       .summary = "End all active jobs like this without a result, all at once",
       .body = schema_of("JobFilter"),
       .answers = {ok("the jobs that were cancelled", "Cancelled")},
       .handle = cancel_jobs},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}",
       .name = "getJob",
       .summary = "Everything about one job",
       .parameters = {job_parameter()},
       .answers = {ok("the job", "Job")},
       .errors = {404, 409},
       .handle = get_job},
      {.method = "PATCH",
       .path = "/api/v1/jobs/{job}",
       .name = "changeJob",
       .summary = "Change fields of a job that has not ended",
       .parameters = {job_parameter()},
       .body = schema_of("ChangeJob"),
       .answers = {ok("the job as it is now", "Job")},
       .errors = {404, 409},
       .handle = change_fields},
      {.method = "DELETE",
       .path = "/api/v1/jobs/{job}",
       .name = "removeJob",
       .summary = "Remove a job that has ended, with its folder",
       .parameters = {job_parameter()},
       .answers = {ok("the job as it was", "Job")},
       .errors = {404, 409},
       .handle = remove_job},
      change("cancel", "End a job without a result", cancel_job),
      change("pause", "Checkpoint a job and release its devices", pause_job),
      change("resume", "Resume a paused job", resume_job),
      change("scale", "Fix the number of devices of a job", scale_job),
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/why",
       .name = "explainJob",
       .summary = "Why the job has the devices it has, and what would help",
       .parameters = {job_parameter()},
       .answers = {ok("code, numbers, blockers, remedy", "Why")},
       .errors = {404, 409},
       .handle = explain_job},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/outlook",
       .name = "jobOutlook",
       .summary = "When the job is expected to end, and the next change of its devices",
       .parameters = {job_parameter()},
       .answers = {ok("as simulated a moment ago under the active policy", "Outlook")},
       .errors = {404, 409},
       .handle = job_outlook},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/profile",
       .name = "jobProfile",
       .summary = "Step times that were measured of the job's program",
       .parameters = {job_parameter()},
       .answers = {ok("seconds of a step, by devices and batch", "Profile")},
       .errors = {404, 409},
       .handle = job_profile},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/logs",
       .name = "jobLogs",
       .summary = "Output of the job's workers",
       .parameters = {job_parameter(),
                      flag_parameter("follow", "continue until the job has ended"),
                      {"tail", In::kQuery, integer_schema(0, 1'000'000),
                       "only the last n lines of each worker"},
                      {"worker", In::kQuery, integer_schema(0, 1'000'000), "only this worker"}},
       .answers = {{200, "lines; with several workers, each starts with 'worker-N | '", nullptr,
                    "text/plain"}},
       .errors = {404, 409, 503},
       .handle = job_logs},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/files",
       .name = "listFiles",
       .summary = "Files of the job: outputs, logs, checkpoints, work, result.json, events.jsonl",
       .parameters = {job_parameter(),
                      path_parameter(),
                      {"after", In::kQuery, text_schema(255), "only names after this one"},
                      limit_parameter(10'000)},
       .answers = {ok("the entries of a folder, or the file itself", "FileList")},
       .errors = {404, 409, 503},
       .handle = list_files},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/file",
       .name = "getFile",
       .summary = "One file of the job, or a part of it",
       .parameters =
           {job_parameter(),
            path_parameter(),
            {"Range", In::kHeader, text_schema(200),
             "bytes=FIRST-LAST or bytes=FIRST-; several ranges are answered with all"},
            {"If-Range", In::kHeader, text_schema(200),
             "the ETag of an earlier answer; if the file is another now, all of it comes"}},
       .answers = {{200, "its bytes", nullptr, "application/octet-stream"},
                   {206, "the range, see Content-Range", nullptr, "application/octet-stream"}},
       .errors = {404, 409, 416, 503},
       .handle = get_file},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/events",
       .name = "jobEvents",
       .summary = "What happened to a job",
       .parameters = event_parameters(),
       .answers = event_answers(),
       .errors = {404, 409, 503},
       .handle = job_events},
      {.method = "POST",
       .path = "/api/v1/uploads/missing",
       .name = "missingUploads",
       .summary = "Which of these files the daemon does not have yet, of this caller's uploads",
       .body = schema_of("UploadFiles"),
       .answers = {ok("the SHA-256 of each", "MissingUploads")},
       .errors = {409},
       .handle = missing_uploads},
      {.method = "PUT",
       .path = "/api/v1/uploads/{sha256}",
       .name = "putUpload",
       .summary = "A part of a file; it is kept once it is complete and its SHA-256 is right",
       .parameters = {{"sha256", In::kPath, text_schema(64), "of the whole file, in hexadecimal"},
                      {"size", In::kQuery, integer_schema(0, kLargestInteger), "of the whole file"},
                      {"offset", In::kQuery, integer_schema(0, kLargestInteger),
                       "of this part; parts come in order, and 0 begins anew"},
                      {"id", In::kQuery, text_schema(64),
                       "hexadecimal digits that tell apart who sends the same file"}},
       .body = {{"type", "string"}, {"format", "binary"}},
       .takes_bytes = true,
       .answers = {ok("whether the file is complete", "PutUpload")},
       .errors = {404, 409},
       .handle = put_upload},
      {.method = "POST",
       .path = "/api/v1/plan",
       .name = "planJob",
       .summary = "What would happen to this job if it were submitted now",
       .body = schema_of("JobDocument"),
       .takes_yaml = true,
       .answers = {ok("devices, start, and which jobs change", "Plan")},
       .handle = plan_job}};
  for (Route& route : table) {
    if (route.name == "scaleJob") route.body = schema_of("Scale");
    if (route.name == "jobEvents") route.parameters.push_back(job_parameter());
  }
  return table;
}

std::vector<Route> cluster_routes() {
  std::vector<Parameter> of_events = event_parameters();
  of_events.push_back(flag_parameter(
      "live",
      "a stream also has what changes without events: messages `sample` (as in the series) "
      "about once a second"));
  of_events.push_back(
      text_parameter("watch", "a stream also has the progress of this job: messages `point`"));
  return {
      {.method = "GET",
       .path = "/api/v1/events",
       .name = "allEvents",
       .summary = "The event log",
       .parameters = std::move(of_events),
       .answers = event_answers(),
       .errors = {404, 409, 503},
       .handle = all_events},
      {.method = "GET",
       .path = "/api/v1/cluster",
       .name = "getCluster",
       .summary = "Devices, the jobs that hold them, reservations, policy",
       .answers = {ok("the cluster now", "Cluster")},
       .handle = get_cluster},
      {.method = "GET",
       .path = "/api/v1/usage",
       .name = "getUsage",
       .summary = "Device time held and trained in a period, by tenant, user, job or label",
       .parameters = {{"by",
                       In::kQuery,
                       {{"enum", {"tenant", "user", "job", "label"}}, {"default", "tenant"}},
                       "what the rows are"},
                      {"from", In::kQuery, text_schema(10),
                       "first day (UTC), such as 2026-11-01; default: of this month"},
                      {"to", In::kQuery, text_schema(10),
                       "last day (UTC); default: of the month of `from`"},
                      limit_parameter(100'000)},
       .answers = {ok("most device time first; a tenant sees its own only", "Usage")},
       .handle = get_usage},
      {.method = "GET",
       .path = "/api/v1/policies",
       .name = "listPolicies",
       .summary = "The scheduling policies, and the active one",
       .answers = {ok("policies with their parameters", "PolicyList")},
       .handle = list_policies},
      {.method = "POST",
       .path = "/api/v1/forecast",
       .name = "forecastPolicy",
       .summary = "What would happen from now on if this policy decided; nothing changes",
       .body = schema_of("UsePolicy"),
       .answers = {ok("when jobs would start and end", "Forecast")},
       .handle = forecast_policy},
      {.method = "PUT",
       .path = "/api/v1/policy",
       .name = "usePolicy",
       .summary = "Switch to another policy",
       .who = Who::kAdmin,
       .body = schema_of("UsePolicy"),
       .answers = {ok("the active policy", "ActivePolicy")},
       .handle = use_policy},
      {.method = "PUT",
       .path = "/api/v1/supply",
       .name = "noteSupply",
       .summary = "Say what is known of devices that are on their way, such as pilots that wait in "
                  "another scheduler",
       .who = Who::kAdmin,
       .body = schema_of("Supply"),
       .answers = {{204, "noted; jobs that wait are told", nullptr, ""}},
       .handle = note_supply},
      {.method = "GET",
       .path = "/api/v1/reservations",
       .name = "listReservations",
       .summary = "Devices reserved for something other than training",
       .answers = {ok("reservations", "ReservationList")},
       .handle = list_reservations},
      {.method = "POST",
       .path = "/api/v1/reservations",
       .name = "makeReservation",
       .summary = "Reserve devices for something other than training",
       .who = Who::kAdmin,
       .body = schema_of("Reserve"),
       .answers = {{201, "the reservation", schema_of("Reservation")}},
       .errors = {409},
       .handle = make_reservation},
      {.method = "DELETE",
       .path = "/api/v1/reservations/{reservation}",
       .name = "releaseReservation",
       .summary = "Release reserved devices early",
       .who = Who::kAdmin,
       .parameters = {{"reservation", In::kPath, integer_schema(1, kLargestInteger), "its number"}},
       .answers = {{204, "released", nullptr, ""}},
       .errors = {404, 409},
       .handle = release_reservation},
      {.method = "GET",
       .path = "/api/v1/tenants",
       .name = "listTenants",
       .summary = "Tenants with weights and quotas; a tenant sees only itself",
       .answers = {ok("tenants", "TenantList")},
       .handle = list_tenants},
      {.method = "PUT",
       .path = "/api/v1/tenants/{tenant}",
       .name = "setTenant",
       .summary = "Create or change a tenant: fields that are not given stay as they are; the "
                  "response has the token of a new one",
       .who = Who::kAdmin,
       .parameters = {{"tenant", In::kPath, text_schema(64), "its name"}},
       .body = schema_of("SetTenant"),
       .answers = {ok("the tenant", "Tenant")},
       .errors = {404},
       .handle = set_tenant},
      {.method = "DELETE",
       .path = "/api/v1/tenants/{tenant}",
       .name = "removeTenant",
       .summary = "Delete a tenant and its token; its streams end",
       .who = Who::kAdmin,
       .parameters = {{"tenant", In::kPath, text_schema(64), "its name"},
                      flag_parameter("cancel", "cancel its jobs that have not ended")},
       .answers = {{204, "deleted", nullptr, ""}},
       .errors = {404, 409},
       .handle = remove_tenant},
      {.method = "GET",
       .path = "/api/v1/snapshot",
       .name = "getSnapshot",
       .summary = "The whole live state, for the simulator",
       .who = Who::kAdmin,
       .answers = {ok("input of rubato sim --from-live", "Snapshot")},
       .handle = get_snapshot},
      {.method = "GET",
       .path = "/api/v1/store",
       .name = "getStore",
       .summary = "A copy of the event log, for a daemon that stands by",
       .who = Who::kAdmin,
       .answers = {{200, "an SQLite database", nullptr, "application/octet-stream"}},
       .handle = get_store},
      {.method = "GET",
       .path = "/api/v1/openapi.json",
       .name = "getOpenapi",
       .summary = "This document",
       .who = Who::kAnyone,
       .answers = {{200, "OpenAPI 3.1", {{"type", "object"}}}},
       .handle = get_openapi},
      {.method = "GET",
       .path = "/api/v1/schema",
       .name = "getJobSchema",
       .summary = "JSON Schema of a job document",
       .who = Who::kAnyone,
       .answers = {{200, "JSON Schema (draft 2020-12)", {{"type", "object"}}}},
       .handle = get_job_schema},
      {.method = "GET",
       .path = "/metrics",
       .name = "getMetrics",
       .summary = "Metrics as Prometheus text",
       .answers = {{200, "see docs/metrics.md", nullptr, "text/plain"}},
       .handle = get_metrics},
      {.method = "GET",
       .path = "/healthz",
       .name = "getHealth",
       .summary = "Health check",
       .who = Who::kAnyone,
       .answers = {ok("the daemon is up and can record changes", "Health"),
                   {503, "it is up but read-only: its log cannot be written", schema_of("Health")}},
       .handle = get_health}};
}

// For the dashboard.
std::vector<Route> dashboard_routes() {
  return {
      {.method = "GET",
       .path = "/",
       .name = "getPage",
       .summary = "The dashboard",
       .who = Who::kAnyone,
       .answers = {{200, "the page; it asks for a token", nullptr, "text/html"},
                   {304, "as in If-None-Match", nullptr, ""}},
       .handle = get_page},
      {.method = "GET",
       .path = "/assets/{file}",
       .name = "getAsset",
       .summary = "A file of the dashboard, compressed with gzip",
       .who = Who::kAnyone,
       .parameters = {{"file", In::kPath, text_schema(200), "its name"}},
       .answers = {{200, "its bytes", nullptr, "text/javascript"},
                   {200, "its bytes", nullptr, "text/css"},
                   {200, "its bytes", nullptr, "image/svg+xml"}},
       .errors = {404},
       .handle = get_asset},
      {.method = "POST",
       .path = "/api/v1/session",
       .name = "logIn",
       .summary = "Exchange a token for a session cookie, for browsers",
       .who = Who::kAnyone,
       .body = schema_of("LogIn"),
       .answers = {ok("who it is; the cookie is valid for 12 hours", "Session")},
       .errors = {401, 403},
       .handle = log_in},
      {.method = "GET",
       .path = "/api/v1/session",
       .name = "getSession",
       .summary = "Who the caller is",
       .answers = {ok("the caller", "Session")},
       .handle = get_session},
      {.method = "DELETE",
       .path = "/api/v1/session",
       .name = "logOut",
       .summary = "Make the browser forget its session",
       .who = Who::kAnyone,
       .answers = {{204, "forgotten", nullptr, ""}},
       .handle = log_out},
      {.method = "GET",
       .path = "/api/v1/series",
       .name = "getSeries",
       .summary = "Devices, queue and waits over time",
       .parameters = {number_parameter("from", "second since 1970; 0: an hour before `to`"),
                      number_parameter("to", "second since 1970; 0: now"),
                      number_parameter("step",
                                       "seconds of a period, each of which is a mean; 0: about "
                                       "500 periods")},
       .answers = {ok("one list for each value; periods without a daemon are missing", "Series")},
       .errors = {503},
       .handle = get_series},
      {.method = "GET",
       .path = "/api/v1/jobs/{job}/series",
       .name = "jobSeries",
       .summary = "Progress of a job over time: devices, speed, loss and reported metrics",
       .parameters = {job_parameter()},
       .answers = {ok("at most 400 points, oldest first", "JobSeries")},
       .errors = {404, 409, 503},
       .handle = job_series},
      {.method = "GET",
       .path = "/api/v1/devices",
       .name = "getDevices",
       .summary = "Who holds which devices, or held them at some time",
       .parameters = {number_parameter("at", "second since 1970; 0: now")},
       .answers = {ok("nodes, and jobs with their devices", "Devices")},
       .errors = {503},
       .handle = get_devices}};
}

Parameter node_parameter() { return {"node", In::kPath, text_schema(64), "its name"}; }

std::vector<Route> node_routes() {
  const auto change = [](const char* what, const char* summary, Reply (*handle)(const Call&)) {
    return Route{.method = "POST",
                 .path = std::string("/api/v1/nodes/{node}/") + what,
                 .name = std::string(what) + "Node",
                 .summary = summary,
                 .who = Who::kAdmin,
                 .parameters = {node_parameter()},
                 .answers = {{204, "done", nullptr, ""}},
                 .errors = {404, 409},
                 .handle = handle};
  };
  const auto copied = [](const char* method, const char* name, const char* summary,
                         std::vector<Parameter> more, Reply (*handle)(const Call&)) {
    Route route{.method = method,
                .path = "/api/v1/nodes/{node}/jobs/{job}/file",
                .name = name,
                .summary = summary,
                .who = Who::kAgent,
                .parameters = {node_parameter(),
                               {"job", In::kPath, integer_schema(1, kLargestInteger), "its number"},
                               {"path", In::kQuery, text_schema(1000), "in the job's folder"}},
                .errors = {404, 409, 503},
                .handle = handle};
    route.parameters.insert(route.parameters.end(), more.begin(), more.end());
    return route;
  };
  Route drain =
      change("drain", "Give the node no jobs; those that it has continue elsewhere", drain_node);
  drain.parameters.push_back(number_parameter(
      "deadline_s",
      "seconds after which what still runs there is killed, and continues elsewhere "
      "from its last checkpoint; 0: never"));
  std::vector<Route> table{
      {.method = "GET",
       .path = "/api/v1/nodes",
       .name = "listNodes",
       .summary = "The machines on which jobs run",
       .answers = {ok("nodes with their state; a tenant sees its own jobs", "NodeList")},
       .handle = list_nodes},
      std::move(drain),
      change("undrain", "Give the node jobs again", undrain_node),
      {.method = "DELETE",
       .path = "/api/v1/nodes/{node}",
       .name = "removeNode",
       .summary = "Forget a node that has no jobs or is lost; its agent's token becomes invalid",
       .who = Who::kAdmin,
       .parameters = {node_parameter()},
       .answers = {{204, "removed", nullptr, ""}},
       .errors = {404, 409},
       .handle = remove_node},
      {.method = "POST",
       .path = "/api/v1/nodes/{node}/sync",
       .name = "syncNode",
       .summary = "What a node has and what happened there; the response is what should be there",
       .who = Who::kAgent,
       .parameters = {node_parameter()},
       .body = {{"type", "object"}},
       .answers = {{200, "orders for the node", {{"type", "object"}}}},
       .errors = {404, 409},
       .handle = sync_node},
      {.method = "POST",
       .path = "/api/v1/nodes/{node}/jobs/{job}/registry",
       .name = "askRegistry",
       .summary = "A call of a process of the job to its registry, which is in the daemon",
       .who = Who::kAgent,
       .parameters = {node_parameter(),
                      {"job", In::kPath, integer_schema(1, kLargestInteger), "its number"}},
       .body = {{"type", "object"}},
       .answers = {{200, "what the registry answers", {{"type", "object"}}}},
       .handle = ask_registry},
      {.method = "GET",
       .path = "/api/v1/nodes/{node}/jobs/{job}/files",
       .name = "listCopiedFiles",
       .summary = "The files that the daemon has of a job of this node",
       .who = Who::kCopier,
       .parameters = {node_parameter(),
                      {"job", In::kPath, integer_schema(1, kLargestInteger), "its number"}},
       .answers = {{200, "path and size of each", {{"type", "object"}}}},
       .errors = {404, 503},
       .handle = list_copy},
      {.method = "GET",
       .path = "/api/v1/nodes/{node}/jobs/{job}/upload",
       .name = "getJobUpload",
       .summary = "A part of a file of the upload of a job of this node, of at most 1 MiB",
       .who = Who::kCopier,
       .parameters = {node_parameter(),
                      {"job", In::kPath, integer_schema(1, kLargestInteger), "its number"},
                      {"sha256", In::kQuery, text_schema(64), "of the file"},
                      number_parameter("offset", "of the part in the file")},
       .answers = {{200, "its bytes", nullptr, "application/octet-stream"}},
       .errors = {404, 503},
       .handle = get_job_upload}};
  const Parameter offset = number_parameter("offset", "of the part in the file");
  Route get = copied("GET", "getCopiedFile", "A part of one of these files, of at most 1 MiB",
                     {offset}, get_copied);
  get.who = Who::kCopier;
  get.answers = {{200, "its bytes", nullptr, "application/octet-stream"}};
  Route put =
      copied("PUT", "putCopiedFile", "A part of a file of a job that this node runs",
             {offset, number_parameter("size", "of the whole file"),
              flag_parameter("grows", "more will be added to it; it has no `size` yet"),
              text_parameter("same_as",
                             "in place of bytes: another of these files, which has the same "
                             "`count` bytes at this offset"),
              number_parameter("count", "of the bytes that are the same")},
             put_copied);
  put.body = {{"type", "string"}, {"format", "binary"}};
  put.takes_bytes = true;
  put.answers = {{200, "received", {{"type", "object"}}}};
  Route remove =
      copied("DELETE", "removeCopiedFile", "The job has removed this file", {}, remove_copied);
  remove.answers = {{200, "removed", {{"type", "object"}}}};
  for (Route* route : {&get, &put, &remove}) table.push_back(std::move(*route));
  return table;
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> kTable = [] {
    std::vector<Route> all = job_routes();
    for (Route& route : cluster_routes()) all.push_back(std::move(route));
    for (Route& route : dashboard_routes()) all.push_back(std::move(route));
    for (Route& route : node_routes()) all.push_back(std::move(route));
    return all;
  }();
  return kTable;
}

}  // namespace rubato::api
