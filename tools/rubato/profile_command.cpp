// rubato profile: measures speed by number of workers. This file handles jobs of 'rubato run';
// daemon_profile.cpp handles jobs of the daemon.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/json_text.h"
#include "base/text.h"
#include "commands.h"
#include "interrupt.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

using elastic::Board;
using elastic::Target;
using elastic::View;
using nlohmann::json;

struct ProfileArguments {
  std::string job;
  ProfileRequest request;
};

// Restores the old target, however the measurement ends.
class OldTarget {
 public:
  OldTarget(LocalJob& job, Target target) : job_(job), target_(std::move(target)) {}
  ~OldTarget() { static_cast<void>(ask_for(job_, target_.workers, target_.batch)); }
  OldTarget(const OldTarget&) = delete;
  OldTarget& operator=(const OldTarget&) = delete;

 private:
  LocalJob& job_;
  const Target target_;
};

// The speed with this number of workers, measured over about a second of training. Empty if the job
// ends meanwhile or the command is interrupted.
std::optional<MeasuredSpeed> measure(LocalJob& job, int workers) {
  using std::chrono::steady_clock;
  const auto wait_for = [&](const auto& condition) {
    while (!condition()) {
      if (interrupted() || state_of(job.folder) != "running") return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  };
  View view;
  if (!wait_for([&] {
        const Result<View> now = elastic::newest_view(*job.registry);
        if (!now.ok()) return false;
        view = *now;
        return static_cast<int>(view.members.size()) == workers;
      })) {
    return std::nullopt;
  }
  const Result<Board> board = open_board(view);
  if (!board.ok()) return std::nullopt;
  if (!wait_for([&] { return board->completed() >= view.first_step + 1; })) return std::nullopt;
  const std::int64_t first = board->completed();
  const auto began = steady_clock::now();
  if (!wait_for([&] {
        return board->completed() >= first + 5 &&
               steady_clock::now() - began > std::chrono::seconds(1);
      })) {
    return std::nullopt;
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  const double rate = static_cast<double>(board->completed() - first) / seconds;
  return MeasuredSpeed{.devices = workers,
                       .steps_per_s = rate,
                       .samples_per_s = rate * static_cast<double>(view.batch)};
}

int profile_here(const FoundJob& found, const ProfileRequest& request) {
  Result<LocalJob> job = open_job(found.folder);
  if (!job.ok()) return fail(job.error());
  const Result<Target> before = elastic::newest_target(*job->registry);
  if (!before.ok()) return fail(before.error());
  const int most = request.high.value_or(most_workers(*job));
  const InterruptNoted noted;
  const OldTarget restored(*job, *before);
  std::vector<MeasuredSpeed> speeds;
  for (int workers = request.low; workers <= most; ++workers) {
    const Status asked = ask_for(*job, workers, 0);
    if (!asked.ok()) return fail(asked.error());
    fmt::print(stderr, "{}: measuring on {}\n", found.name, counted(workers, "worker"));
    const std::optional<MeasuredSpeed> speed = measure(*job, workers);
    if (interrupted()) return fail(invalid_input("interrupted; the job continues as before"));
    if (!speed) {
      return fail(invalid_input(fmt::format("{} ended before it was measured on {}", found.name,
                                            counted(workers, "worker"))));
    }
    speeds.push_back(*speed);
  }
  print_speeds(found.name, speeds, "workers", request.as_json);
  return 0;
}

int profile(const Context& context, const ProfileArguments& a) {
  if (a.request.high && a.request.low > *a.request.high) {
    return fail(invalid_input("profile: --min is larger than --max"));
  }
  const Result<FoundJob> job = which_job(context, a.job);
  if (!job.ok()) return fail(job.error());
  return job->of_daemon() ? context.daemon->profile(*job, a.request)
                          : profile_here(*job, a.request);
}

}  // namespace

void print_speeds(const std::string& name, std::span<const MeasuredSpeed> speeds, const char* unit,
                  bool as_json) {
  json rows = json::array();
  for (const MeasuredSpeed& speed : speeds) {
    rows.push_back({{unit, speed.devices},
                    {"steps_per_s", speed.steps_per_s},
                    {"samples_per_s", speed.samples_per_s},
                    {"speedup", speed.samples_per_s / speeds.front().samples_per_s}});
    if (std::string_view(unit) == "devices") rows.back()["nodes"] = speed.nodes;
  }
  if (as_json) {
    fmt::print("{}\n", indented_json(json{{"name", name}, {"profile", rows}}));
    return;
  }
  std::string title(unit);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool several = std::any_of(speeds.begin(), speeds.end(),
                                   [](const MeasuredSpeed& speed) { return speed.nodes > 1; });
  fmt::print("{:>7} {}{:>12} {:>12} {:>8}\n", title, several ? "NODES " : "", "STEPS/S",
             "SAMPLES/S", "SPEEDUP");
  for (const json& row : rows) {
    fmt::print("{:>7} {}{:>12.2f} {:>12.1f} {:>7.2f}x\n", row[unit].get<int>(),
               several ? fmt::format("{:>5} ", row["nodes"].get<int>()) : "",
               row["steps_per_s"].get<double>(), row["samples_per_s"].get<double>(),
               row["speedup"].get<double>());
  }
}

void add_profile(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<ProfileArguments>();
  CLI::App* sub = app.add_subcommand(
      "profile",
      "Measure the speed of a job by number of workers. For a job of the daemon: show past "
      "measurements, or with --max pin the job to one size after another and then remove the pin");
  sub->add_option("job", a->job, kJobHelp)->required();
  sub->add_option("--min", a->request.low, "Smallest number of workers")->check(at_least(1));
  sub->add_option("--max", a->request.high,
                  "Largest number of workers (default for a job of 'rubato run': its maximum)")
      ->check(at_least(1));
  sub->add_flag("--json", a->request.as_json, "As JSON");
  sub->callback(
      [a, &context, &chosen] { chosen = [a, &context] { return profile(context, *a); }; });
}

}  // namespace rubato::cli
