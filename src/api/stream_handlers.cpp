#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "api/handlers.h"
#include "api/log_reader.h"
#include "api/stream_place.h"
#include "api/streams.h"
#include "base/text.h"
#include "control/as_user.h"

namespace rubato::api {

namespace {

using control::Event;
using control::JobNumber;
using nlohmann::json;

constexpr int kEventsAtOnce = 500;
constexpr double kStreamWait = 0.5;  // seconds
constexpr int kWaitsPerSign = 30;    // an idle stream sends a sign of life every 15 s

std::string event_message(const Event& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.seq, event.type,
                     to_text(control::to_json(event)));
}

// Sends events after `after` as server-sent events until the client disconnects.
Reply event_stream(const Call& call, JobNumber job, std::int64_t after) {
  const std::shared_ptr<void> place = enter_stream(call);
  if (!place) return no_stream_place(call);
  Reply reply{.content_type = "text/event-stream"};
  reply.headers["Cache-Control"] = "no-store";
  reply.stream = [&controller = call.controller, &streams = call.streams, caller = call.caller,
                  token = call.controller.token_version(call.caller), place, job, next = after,
                  idle = 0](std::string& text) mutable {
    // Whose token was replaced, has expired or was deleted gets nothing more.
    if (streams.wait(0) || controller.token_version(caller) != token) return false;
    const auto events = controller.events(caller, next, job, kEventsAtOnce, kStreamWait);
    if (!events.ok()) return false;
    for (const Event& event : *events) {
      text += event_message(event);
      next = event.seq;
    }
    idle = events->empty() ? idle + 1 : 0;
    if (idle > 0 && idle % kWaitsPerSign == 0) text += ": still here\n\n";
    return true;
  };
  return reply;
}

Reply events_reply(const Call& call, JobNumber job) {
  std::int64_t after = call.number("after");
  if (call.wants_events) {
    if (call.parameters.contains("Last-Event-ID")) after = call.number("Last-Event-ID");
    return event_stream(call, job, after);
  }
  const auto limit = static_cast<int>(call.number("limit"));
  const auto events = call.controller.events(call.caller, after, job, limit, 0);
  if (!events.ok()) return error_reply(events.error());
  json list = json::array();
  for (const Event& event : *events) list.push_back(control::to_json(event));
  const bool more = static_cast<int>(list.size()) == limit;
  return json_reply(
      {{"next", more ? json(events->back().seq) : json(nullptr)}, {"events", std::move(list)}});
}

}  // namespace

Reply all_events(const Call& call) { return events_reply(call, 0); }

Reply job_events(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  return events_reply(call, *number);
}

Reply job_logs(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const std::int64_t worker = call.parameters.contains("worker") ? call.number("worker") : -1;
  const std::int64_t tail = call.parameters.contains("tail") ? call.number("tail") : -1;
  const auto files = [&controller = call.controller, caller = call.caller, job = *number] {
    Result<std::vector<std::string>> found = controller.log_files(caller, job);
    return found.ok() ? std::move(*found) : std::vector<std::string>();
  };
  // Such as for a job whose folder is no longer kept.
  if (const auto found = call.controller.log_files(call.caller, *number); !found.ok()) {
    return error_reply(found.error());
  }
  const std::shared_ptr<void> place = enter_stream(call);
  if (!place) return no_stream_place(call);
  auto reader = std::make_shared<LogReader>(worker, tail);
  Reply reply{.content_type = "text/plain; charset=utf-8"};
  reply.stream = [&controller = call.controller, &streams = call.streams, caller = call.caller,
                  token = call.controller.token_version(call.caller), place, files, reader,
                  job = *number, follow = call.flag("follow")](std::string& text) {
    if (controller.token_version(caller) != token) return false;
    // Check this before reading: once the job has ended, its output is complete.
    const Result<control::JobRecord> record = controller.job(caller, job);
    const bool over = !follow || !record.ok() || ended(record->phase);
    const std::vector<std::string> logs = files();
    // With the rights of the job's user: JOB/logs/worker-0.log might be anything.
    const control::AsUser rights = control::AsUser::owner_of(
        logs.empty() ? "" : std::filesystem::path(logs[0]).parent_path().parent_path().string());
    if (reader->read(logs, text)) return true;
    return !over && !streams.wait(0.2);
  };
  return reply;
}

}  // namespace rubato::api
