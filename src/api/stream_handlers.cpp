#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/handlers.h"
#include "api/log_reader.h"
#include "api/stream_place.h"
#include "api/streams.h"
#include "base/text.h"
#include "control/as_user.h"
#include "control/event_types.h"

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

std::string news_message(const char* type, const json& body) {
  return fmt::format("event: {}\ndata: {}\n\n", type, to_text(body));
}

// What a stream carries besides events. These messages have no id: whoever missed some just gets
// the next one.
class News {
 public:
  News(bool live, JobNumber watched) : live_(live), watched_(watched) {}

  std::string take(const control::Controller& controller, const control::Caller& caller) {
    std::string text;
    if (live_) {
      const control::ClusterSample sample = controller.newest_sample();
      if (std::exchange(sample_at_, sample.at) != sample.at) {
        text += news_message("sample", control::to_json(sample));
      }
    }
    if (watched_ == 0) return text;
    const auto point = controller.newest_point(caller, watched_);
    const std::pair now{point ? point->step : -1, point ? point->held : 0};
    if (std::exchange(progress_, now) != now && point) {
      text += news_message("point", control::to_json(*point));
    }
    return text;
  }

 private:
  bool live_;
  JobNumber watched_;  // 0: none
  double sample_at_ = 0;
  std::pair<std::int64_t, int> progress_{-1, 0};
};

// Sends events after `after` as server-sent events until the client disconnects.
Reply event_stream(const Call& call, JobNumber job, std::int64_t after, News news) {
  const std::shared_ptr<void> place = enter_stream(call);
  if (!place) return no_stream_place(call);
  Reply reply{.content_type = "text/event-stream"};
  reply.headers["Cache-Control"] = "no-store";
  reply.stream = [&controller = call.controller, &streams = call.streams, caller = call.caller,
                  token = call.caller.token_version, place, job, next = after, idle = 0,
                  news](std::string& text) mutable {
    // Whose token was replaced, has expired or was deleted gets nothing more.
    if (streams.wait(0) || controller.token_version(caller) != token) return false;
    const auto events = controller.events(caller, next, job, kEventsAtOnce, kStreamWait);
    if (!events.ok()) return false;
    for (const Event& event : *events) {
      text += event_message(event);
      next = event.seq;
    }
    text += news.take(controller, caller);
    idle = text.empty() ? idle + 1 : 0;
    if (idle > 0 && idle % kWaitsPerSign == 0) text += ": still here\n\n";
    return true;
  };
  return reply;
}

Reply events_reply(const Call& call, JobNumber job, News news) {
  if (call.wants_events) {
    const bool resumes = call.parameters.contains("Last-Event-ID");
    return event_stream(call, job, call.number(resumes ? "Last-Event-ID" : "after"), news);
  }
  control::EventQuery query{.after = call.number("after"),
                            .before = call.number("before"),
                            .since = static_cast<double>(call.number("since")),
                            .until = static_cast<double>(call.number("until")),
                            .newest_first = call.flag("newest_first"),
                            .limit = static_cast<int>(call.number("limit")),
                            .job = job};
  const std::string types = call.text("types");
  if (!types.empty()) {
    for (const std::string_view type : split(types, ',')) {
      if (control::find_event_type(type) == nullptr) {
        return error_reply(400, "invalid",
                           fmt::format("types: there is no event '{}'; docs/events.md lists them",
                                       type.substr(0, 40)));
      }
      query.types.emplace_back(type);
    }
  }
  const auto page = call.controller.find_events(call.caller, std::move(query));
  if (!page.ok()) return error_reply(page.error());
  json list = json::array();
  for (const Event& event : page->events) list.push_back(control::to_json(event));
  return json_reply(
      {{"next", page->next ? json(*page->next) : json(nullptr)}, {"events", std::move(list)}});
}

}  // namespace

Reply all_events(const Call& call) {
  JobNumber watched = 0;
  if (!call.text("watch").empty()) {
    const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("watch"));
    if (!number.ok()) return error_reply(number.error());
    watched = *number;
  }
  return events_reply(call, 0, News(call.flag("live"), watched));
}

Reply job_events(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  return events_reply(call, *number, News(false, 0));
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
                  token = call.caller.token_version, place, files, reader, job = *number,
                  follow = call.flag("follow")](std::string& text) {
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
