// rubato events: reads the folder of a local job, and asks the daemon about its jobs.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/file.h"
#include "commands.h"
#include "elastic/job/event_text.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

struct EventsArguments {
  std::string job;
  bool follow = false;
  std::int64_t after = 0;
  bool as_json = false;
};

// Prints the complete lines of `text` and returns their size in bytes.
std::size_t print_lines(std::string_view text, bool as_json) {
  std::size_t printed = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    fmt::print("{}\n", as_json ? std::string(line) : elastic::describe_event(line));
    text.remove_prefix(end + 1);
    printed += end + 1;
  }
  std::fflush(stdout);
  return printed;
}

int print_events(const elastic::JobFolder& folder, bool follow, bool as_json) {
  for (std::size_t printed = 0;;) {
    // Check before reading, so that the last read includes everything the job wrote.
    const bool over = !follow || state_of(folder) != "running";
    if (is_file(folder.events_file())) {
      const Result<std::string> text = read_file(folder.events_file());
      if (!text.ok()) return fail(text.error());
      printed +=
          print_lines(std::string_view(*text).substr(std::min(printed, text->size())), as_json);
    }
    if (over || std::ferror(stdout) != 0) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

int events(const Context& context, const EventsArguments& a) {
  EventsRequest request{.job = {}, .follow = a.follow, .after = a.after, .as_json = a.as_json};
  if (a.job.empty()) {
    if (context.daemon == nullptr) return fail(invalid_input("events: say which job"));
    return context.daemon->events(request);
  }
  Result<FoundJob> job = which_job(context, a.job);
  if (!job.ok()) return fail(job.error());
  if (!job->of_daemon()) {
    return print_events(elastic::JobFolder(job->folder), a.follow, a.as_json);
  }
  request.job = std::move(*job);
  return context.daemon->events(request);
}

}  // namespace

void add_events(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<EventsArguments>();
  CLI::App* sub =
      app.add_subcommand("events", "Show what happened to a job, or to all jobs of the daemon");
  sub->add_option("job", a->job, kJobHelp);
  sub->add_flag("-f,--follow", a->follow,
                "Wait for new events until the job has ended (for all jobs: until interrupted)");
  sub->add_option("--after", a->after, "Only events after this number (daemon only)")
      ->check(at_least(0));
  sub->add_flag("--json", a->as_json, "One JSON object per line");
  sub->callback([a, &context, &chosen] { chosen = [a, &context] { return events(context, *a); }; });
}

}  // namespace rubato::cli
