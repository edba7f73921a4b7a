// rubato pilots: keeps as many pilots in Slurm as the daemon's jobs can use (docs/slurm.md).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "commands.h"
#include "control/doctor/real_machine.h"
#include "control/job_document.h"
#include "control/machine.h"
#include "control/pilots/pilot_plan.h"
#include "control/pilots/slurm.h"
#include "interrupt.h"
#include "output.h"

namespace rubato::cli {

namespace {

using control::Pilot;
using control::SlurmJob;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kSupplyHolds = std::chrono::minutes(10);
constexpr std::size_t kMostReason = 120;

struct PilotArguments {
  int least = 0;
  int most = 1;
  int devices = 1;
  bool cpu = false;
  std::string time = "4h";
  std::string leave_before = "2m";
  std::string successor = "10m";
  std::string idle = "5m";
  std::string every = "10s";
  std::string name = "pilot";
  std::string url;
  std::string join_token_file;
  std::string agent_ca_file;
  std::string rubatod;
  std::string folder;
  std::map<std::string, std::string> site;  // options that sbatch has, too
  std::vector<std::string> more;
  bool end = false;
  bool once = false;
};

// The same in seconds.
struct Times {
  double time = 0;
  double leave_before = 0;
  double successor = 0;
  double idle = 0;
  double every = 0;
};

Result<Times> times_of(const PilotArguments& a) {
  Times times;
  const auto read = [](const char* option, const std::string& text, double& seconds) -> Status {
    const Result<double> parsed = control::parse_duration(text);
    if (!parsed.ok()) return invalid_input(fmt::format("{}: {}", option, parsed.error().message));
    seconds = *parsed;
    return ok_status();
  };
  for (const Status& done :
       {read("--time", a.time, times.time),
        read("--leave-before", a.leave_before, times.leave_before),
        read("--successor", a.successor, times.successor), read("--idle", a.idle, times.idle),
        read("--every", a.every, times.every)}) {
    if (!done.ok()) return done.error();
  }
  // Slurm counts minutes.
  times.time = 60 * std::max(1.0, std::ceil(times.time / 60));
  if (times.leave_before >= times.time) {
    return invalid_input(
        fmt::format("--leave-before {}: must be shorter than --time {}", a.leave_before, a.time));
  }
  if (times.successor >= times.time) {
    return invalid_input(
        fmt::format("--successor {}: must be shorter than --time {}", a.successor, a.time));
  }
  return times;
}

// Devices that the active jobs can make use of.
int demand_of(const json& jobs) {
  std::int64_t devices = 0;
  for (const json& job : jobs) {
    const std::string phase = job.value("phase", "");
    const json waits = job.value("waits_for", json::object());
    if (phase == "paused" || !waits.empty()) continue;
    std::int64_t most = job.value("max_devices", std::int64_t{0});
    if (const auto scale = job.value("scale", std::int64_t{0}); scale > 0) most = scale;
    const auto useful = job.value("max_useful", std::int64_t{0});
    if (useful > 0) most = std::min(most, useful);
    devices += most;
  }
  return static_cast<int>(std::min<std::int64_t>(devices, 1'000'000));
}

class Pilots {
 public:
  Pilots(PilotArguments arguments, const Times& times, Client client, std::string script)
      : a_(std::move(arguments)),
        times_(times),
        rules_{.least = a_.least,
               .most = a_.most,
               .devices = a_.devices,
               .successor = times.successor},
        client_(std::move(client)),
        script_(std::move(script)) {}

