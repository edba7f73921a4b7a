// rubato logs, and rubato events for jobs of the daemon.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "api/log_reader.h"
#include "base/file.h"
#include "base/json_text.h"
#include "commands.h"
#include "control/state.h"
#include "daemon_jobs.h"
#include "elastic/job/event_text.h"
#include "local_job.h"
#include "output.h"
#include "select_jobs.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct LogArguments {
  std::string job;
  bool follow = false;
  std::int64_t tail = -1;
  std::int64_t worker = -1;
  bool as_json = false;
};

// Prints log text as it is, or one JSON object per line.
class LogPrinter {
 public:
  explicit LogPrinter(bool as_json) : as_json_(as_json) {}
  // Returns false if standard output is closed.
  bool print(std::string_view bytes) {
    if (!as_json_) {
      const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
      return std::fflush(stdout) == 0 && written;
    }
    for (const char c : bytes) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      fmt::print("{}\n", compact_json(json{{"line", line_}}));
      line_.clear();
    }
    return std::fflush(stdout) == 0;
  }
  // Prints a last line that has no newline.
  void end() {
    if (as_json_ && !line_.empty()) print("\n");
  }

 private:
  const bool as_json_;
  std::string line_;
};

// The log files of a job of 'rubato run', ordered by worker. 'rubato run' does not rotate logs.
std::vector<std::string> log_files(const std::string& folder) {
  std::vector<std::string> files;
  const Result<std::vector<std::string>> names = list_directory(folder + "/logs");
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    if (api::worker_of_log(name) >= 0) files.push_back(folder + "/logs/" + name);
  }
  std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return api::worker_of_log(a) < api::worker_of_log(b);
  });
  return files;
}

int logs_of_run(const LogArguments& a, const FoundJob& job) {
  const elastic::JobFolder folder(job.folder);
  api::LogReader reader(a.worker, a.tail);
  LogPrinter printer(a.as_json);
  for (;;) {
    // Check before reading, so that the last read includes everything the job wrote.
    const bool over = !a.follow || state_of(folder) != "running";
    std::string text;
    const bool more = reader.read(log_files(job.folder), text);
    if (!printer.print(text)) return 0;
    if (!more && over) break;
    if (!more) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  printer.end();
  return 0;
}

int logs_of_daemon(const LogArguments& a, const Context& context, const std::string& id) {
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  std::string path = fmt::format("/jobs/{}/logs?follow={}", url_quoted(id), a.follow ? 1 : 0);
  if (a.tail >= 0) path += fmt::format("&tail={}", a.tail);
  if (a.worker >= 0) path += fmt::format("&worker={}", a.worker);
  LogPrinter printer(a.as_json);
  const Status streamed =
      client->stream(path, {}, [&](std::string_view bytes) { return printer.print(bytes); });
  printer.end();
  return streamed.ok() ? 0 : fail(streamed.error());
}

// One job after another.
int logs_of_array(const LogArguments& a, const Context& context, const NamedJobs& named) {
  if (a.follow) {
    return fail(invalid_input(fmt::format(
        "logs: {} is an array; one of its jobs can be followed: rubato logs -f '{}[INDEX]'", a.job,
        named.array.substr(0, named.array.size() - 2))));
  }
  for (const json& job : named.jobs) {
    if (job.value("started_at", 0.0) == 0) continue;
    if (!a.as_json) fmt::print("==> {} {} <==\n", job.value("id", ""), job.value("name", ""));
    if (const int code = logs_of_daemon(a, context, job.value("id", "")); code != 0) return code;
  }
  return 0;
}

int logs(const LogArguments& a, const Context& context) {
  const Result<FoundJob> job = which_job(context, a.job);
  if (job.ok())
    return job->of_daemon() ? logs_of_daemon(a, context, job->id) : logs_of_run(a, *job);
  if (job.error().code != ErrorCode::kRefused) return fail(job.error());
  const Result<NamedJobs> named = named_jobs(context, a.job);
  return named.ok() ? logs_of_array(a, context, *named) : fail(named.error());
}

// The body of an event for people: a view change in the runtime's words, others as name=value.
std::string body_text(const std::string& type, const json& body) {
  if (type == "view") return " " + elastic::describe_event(compact_json(body));
  std::string text;
  for (const auto& [name, value] : body.items()) {
    if (name == "nodes" && value.is_array() && value.size() > 1) {
      text += fmt::format(" nodes={}", nodes_text(value));
      continue;
    }
    if (value.is_structured() || name == "key") continue;
    std::string shown = value.is_string() ? value.get<std::string>() : compact_json(value);
    if (value.is_number_float()) shown = fmt::format("{:.4g}", value.get<double>());
    if (shown.empty()) continue;
    text += fmt::format(" {}={}", name, shown);
  }
  return text;
}

std::string event_line(const json& event) {
  std::string text = fmt::format(
      "{} {:<6} {:<10}", time_text(event.value("at", 0.0)),
      event.contains("job") ? control::job_name_of(event["job"].get<std::int64_t>()) : "",
      event.value("type", ""));
  text += body_text(event.value("type", ""), event.value("body", json::object()));
  while (text.ends_with(' ')) text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

void print_event(const json& event, bool as_json) {
  fmt::print("{}\n", as_json ? compact_json(event) : event_line(event));
  std::fflush(stdout);
}

bool ends_job(const json& event) {
  const std::string type = event.value("type", "");
  return type == "finished" || type == "failed" || type == "cancelled";
}

}  // namespace

int print_daemon_events(const ServerChoice& server, const EventsRequest& request) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const std::string path =
      request.job ? "/jobs/" + url_quoted(request.job->id) + "/events" : "/events";
  // Do not follow a job that has ended: its last event may lie before `after`.
  if (request.follow && (!request.job || request.job->active)) {
    const Status followed = client->follow_events(path, request.after, [&](const json& event) {
      print_event(event, request.as_json);
      return std::ferror(stdout) == 0 && !(request.job && ends_job(event));
    });
    return followed.ok() ? 0 : fail(followed.error());
  }
  json next = request.after;
  while (!next.is_null()) {
    const Result<json> page =
        client->get(fmt::format("{}?limit=10000&after={}", path, compact_json(next)));
    if (!page.ok()) return fail(page.error());
    for (const json& event : page->value("events", json::array())) {
      print_event(event, request.as_json);
    }
    next = page->value("next", json());
  }
  return 0;
}

void add_logs(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<LogArguments>();
  CLI::App* sub = app.add_subcommand("logs", "Print the output of a job's workers");
  sub->add_option("job", a->job, kJobHelp)->required();
  sub->add_flag("-f,--follow", a->follow, "Continue until the job has ended");
  sub->add_option("--tail", a->tail, "Only the last N lines of each worker")
      ->check(between(0, 1e6));
  sub->add_option("--worker", a->worker, "Only this worker")->check(between(0, 1e6));
  sub->add_flag("--json", a->as_json, "One JSON object per line");
  sub->callback([a, &context, &chosen] { chosen = [a, &context] { return logs(*a, context); }; });
}

}  // namespace rubato::cli
