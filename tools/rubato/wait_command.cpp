// rubato wait: until jobs of the daemon have ended.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "base/text.h"
#include "commands.h"
#include "control/job_document.h"
#include "output.h"
#include "select_jobs.h"

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
  explicit Watched(const ServerChoice& server) : server_(server) {}

  // An id of one job, or of an array ("j5[]").
  void add(const std::string& id) { names_.push_back(id); }

  // Asks about the jobs that have not ended. Each time anew: a restarted daemon may have another
  // address.
  Status look(bool as_json) {
    Result<Client> client = Client::make(server_);
    if (!client.ok()) return Error{ErrorCode::kIo, client.error().message};
    for (const std::string& name : names_) {
      if (over_.contains(name)) continue;
      const Result<std::vector<json>> now = ask(*client, name);
      if (!now.ok()) return now.error();
      for (const json& job : *now) note(job, as_json);
      if (std::all_of(now->begin(), now->end(), is_over)) over_.insert(name);
    }
    return ok_status();
  }
  bool all_over() const { return over_.size() == names_.size(); }
  bool all_finished() const {
    return all_over() && std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
             return job.second.value("phase", "") == "finished";
           });
  }
  json jobs() const {
    json list = json::array();
    for (const auto& [number, job] : jobs_) list.push_back(job);
    return list;
  }

 private:
  static Result<std::vector<json>> ask(Client& client, const std::string& name) {
    if (!name.ends_with("[]")) {
      Result<json> job = client.get("/jobs/" + url_quoted(name));
      if (!job.ok()) return job.error();
      return std::vector<json>{std::move(*job)};
    }
    Result<json> list = client.all_jobs(false, "&job=" + url_quoted(name));
    if (!list.ok()) return list.error();
    return list->get<std::vector<json>>();
  }
  void note(const json& job, bool as_json) {
    json& known = jobs_[job.value("number", std::int64_t{0})];
    const bool news = is_over(job) && !(known.is_object() && is_over(known));
    known = job;
    if (!news || as_json) return;
    const std::string message = job.value("message", "");
    fmt::print(stderr, "{} {} {}{}\n", job.value("id", ""), job.value("name", ""),
               job.value("phase", ""), message.empty() ? "" : ": " + message);
  }

  const ServerChoice& server_;
  std::vector<std::string> names_;
  std::set<std::string> over_;  // of names_
  std::map<std::int64_t, json> jobs_;
};

Result<std::optional<Clock::time_point>> deadline_of(const WaitArguments& a) {
  if (a.timeout.empty()) return std::optional<Clock::time_point>();
  const Result<double> seconds = control::parse_duration(a.timeout);
  if (!seconds.ok()) return invalid_input("--timeout: " + seconds.error().message);
  return std::optional(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(*seconds)));
}

int wait_for_all(const ServerChoice& server, const std::vector<std::string>& ids,
                 std::optional<Clock::time_point> deadline, const WaitArguments& a) {
  Watched watched(server);
  for (const std::string& id : ids) watched.add(id);
  Clock::time_point answered = Clock::now();
  for (auto pause = kFirstLook;; pause = std::min(2 * pause, kLastLook)) {
    const Status looked = watched.look(a.as_json);
    const auto now = Clock::now();
    if (looked.ok()) answered = now;
    const bool patient = !looked.ok() && looked.error().code == ErrorCode::kIo;
    if (!looked.ok() && (!patient || now - answered > kDaemonAway)) return fail(looked.error());
    const bool late = deadline && now >= *deadline;
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

int wait(const Context& context, const WaitArguments& a) {
  const auto deadline = deadline_of(a);
  if (!deadline.ok()) return fail(deadline.error());
  std::vector<std::string> ids;
  for (const std::string& name : a.jobs) {
    const Result<NamedJobs> named = named_jobs(context, name);
    if (!named.ok()) return fail(named.error());
    std::string id = named->array;
    if (id.empty() && !named->jobs.empty()) id = named->jobs.front().value("id", "");
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(std::move(id));
  }
  return wait_for_all(context.server, ids, *deadline, a);
}

}  // namespace

int wait_for_jobs(const ServerChoice& server, const std::vector<std::string>& ids, bool as_json) {
  return wait_for_all(server, ids, std::nullopt, {.jobs = {}, .timeout = "", .as_json = as_json});
}

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