  // Looks at both sides and does what is due.
  Status turn() {
    const auto jobs = slurm_.jobs(a_.name);
    if (!jobs.ok()) return jobs.error();
    const auto nodes = client_.send("GET", "/nodes", nullptr);
    if (!nodes.ok()) return nodes.error();
    const auto active = client_.all_jobs(true);
    if (!active.ok()) return active.error();
    const std::vector<Pilot> pilots = known(*jobs, nodes->value("nodes", json::array()));
    const int demand = a_.end ? 0 : demand_of(*active);
    tell_waiting(*jobs);
    const int too_many =
        control::lasting_pilots(rules_, pilots) - control::wanted_pilots(rules_, demand);
    if (too_many <= 0) surplus_since_.reset();
    if (too_many > 0 && !surplus_since_) surplus_since_ = Clock::now();
    const bool shrinks =
        surplus_since_ &&
        (a_.end ||
         std::chrono::duration<double>(Clock::now() - *surplus_since_).count() >= times_.idle);
    const control::PilotPlan plan = control::plan_pilots(rules_, demand, pilots, shrinks);
    const double stay = times_.time - times_.leave_before;
    for (int i = 0; i < plan.submit; ++i) {
      const double stays = control::staggered_stay(stay, i, plan.submit);
      if (Status done = submit(demand, stays); !done.ok()) return done;
    }
    for (const std::string& id : plan.cancel) {
      if (Status done = slurm_.cancel(id); !done.ok()) return done;
      say(fmt::format("{} is cancelled before its start: it is not needed any more", id));
    }
    for (const std::string& id : plan.leave) {
      if (Status done = slurm_.tell_to_leave(id); !done.ok()) return done;
      told_to_leave_.insert(id);
      say(fmt::format("{} leaves: it is not needed any more", id));
    }
    forget_gone(*jobs, nodes->value("nodes", json::array()));
    left_ = jobs->size();
    return tell_daemon(*jobs);
  }
  std::size_t left() const { return left_; }
  void say(const std::string& text) const {
    fmt::print("rubato pilots: {}\n", text);
    std::fflush(stdout);
  }

 private:
  std::vector<Pilot> known(const std::vector<SlurmJob>& jobs, const json& nodes) {
    std::vector<Pilot> pilots;
    for (const SlurmJob& job : jobs) {
      Pilot pilot{.id = job.id, .runs = !job.waits(), .left = job.stays};
      if (!pilot.left && job.left) pilot.left = std::max(0.0, *job.left - times_.leave_before);
      pilot.leaves = told_to_leave_.contains(job.id) || (!job.waits() && !job.runs());
      const std::string node = control::pilot_node(a_.name, job.id);
      for (const json& each : nodes) {
        if (each.value("name", "") != node) continue;
        pilot.jobs = static_cast<int>(each.value("jobs", json::array()).size());
        if (each.value("state", "") != "ready") pilot.leaves = true;
      }
      pilots.push_back(std::move(pilot));
    }
    return pilots;
  }

  Status submit(int demand, double stays) {
    control::PilotRequest request{.name = a_.name,
                                  .time = stays + times_.leave_before,
                                  .stays = stays,
                                  .output = a_.folder + "/%x-%j.log"};
    for (const auto& [option, value] : a_.site) {
      if (!value.empty()) request.more.push_back(fmt::format("--{}={}", option, value));
    }
    request.more.insert(request.more.end(), a_.more.begin(), a_.more.end());
    const auto id = slurm_.submit(request, script_);
    if (!id.ok()) return id.error();
    say(fmt::format("{} is submitted: jobs can use {} devices, a pilot has {}", *id, demand,
                    a_.devices));
    return ok_status();
  }

  // In Slurm's own words, once per change.
  void tell_waiting(const std::vector<SlurmJob>& jobs) {
    std::map<std::string, std::string> waiting;
    for (const SlurmJob& job : jobs) {
      if (!job.waits()) continue;
      waiting[job.id] = job.starts.empty()
                            ? job.reason
                            : fmt::format("{}, expected to start at {}", job.reason, job.starts);
      const auto told = told_.find(job.id);
      if (job.reason == "None" || (told != told_.end() && told->second == waiting[job.id]))
        continue;
      say(fmt::format("{} waits: {}", job.id, waiting[job.id]));
    }
    told_ = std::move(waiting);
  }

