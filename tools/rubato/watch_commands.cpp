// rubato logs, and rubato events for jobs of the daemon.
#include <fmt/format.h>

#include <memory>

#include "base/json_text.h"
#include "commands.h"
#include "control/state.h"
#include "elastic/event_text.h"
#include "output.h"

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

int logs(const LogArguments& a, const ServerChoice& server) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  std::string path = fmt::format("/jobs/{}/logs?follow={}", url_quoted(a.job), a.follow ? 1 : 0);
  if (a.tail >= 0) path += fmt::format("&tail={}", a.tail);
  if (a.worker >= 0) path += fmt::format("&worker={}", a.worker);
  std::string line;
  const auto print = [&](std::string_view bytes) {
    if (!a.as_json) {
      const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
      return std::fflush(stdout) == 0 && written;
    }
    for (const char c : bytes) {
      if (c != '\n') {
        line += c;
        continue;
      }
      fmt::print("{}\n", compact_json(json{{"line", line}}));
      line.clear();
    }
    return std::fflush(stdout) == 0;
  };
  const Status streamed = client->stream(path, {}, print);
  if (a.as_json && !line.empty()) print("\n");
  return streamed.ok() ? 0 : fail(streamed.error());
}

// The body of an event for people: a view change in the runtime's words, others as name=value.
std::string body_text(const std::string& type, const json& body) {
  if (type == "view") return " " + elastic::describe_event(compact_json(body));
  std::string text;
  for (const auto& [name, value] : body.items()) {
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

}  // namespace

int print_daemon_events(const ServerChoice& server, const EventsRequest& request) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const std::string path =
      request.job.empty() ? "/events" : "/jobs/" + url_quoted(request.job) + "/events";
  if (request.follow) {
    const Status followed = client->follow_events(path, request.after, [&](const json& event) {
      print_event(event, request.as_json);
      return std::ferror(stdout) == 0;
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
  sub->add_option("job", a->job, "Number (12 or j12) or name")->required();
  sub->add_flag("-f,--follow", a->follow, "Continue until the job has ended");
  sub->add_option("--tail", a->tail, "Only the last N lines of each worker")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  sub->add_option("--worker", a->worker, "Only this worker")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  sub->add_flag("--json", a->as_json, "One JSON object per line");
  sub->callback(
      [a, &context, &chosen] { chosen = [a, &context] { return logs(*a, context.server); }; });
}

}  // namespace rubato::cli
