#include "api/schemas.h"

#include "control/job_document.h"
#include "control/series.h"
#include "elastic/memory/board.h"

namespace rubato::api {

namespace {

using nlohmann::json;

json with_help(json schema, const char* help) {
  schema["description"] = help;
  return schema;
}

json count() { return integer_schema(0, kLargestInteger); }
json number() { return {{"type", "number"}}; }
json text() { return {{"type", "string"}}; }
json any_object() { return {{"type", "object"}}; }
json seconds(const char* help) {
  return {{"type", "number"}, {"minimum", 0}, {"description", help}};
}
json share(const char* help) {
  return {{"type", "number"}, {"minimum", 0}, {"maximum", 1}, {"description", help}};
}
json list_of(const std::string& name) { return {{"type", "array"}, {"items", schema_of(name)}}; }

json nodes_schema(const char* help) {
  return {{"type", "array"}, {"items", schema_of("NodeDevices")}, {"description", help}};
}

json job_properties() {
  return {
      {"number",
       with_help(integer_schema(1, kLargestInteger), "1, 2, 3, ... in order of submission")},
      {"id", with_help(text(), "the number as shown to people: j12")},
      {"name", text()},
      {"tenant", text()},
      {"phase", {{"enum", {"queued", "running", "paused", "finished", "failed", "cancelled"}}}},
      {"submitted_at", seconds("since 1970")},
      {"started_at", seconds("since 1970, when it first got devices; 0: not yet")},
      {"ended_at", seconds("since 1970; 0: not yet")},
      {"granted", with_help(count(), "devices that the scheduler grants it now")},
      {"nodes", nodes_schema("nodes on which the granted devices are, in the order of the grant")},
      {"held", with_help(count(), "devices that its processes occupy now")},
      {"held_nodes", nodes_schema("nodes on which these are")},
      {"min_devices", count()},
      {"max_devices", count()},
      {"batch", with_help(count(), "granted total batch of an adaptive job; 0: its own choice")},
      {"reason", with_help(text(), "code of the decision behind its current devices")},
      {"message", with_help(text(), "why it failed")},
      {"scale", with_help(count(), "devices its owner pinned it to; 0: the policy decides")},
      {"logical_workers", with_help(count(), "of a consistent or rigid job; 0: not yet known")},
      {"max_useful", with_help(count(), "more devices than this made it slower; 0: unknown")},
      {"resizes", count()},
      {"restarts", with_help(count(), "how often its processes had to be restarted")},
      {"device_s", seconds("device-seconds held up to now")},
      {"held_at", seconds("since 1970, when `held` last changed")},
      {"held_s", seconds("with at least one device, up to now; `time_limit` is about them")},
      {"stalled_since",
       seconds("time of its last step if the job is stalled, in seconds since 1970; "
               "0: it makes progress")},
      {"progress",
       with_help(any_object(),
                 "step, total_steps, epoch, epochs, loss (mean over the samples of the last step), "
                 "step_s, metrics (the newest value of each that its program reported); eta_s "
                 "(seconds from now to its end, on eta_devices; a queued job starts in "
                 "start_in_s); unknown values are omitted")},
      {"labels", with_help(any_object(), "as in its document")},
      {"waits_for",
       with_help(any_object(),
                 "jobs that must end before it starts, and how: {\"j3\": \"finished\"}")},
      {"array", with_help({{"type", {"object", "null"}}},
                          "the array it was submitted with: id of its `first` job, `name`, this "
                          "job's `index`, `size`, `at_once` (0: no limit); null: none")}};
}

// Selects jobs: all conditions that are given must hold.
json filter_schema() {
  json labels = control::job_schema()["properties"]["labels"];
  labels.erase("default");
  labels["description"] = "it has all of these labels";
  json phases = job_properties()["phase"];
  return object_schema(
      json::array(),
      {{"labels", std::move(labels)},
       {"name", with_help(text_schema(200), "`*` stands for anything, `?` for one character")},
       {"phases", {{"type", "array"}, {"items", std::move(phases)}, {"maxItems", 6}}},
       {"tenant", text_schema(200)},
       {"user", with_help(text_schema(200), "unix user that runs it")},
       {"array", with_help(text_schema(200), "name of its array, or id of the array's first job")},
       {"since", with_help(integer_schema(0, kLargestInteger),
                           "submitted then or later, in seconds since 1970")},
       {"submitted_before", with_help(integer_schema(0, kLargestInteger),
                                      "submitted before then, in seconds since 1970")}});
}

json object_of(json properties) {
  json required = json::array();
  for (const auto& [name, unused] : properties.items()) required.push_back(name);
  return object_schema(std::move(required), std::move(properties));
}

json job_schema_full() {
  json properties = job_properties();
  properties["document"] = schema_of("JobDocument");
  properties["facts"] = with_help(any_object(), "numbers of that decision");
  properties["key"] = with_help(text(), "idempotency key of its submission");
  properties["uid"] =
      with_help(text(), "identifies the submission for ever; empty for jobs of early versions");
  properties["result"] = with_help(any_object(), "result.json of a finished job");
  properties["errors"] = with_help(
      any_object(), "what was wrong with its files, by kind: `place`, `message`, `count`");
  return object_of(std::move(properties));
}

json open_object(json required, json properties) {
  json schema = object_schema(std::move(required), std::move(properties));
  schema.erase("additionalProperties");
  return schema;
}

json outlook_schema() {
  const auto maybe = [](const char* help) {
    return json{{"type", {"number", "null"}}, {"minimum", 0}, {"description", help}};
  };
  const json ids = {{"type", "array"}, {"items", with_help(text(), "id of a job")}};
  json change = object_of(
      {{"in_s", maybe("0: with the next decision; null: it depends on jobs of unknown length")},
       {"earliest_s", maybe("as below")},
       {"latest_s", maybe("as below")},
       {"from", with_help(count(), "devices")},
       {"to", with_help(count(), "devices")},
       {"after", with_help(ids, "jobs whose end makes it possible, of those the caller may see")},
       {"gains", with_help(ids, "of a loss: jobs that get devices in the same decision")}});
  change["type"] = {"object", "null"};
  return object_of(
      {{"job", text()},
       {"at", seconds("since 1970; the other times count from then")},
       {"end_in_s", maybe("expected seconds to its end; null: unknown")},
       {"earliest_s",
        maybe("if the steps of all jobs are as fast as the fastest tenth of the step times that "
              "they reported lately, and jobs of unknown length end at once; null: it reported "
              "too few")},
       {"latest_s",
        maybe("if they are as slow as the slowest tenth, and jobs of unknown length never end; "
              "null: there is no bound")},
       {"change",
        with_help(std::move(change), "the next change of its devices; null: none is known")},
       {"text", with_help(text(), "the same for people")}});
}

}  // namespace

json schema_of(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

json text_schema(int longest) {
  return {{"type", "string"}, {"minLength", 1}, {"maxLength", longest}};
}

json integer_schema(std::int64_t low, std::int64_t high) {
  return {{"type", "integer"}, {"minimum", low}, {"maximum", high}};
}

json object_schema(json required, json properties) {
  return {{"type", "object"},
          {"required", std::move(required)},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

json component_schemas() {
  json document = control::job_schema();
  document.erase("$schema");
  const json next = {
      {"type", {"integer", "null"}},
      {"description", "pass it as `after` to get the next page; null: this is the last page"}};
  const json device_count = integer_schema(1, elastic::kMaxWorkers);
  json schemas;
  schemas["Error"] = object_schema(
      {"error"},
      {{"error", object_schema({"code", "message"},
                               {{"code", with_help(text(), "stable, for programs")},
                                {"message", with_help(text(), "for people")},
                                {"path", with_help(text(), "path of the field in the body")}})}});
  schemas["JobDocument"] = std::move(document);
  schemas["Job"] = job_schema_full();
  schemas["JobSummary"] = object_of(job_properties());
  schemas["JobList"] =
      object_schema({"jobs", "next"}, {{"jobs", list_of("JobSummary")}, {"next", next}});
  json changeable = json::object();
  for (const std::string_view name : control::kChangeableFields) {
    changeable[std::string(name)] = schemas["JobDocument"]["properties"][std::string(name)];
    changeable[std::string(name)].erase("default");
  }
  schemas["ChangeJob"] = object_schema(json::array(), std::move(changeable));
  schemas["ChangeJob"]["minProperties"] = 1;
  schemas["JobFilter"] = filter_schema();
  schemas["JobFilter"]["minProperties"] = 1;
  schemas["Cancelled"] = object_schema(
      {"jobs"}, {{"jobs", {{"type", "array"}, {"items", with_help(text(), "id of a job")}}}});
  schemas["Profile"] = object_schema(
      {"job", "key", "shared_by", "points"},
      {{"job", text()},
       {"key", with_help(text(), "jobs with the same key share their measurements")},
       {"shared_by", with_help(any_object(), "what the key consists of, such as the program")},
       {"points",
        {{"type", "array"},
         {"description", "fewest devices first; of earlier jobs of the same program, too"},
         {"items", object_schema({"devices", "nodes", "batch", "step_s", "samples_per_s"},
                                 {{"devices", count()},
                                  {"nodes", with_help(count(), "on which they were")},
                                  {"batch", with_help(count(), "samples of a step")},
                                  {"step_s", seconds("of a step")},
                                  {"samples_per_s", number()}})}}}});
  schemas["Scale"] = object_schema(
      {"devices"},
      {{"devices", with_help(integer_schema(0, elastic::kMaxWorkers),
                             "pins the job to this many; 0: lets the policy decide again")}});
  schemas["Why"] = open_object(
      {"job", "phase", "code", "text", "numbers", "nodes", "blockers", "remedy"},
      {{"job", text()},
       {"phase", text()},
       {"code", with_help(text(), "stable, for programs")},
       {"text", with_help(text(), "for people")},
       {"numbers", {{"type", "object"}, {"additionalProperties", {{"type", "number"}}}}},
       {"nodes", nodes_schema("nodes on which its granted devices are")},
       {"blockers",
        {{"type", "array"},
         {"description",
          "what holds the devices it waits for: a job, a reservation or other tenants"},
         {"items", open_object({"devices"}, {{"devices", count()}})}}},
       {"remedy", with_help(text(), "what would help; empty: nothing needs to change")}});
  schemas["Plan"] = open_object(
      {"placed", "devices", "start_in_s", "eta_s", "changes", "others", "reason", "text"},
      {{"placed", with_help({{"type", "boolean"}}, "it would get devices immediately")},
       {"devices", count()},
       {"nodes", nodes_schema("nodes on which these are")},
       {"start_in_s", with_help({{"type", {"number", "null"}}},
                                "0: now; null: cannot be predicted, or after horizon_s")},
       {"eta_s",
        with_help({{"type", {"number", "null"}}}, "time until its end; null: cannot be predicted")},
       {"horizon_s",
        with_help({{"type", {"number", "null"}}},
                  "how far ahead the plan looked before its time was up; what comes later is "
                  "unknown. null: to the end of the job")},
       {"guessed", with_help({{"type", "boolean"}}, "the job's run time is a guess")},
       {"changes",
        {{"type", "array"},
         {"description", "changes to jobs that the caller may see"},
         {"items",
          object_schema(
              {"job", "from", "to", "reason"},
              {{"job", text()}, {"from", count()}, {"to", count()}, {"reason", text()}})}}},
       {"others",
        with_help(
            object_schema({"changed", "devices"},
                          {{"changed", count()},
                           {"devices", with_help({{"type", "integer"}},
                                                 "devices they gain in total; negative: lose")}}),
            "changes to jobs of other tenants")},
       {"reason", with_help(text(), "reason code")},
       {"text", with_help(text(), "the reason as a sentence")}});
  schemas["Outlook"] = outlook_schema();
  const json digest = {{"type", "string"}, {"minLength", 64}, {"maxLength", 64}};
  schemas["UploadFiles"] = object_schema(
      {"files"},
      {{"files",
        {{"type", "array"},
         {"maxItems", 100'000},
         {"items", object_schema({"sha256", "size"}, {{"sha256", digest}, {"size", count()}})}}}});
  schemas["MissingUploads"] =
      object_schema({"missing"}, {{"missing", {{"type", "array"}, {"items", digest}}}});
  schemas["NodeList"] = object_schema(
      {"nodes"},
      {{"nodes",
        {{"type", "array"},
         {"items",
          object_schema({"name", "device_type", "devices", "labels", "state", "silent_s", "jobs"},
                        {{"name", text()},
                         {"device_type", text()},
                         {"devices", count()},
                         {"labels", {{"type", "object"}}},
                         {"state", {{"enum", {"ready", "draining", "drained", "lost"}}}},
                         {"silent_s", seconds("since its agent was last heard")},
                         {"joined_at", seconds("since 1970")},
                         {"jobs", {{"type", "array"}, {"items", {{"type", "object"}}}}}})}}}});
  schemas["PutUpload"] = object_schema({"complete"}, {{"complete", {{"type", "boolean"}}}});
  schemas["Usage"] = object_schema(
      {"by", "from", "to", "rows", "jobs", "held_s", "trained_s", "more"},
      {{"by", text()},
       {"from", with_help(text(), "first day, UTC")},
       {"to", with_help(text(), "last day, UTC")},
       {"jobs", with_help(count(), "that held devices in the period")},
       {"held_s", seconds("of devices that jobs held, all rows together")},
       {"trained_s", seconds("of these, spent training")},
       {"more", with_help({{"type", "boolean"}}, "there are more rows than `limit`")},
       {"rows",
        {{"type", "array"},
         {"items",
          object_schema(
              {"key", "jobs", "held_s", "trained_s"},
              {{"key", with_help(text(),
                                 "tenant, user (empty: the daemon's own), id of a job, or "
                                 "label (empty: none); a job with several labels is in the "
                                 "row of each")},
               {"name", with_help(text(), "of a job")},
               {"tenant", with_help(text(), "of a job")},
               {"jobs", count()},
               {"held_s", seconds("of devices")},
               {"trained_s", seconds("of devices")}})}}}});
  schemas["FileList"] = object_schema(
      {"path", "kind", "entries", "next", "unnamed"},
      {{"path", with_help(text(), "empty: the names below which the job's files are")},
       {"kind", {{"enum", {"file", "folder"}}}},
       {"entries",
        {{"type", "array"},
         {"items", object_schema({"name", "kind", "size", "modified", "executable"},
                                 {{"name", text()},
                                  {"kind", {{"enum", {"file", "folder", "link", "other"}}}},
                                  {"size", with_help(count(), "bytes of a file")},
                                  {"modified", seconds("since 1970")},
                                  {"executable", {{"type", "boolean"}}}})}}},
       {"next", with_help({{"type", {"string", "null"}}},
                          "pass it as `after` to get the next page; null: this is the last page")},
       {"unnamed", with_help(count(),
                             "entries left out, because their names are not UTF-8 or "
                             "have control characters")}});
  const json given_by =
      with_help(text(), "who gave the command, for administrators: admin, tenant NAME");
  const json given_from = with_help(text(), "the address it came from, for administrators");
  schemas["Event"] = object_schema({"seq", "at", "type", "body"}, {{"seq", count()},
                                                                   {"at", number()},
                                                                   {"type", text()},
                                                                   {"job", count()},
                                                                   {"tenant", text()},
                                                                   {"body", any_object()},
                                                                   {"by", given_by},
                                                                   {"from", given_from}});
  schemas["EventList"] =
      object_schema({"events", "next"}, {{"events", list_of("Event")}, {"next", next}});
  schemas["Cluster"] =
      open_object({"devices", "device_type", "nodes", "reserved", "allocated", "held", "training",
                   "free", "queued", "policy", "jobs"},
                  {{"devices", with_help(count(), "of all nodes")},
                   {"device_type", with_help(text(), "several are joined by commas")},
                   {"nodes", list_of("Node")},
                   {"reserved", count()},
                   {"allocated", with_help(count(), "granted to jobs")},
                   {"held", with_help(count(), "occupied by processes")},
                   {"training", with_help(number(), "held by workers that are training")},
                   {"free", count()},
                   {"queued", with_help(count(), "jobs waiting for devices")},
                   {"policy", text()},
                   {"supply", with_help(text(), "what is known of devices that are on their way")},
                   {"jobs", {{"type", "array"}, {"items", any_object()}}}});
  schemas["NodeDevices"] = object_schema(
      {"node", "device_type", "devices"},
      {{"node", with_help(text(), "its name")}, {"device_type", text()}, {"devices", count()}});
  schemas["Node"] = object_schema({"node", "device_type", "devices", "granted", "held", "labels"},
                                  {{"node", with_help(text(), "its name")},
                                   {"device_type", text()},
                                   {"devices", count()},
                                   {"granted", with_help(count(), "granted to jobs")},
                                   {"held", with_help(count(), "occupied by processes")},
                                   {"labels", any_object()}});
  schemas["Snapshot"] = any_object();
  schemas["Policy"] = open_object({"name", "summary", "params"},
                                  {{"name", text()},
                                   {"summary", text()},
                                   {"params", {{"type", "array"}, {"items", any_object()}}}});
  schemas["PolicyList"] =
      object_schema({"active", "policies"}, {{"active", text()}, {"policies", list_of("Policy")}});
  const json settings = {{"type", "object"},
                         {"additionalProperties", {{"type", {"string", "number", "boolean"}}}}};
  schemas["Supply"] = object_schema(
      {"text", "for_s"},
      {{"text", with_help({{"type", "string"}, {"maxLength", 300}},
                          "in a few words; empty: there are none")},
       {"for_s", with_help({{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 86400}},
                           "seconds for which it holds")}});
  schemas["UsePolicy"] =
      object_schema({"name"}, {{"name", text_schema(100)}, {"settings", settings}});
  const json maybe_seconds = {{"type", {"number", "null"}}};
  schemas["Forecast"] = object_schema(
      {"policy", "resizes", "horizon_s", "jobs"},
      {{"policy", text()},
       {"resizes", with_help(count(), "of all jobs")},
       {"horizon_s",
        with_help(maybe_seconds, "how far it looked ahead; null: to the end of all jobs")},
       {"jobs",
        {{"type", "array"},
         {"items",
          object_of({{"job", text()},
                     {"name", text()},
                     {"phase", text()},
                     {"start_in_s", with_help(maybe_seconds, "null: not within horizon_s")},
                     {"finish_in_s", maybe_seconds},
                     {"guessed", with_help({{"type", "boolean"}},
                                           "its length is unknown and was assumed")}})}}}});
  schemas["ActivePolicy"] =
      object_schema({"active", "settings"}, {{"active", text()}, {"settings", settings}});
  schemas["Reservation"] =
      object_schema({"number", "devices", "from", "until"}, {{"number", count()},
                                                             {"devices", count()},
                                                             {"from", seconds("since 1970")},
                                                             {"until", seconds("since 1970")}});
  schemas["ReservationList"] =
      object_schema({"reservations"}, {{"reservations", list_of("Reservation")}});
  schemas["Reserve"] = object_schema(
      {"devices", "seconds"},
      {{"devices", device_count},
       {"seconds", {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 365 * 86400}}}});
  const json weight = {{"type", "number"},
                       {"exclusiveMinimum", 0},
                       {"maximum", 1e6},
                       {"description", "share relative to other tenants that want devices"}};
  const json quota =
      with_help(integer_schema(0, 1'000'000), "maximum number of devices; 0: no limit");
  const json max_queued =
      with_help(integer_schema(0, 1'000'000), "jobs that may wait at the same time; 0: no limit");
  const json max_streams = with_help(integer_schema(0, 1'000'000),
                                     "streams that it may keep open; 0: the server's limit");
  constexpr double kLongestTokenSeconds = 3e9;
  schemas["SetTenant"] = object_schema(
      json::array(),
      {{"weight", weight},
       {"quota", quota},
       {"max_queued", max_queued},
       {"max_streams", max_streams},
       {"new_token", {{"type", "boolean"}}},
       {"expires_in_s",
        with_help({{"type", "number"}, {"minimum", 0}, {"maximum", kLongestTokenSeconds}},
                  "seconds from now for which its token is valid; 0: for ever")},
       {"user", with_help({{"type", "string"}, {"maxLength", 64}},
                          "unix user that runs its jobs; empty: none")}});
  schemas["Tenant"] = object_schema(
      {"name", "weight", "quota"},
      {{"name", text()},
       {"weight", weight},
       {"quota", quota},
       {"max_queued", max_queued},
       {"max_streams", max_streams},
       {"token_expires", seconds("since 1970, when its token stops to be valid; 0: never")},
       {"user", with_help(text(), "unix user that runs its jobs; missing: none")},
       {"token",
        with_help(text(), "present only when a token was just created; returned only once")}});
  const json numbers = {{"type", "array"}, {"items", number()}};
  json series = {{"step", with_help(count(), "seconds of a period")},
                 {"at", with_help(numbers, "when each period begins, in seconds since 1970")}};
  for (const std::string_view name : control::kSeriesColumns) series[std::string(name)] = numbers;
  series["training"] = with_help(numbers, "devices held by workers that are training");
  series["waited_median"] = with_help(numbers, "seconds that queued jobs have been waiting");
  schemas["Series"] = object_of(std::move(series));
  const json shares = {{"type", "array"}, {"items", {{"type", {"number", "null"}}}}};
  schemas["Series"]["properties"]["utilisation"] =
      with_help(shares,
                "mean share of time in which devices computed, 0 to 1, as drivers tell; missing or "
                "null: no driver tells it");
  schemas["Series"]["properties"]["memory"] =
      with_help(shares, "share of the devices' memory that is in use, likewise");
  schemas["JobSeries"] = object_schema(
      {"job", "points"},
      {{"job", text()},
       {"points",
        {{"type", "array"},
         {"items",
          object_schema({"at", "step", "held", "step_s", "samples_per_s", "loss", "metrics"},
                        {{"at", seconds("since 1970")},
                         {"step", with_help(count(), "steps done")},
                         {"held", with_help(count(), "devices")},
                         {"step_s", seconds("of a step; 0: unknown")},
                         {"samples_per_s", number()},
                         {"loss", number()},
                         {"utilisation", share("of its devices; missing: no driver tells it")},
                         {"memory", share("of its devices' memory that is in use, likewise")},
                         {"metrics", any_object()}})}}}});
  schemas["Devices"] = object_schema(
      {"at", "nodes", "held", "reservations", "use"},
      {{"at", seconds("since 1970")},
       {"nodes",
        {{"type", "array"},
         {"description", "nodes of that time, with all their devices"},
         {"items",
          object_of(
              {{"node", with_help(text(), "its name")},
               {"device_type", text()},
               {"devices", count()},
               {"reserved", with_help(count(), "of them, for something other than training")}})}}},
       {"reservations", list_of("Reservation")},
       {"use",
        {{"type", "array"},
         {"description", "what drivers tell of devices now; unknown fields are missing"},
         {"items", object_schema({"node", "index"},
                                 {{"node", text()},
                                  {"index", with_help(count(), "of the device on its node")},
                                  {"job", with_help(text(), "that holds it; missing: none")},
                                  {"utilisation", share("of the time in which it computed")},
                                  {"memory_used", with_help(count(), "bytes")},
                                  {"memory", with_help(count(), "bytes")}})}}},
       {"held",
        {{"type", "array"},
         {"items",
          object_schema({"nodes"}, {{"nodes", nodes_schema("where the devices are")},
                                    {"job", with_help(text(), "missing: of another tenant")},
                                    {"name", text()},
                                    {"tenant", text()},
                                    {"since", seconds("since 1970")},
                                    {"until", seconds("since 1970; 0: it still holds them")}})}}}});
  schemas["LogIn"] = object_schema({"token"}, {{"token", text_schema(500)}});
  schemas["Session"] =
      object_schema({"admin", "tenant", "name"},
                    {{"admin", {{"type", "boolean"}}}, {"tenant", text()}, {"name", text()}});
  schemas["TenantList"] = object_schema({"tenants"}, {{"tenants", list_of("Tenant")}});
  schemas["Health"] =
      object_schema({"status"}, {{"status", {{"enum", {"ok", "read-only", "standby"}}}},
                                 {"reason", text()},
                                 {"behind", {{"type", "integer"}}}});
  return schemas;
}

}  // namespace rubato::api