  // For `rubato why`: how many wait, why, and when the first may start.
  Status tell_daemon(const std::vector<SlurmJob>& jobs) {
    int waiting = 0;
    std::map<std::string, int> reasons;
    std::string first;
    for (const SlurmJob& job : jobs) {
      if (!job.waits()) continue;
      ++waiting;
      if (job.reason != "None") ++reasons[job.reason];
      if (!job.starts.empty() && (first.empty() || job.starts < first)) first = job.starts;
    }
    std::string text;
    if (waiting > 0) {
      text = fmt::format("{} pilot{} of {} devices wait{} in Slurm", waiting,
                         waiting == 1 ? "" : "s", a_.devices, waiting == 1 ? "s" : "");
      std::string why;
      for (const auto& [reason, count] : reasons) why += (why.empty() ? "" : ", ") + reason;
      if (!why.empty()) text += fmt::format(" ({})", why.substr(0, kMostReason));
      if (!first.empty()) text += fmt::format(", expected to start at {}", first);
    }
    const bool fresh = Clock::now() - supply_told_at_ < kSupplyHolds / 2;
    if (text == supply_told_ && (text.empty() || fresh)) return ok_status();
    const double seconds = std::chrono::duration<double>(kSupplyHolds).count();
    const auto done = client_.send("PUT", "/supply", {{"text", text}, {"for_s", seconds}});
    if (!done.ok()) return done.error();
    supply_told_ = text;
    supply_told_at_ = Clock::now();
    return ok_status();
  }

  // Nodes of pilots that have ended, however they did.
  void forget_gone(const std::vector<SlurmJob>& jobs, const json& nodes) {
    for (const json& node : nodes) {
      const std::string name = node.value("name", "");
      const std::string id = node.value("labels", json::object()).value("slurm-job", "");
      if (id.empty() || name != control::pilot_node(a_.name, id)) continue;
      const bool there =
          std::any_of(jobs.begin(), jobs.end(), [&](const SlurmJob& job) { return job.id == id; });
      const bool idle =
          node.value("state", "") == "lost" || node.value("jobs", json::array()).empty();
      if (there || !idle) continue;
      if (client_.send("DELETE", "/nodes/" + name, nullptr).ok()) {
        say(fmt::format("{} has ended; its node is forgotten", id));
      }
    }
  }

