// rubato wait: until jobs of the daemon have ended.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/text.h"
#include "commands.h"
#include "control/job_document.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kTimedOut = 2;
constexpr auto kFirstLook = std::chrono::milliseconds(50);
constexpr auto kLastLook = std::chrono::milliseconds(1000);
constexpr auto kDaemonAway = std::chrono::seconds(60);  // a restarted daemon is back within seconds

struct WaitArguments {
  std::vector<std::string> jobs;
  std::string timeout;
  bool as_json = false;
};

bool is_over(const json& job) {
  const std::string phase = job.value("phase", "");
  return phase == "finished" || phase == "failed" || phase == "cancelled";
}

// The jobs as the daemon knows them last.
class Watched {
 public:
  Watched(const ServerChoice& server, const std::vector<std::string>& ids) : server_(server) {
    for (const std::string& id : ids) jobs_.push_back({{"id", id}});
  }

  // Asks about the jobs that have not ended. Each time anew: a restarted daemon may have another
  // address.
  Status look(bool as_json) {
    Result<Client> client = Client::make(server_);
    if (!client.ok()) return Error{ErrorCode::kIo, client.error().message};
    for (json& job : jobs_) {
      if (is_over(job)) continue;
      Result<json> now = client->get("/jobs/" + url_quoted(job.value("id", "")));
      if (!now.ok()) return now.error();
      job = std::move(*now);
      if (!is_over(job) || as_json) continue;
      const std::string message = job.value("message", "");
      fmt::print(stderr, "{} {} {}{}\n", job.value("id", ""), job.value("name", ""),
                 job.value("phase", ""), message.empty() ? "" : ": " + message);
    }
    return ok_status();
  }
  bool all_over() const { return std::all_of(jobs_.begin(), jobs_.end(), is_over); }
  bool all_finished() const {
    return std::all_of(jobs_.begin(), jobs_.end(),
                       [](const json& job) { return job.value("phase", "") == "finished"; });
  }
  const json& jobs() const { return jobs_; }

 private:
  const ServerChoice& server_;
  json jobs_ = json::array();
};

Result<std::optional<Clock::time_point>> deadline_of(const WaitArguments& a) {
  if (a.timeout.empty()) return std::optional<Clock::time_point>();
  const Result<double> seconds = control::parse_duration(a.timeout);
  if (!seconds.ok()) return invalid_input("--timeout: " + seconds.error().message);
  return std::optional(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(*seconds)));
}

int wait(const Context& context, const WaitArguments& a) {
  const auto deadline = deadline_of(a);
  if (!deadline.ok()) return fail(deadline.error());
  std::vector<std::string> ids;
  for (const std::string& name : a.jobs) {
    const Result<FoundJob> job = which_daemon_job(context, name);
    if (!job.ok()) return fail(job.error());
    ids.push_back(job->id);
  }
  Watched watched(context.server, ids);
  Clock::time_point answered = Clock::now();
  for (auto pause = kFirstLook;; pause = std::min(2 * pause, kLastLook)) {
    const Status looked = watched.look(a.as_json);
    const auto now = Clock::now();
    if (looked.ok()) answered = now;
    const bool patient = !looked.ok() && looked.error().code == ErrorCode::kIo;
    if (!looked.ok() && (!patient || now - answered > kDaemonAway)) return fail(looked.error());
    const bool late = *deadline && now >= **deadline;
    if (!late && !watched.all_over()) {
      std::this_thread::sleep_for(pause);
      continue;
    }
    if (a.as_json) print_json({{"jobs", watched.jobs()}});
    if (watched.all_over()) return watched.all_finished() ? 0 : 1;
    fmt::print(stderr, "rubato: not all jobs have ended within {}\n", a.timeout);
    return kTimedOut;
  }
}

}  // namespace

void add_wait(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<WaitArguments>();
  CLI::App* sub = app.add_subcommand(
      "wait",
      "Wait until jobs of the daemon have ended; exit code 0: all finished, 1: one failed or was "
      "cancelled, 2: the time was up");
  sub->add_option("jobs", a->jobs, kJobHelp)->required();
  sub->add_option("--timeout", a->timeout, "Give up after this long: 90s, 15m, 2h, 1d");
  sub->add_flag("--json", a->as_json, "The jobs as JSON");
  sub->callback([a, &context, &chosen] { chosen = [a, &context] { return wait(context, *a); }; });
}

}  // namespace rubato::cli