  const PilotArguments a_;
  const Times times_;
  const control::PilotRules rules_;
  Client client_;
  const std::string script_;
  const control::doctor::RealMachine machine_;
  const control::Slurm slurm_{machine_};
  std::optional<Clock::time_point> surplus_since_{};
  std::set<std::string> told_to_leave_{};
  std::map<std::string, std::string> told_{};
  std::string supply_told_{};
  Clock::time_point supply_told_at_{};
  std::size_t left_ = 0;
};

// The folder with the script and the logs, which must be seen from Slurm's nodes.
Result<std::string> write_script(const PilotArguments& a) {
  if (Status made = make_directories(a.folder); !made.ok()) return made.error();
  control::PilotScript script{.rubatod = a.rubatod,
                              .url = a.url,
                              .token_file = a.join_token_file,
                              .ca_file = a.agent_ca_file,
                              .name = a.name,
                              .cpu_slots = a.cpu ? a.devices : 0};
  const std::string path = fmt::format("{}/{}.sh", a.folder, a.name);
  const Status written = write_file(path, control::pilot_script(script));
  if (!written.ok()) return written.error();
  return path;
}

// What was not given is found as other commands find it.
Status fill_in(PilotArguments& a, const Client& client) {
  if (const auto problem = control::node_name_problem(a.name + "-1"); !problem.empty()) {
    return invalid_input(fmt::format("--name {}: {}", a.name, problem));
  }
  const std::string state = find_state_folder();
  if (a.url.empty()) a.url = client.urls();
  if (a.join_token_file.empty()) a.join_token_file = state + "/join.token";
  if (!is_file(a.join_token_file)) {
    return invalid_input(fmt::format(
        "--join-token-file {}: there is no such file; it is join.token in the state folder of a "
        "daemon that runs with --cluster",
        a.join_token_file));
  }
  a.join_token_file = std::filesystem::absolute(a.join_token_file).string();
  if (a.folder.empty()) a.folder = state + "/pilots";
  a.folder = std::filesystem::absolute(a.folder).string();
  if (a.rubatod.empty()) {
    std::error_code none;
    a.rubatod = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "rubatod";
  }
  if (a.least <= a.most) return ok_status();
  return invalid_input(fmt::format("--min {}: must not be more than --max {}", a.least, a.most));
}

int run(PilotArguments a, const ServerChoice& server) {
  const Result<Times> times = times_of(a);
  if (!times.ok()) return fail(times.error());
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  if (const Status filled = fill_in(a, *client); !filled.ok()) return fail(filled.error());
  const Result<std::string> script = write_script(a);
  if (!script.ok()) return fail(script.error());
  const InterruptNoted interrupts;
  Pilots pilots(a, *times, std::move(*client), *script);
  std::string told;
  for (;;) {
    const Status done = pilots.turn();
    if (!done.ok() && (a.once || told.empty()) && a.once) return fail(done.error());
    if (!done.ok() && told != done.error().message) {
      fmt::print(stderr, "rubato pilots: {}; tried again every {}\n", done.error().message,
                 a.every);
    }
    told = done.ok() ? "" : done.error().message;
    if (a.once) return 0;
    if (a.end && done.ok() && pilots.left() == 0) return 0;
    const auto next = Clock::now() + std::chrono::duration<double>(times->every);
    while (Clock::now() < next && !interrupted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (!interrupted()) continue;
    pilots.say("stopped; pilots stay as they are. rubato pilots --end lets them leave");
    return 0;
  }
}

}  // namespace

void add_pilots(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<PilotArguments>();
  CLI::App* sub =
      app.add_subcommand("pilots", "Keep as many nodes in Slurm as the daemon's jobs can use");
  sub->add_option("--min", a->least, "Pilots that are always there")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  sub->add_option("--max", a->most, "Most pilots")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  sub->add_option("--devices", a->devices, "Devices of one pilot")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub->add_flag("--cpu", a->cpu, "They are CPU slots, not the GPUs that Slurm gives the pilot");
  sub->add_option("--time", a->time, "Time limit of a pilot")->capture_default_str();
  sub->add_option("--leave-before", a->leave_before,
                  "A pilot's node leaves so long before its time limit")
      ->capture_default_str();
  sub->add_option("--successor", a->successor,
                  "A pilot gets a successor so long before it leaves; as long as pilots usually "
                  "wait in the queue")
      ->capture_default_str();
  sub->add_option("--idle", a->idle, "Pilots leave when there were too many for so long")
      ->capture_default_str();
  sub->add_option("--every", a->every, "Look so often")->capture_default_str();
  sub->add_option("--name", a->name, "Name of the pilots in Slurm; their nodes are NAME-JOBID")
      ->capture_default_str();
  sub->add_option("--join", a->url,
                  "URL of the daemon, as the nodes reach it (default: the one of this command)");
  sub->add_option(
      "--join-token-file", a->join_token_file,
      "The daemon's join token, on the nodes (default: join.token in the local state folder)");
  sub->add_option("--agent-ca-file", a->agent_ca_file,
                  "Certificates that the agents trust, on the nodes");
  sub->add_option("--rubatod", a->rubatod,
                  "Path of rubatod on the nodes (default: beside this program)");
  sub->add_option("--folder", a->folder,
                  "Folder for the pilots' script and logs, which the nodes see (default: pilots in "
                  "the local state folder)");
  for (const char* option : {"account", "partition", "qos", "gres", "constraint", "reservation"}) {
    sub->add_option(fmt::format("--{}", option), a->site[option], "As for sbatch");
  }
  sub->add_option("--sbatch", a->more,
                  "Another option for sbatch, such as --sbatch=--mem=64G (repeatable)");
  sub->add_flag("--once", a->once, "Do what is due now, and return");
  sub->add_flag("--end", a->end, "Let all pilots leave, and return when they have ended");
  sub->callback([a, &context, &chosen] {
    if (!chosen) chosen = [a, &context] { return run(*a, context.server); };
  });
}

}  // namespace rubato::cli
