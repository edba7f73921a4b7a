#include "elastic/launcher.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/file.h"
#include "elastic/board.h"
#include "elastic/device_ties.h"
#include "elastic/event_text.h"
#include "elastic/pinned_environment.h"
#include "elastic/shared_memory.h"
#include "elastic/worker.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr int kMostFailuresWithoutProgress = 5;
// While the job trains, newcomers that fail are tried again after a while, up to this long.
constexpr auto kFirstPause = std::chrono::milliseconds(100);
constexpr auto kLongestPause = std::chrono::seconds(30);

volatile std::sig_atomic_t g_interrupts = 0;  // Ctrl-C: once to stop, twice to kill
void on_interrupt(int) { g_interrupts = g_interrupts + 1; }

class Launcher {
 public:
  Launcher(const LaunchOptions& options, JobSettings settings,
           std::unique_ptr<FileRegistry> registry)
      : options_(options),
        settings_(std::move(settings)),
        folder_(options.folder),
        registry_(std::move(registry)),
        processes_(folder_, options.processes, settings_.command),
        ties_(options.processes.term_after_s, options.processes.kill_after_s) {
    processes_.set_variable("RUBATO_CONSISTENCY", settings_.consistency);
    const Result<Consistency> level = parse_consistency(settings_.consistency);
    if (!level.ok()) return;
    // Set by the launcher, so that a worker need not execute itself anew.
    for (const auto& [name, value] : pinned_variables(*level)) processes_.set_variable(name, value);
  }

  LaunchResult run() {
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    LaunchResult result = watch();
    processes_.end_all();
    remove_segments(prefix());
    const char* state = result.state == LaunchResult::State::kFinished  ? "finished"
                        : result.state == LaunchResult::State::kStopped ? "stopped"
                        : g_interrupts >= 2                             ? "killed"
                                                                        : "failed";
    state_ = state;
    write_status(result.message);
    print_new_events();
    return result;
  }

  // Nobody of an earlier launch is alive: whatever view is there is history.
  Status clear_view(const std::string& cause) {
    Result<View> latest = newest_view(*registry_);
    if (!latest.ok()) return latest.error();
    if (latest->number == 0 || latest->empty()) return ok_status();
    View empty{.number = latest->number + 1, .first_step = latest->first_step, .cause = cause};
    const Result<Board> board = Board::open(latest->board);
    if (board.ok()) empty.first_step = board->completed() + 1;
    const Result<bool> won =
        registry_->compare_and_swap(kViewRecord, latest->number, to_json(empty).dump());
    if (!won.ok()) return won.error();
    remove_segments(prefix());
    return ok_status();
  }

 private:
  std::string prefix() const { return fmt::format("rubato.{}.", settings_.token); }

  LaunchResult watch() {
    write_status("");
    bool stop_asked = false;
    for (;;) {
      for (const WorkerProcesses::End& end : processes_.reap()) note_end(end);
      processes_.limit_logs();
      print_new_events();
      if (is_file(folder_.result_file()) && processes_.empty()) {
        return {LaunchResult::State::kFinished, ""};
      }
      if (g_interrupts >= 2) return {LaunchResult::State::kFailed, "killed by a second interrupt"};
      if (g_interrupts == 1 && !stop_asked) {
        stop_asked = true;
        static_cast<void>(change_target(*registry_, [](Target& target) {
          target.stop = true;
          return ok_status();
        }));
      }
      Result<View> view = newest_view(*registry_);
      std::int64_t version = 0;
      Result<Target> target = newest_target(*registry_, &version);
      if (!view.ok()) return {LaunchResult::State::kFailed, view.error().message};
      if (!target.ok()) return {LaunchResult::State::kFailed, target.error().message};
      ties_.obey(version, target->devices);
      if (target->stop && processes_.empty()) {
        return {LaunchResult::State::kStopped,
                fmt::format("stopped before step {}", view->first_step)};
      }
      if (!is_file(folder_.result_file())) {
        std::string problem = keep_alive(*view, *target);
        if (!problem.empty()) return {LaunchResult::State::kFailed, std::move(problem)};
      }
      write_status("");
      std::this_thread::sleep_for(kLook);
    }
  }

  // Starts what is missing. Returns why the job must be given up, or "".
  std::string keep_alive(const View& view, const Target& target) {
    int members = 0;
    int joining = 0;
    for (WorkerProcess& process : processes_.all()) {
      const bool member = view.find(process.worker) != nullptr;
      if (member) {
        if (!process.was_member) pause_ = {};
        process.was_member = true;
        ++members;
      } else if (!process.was_member) {
        ++joining;
      }
    }
    if (members > 0) note_progress(view);
    // As long as somebody trains, the job is well.
    if (members == 0 && failures_ >= kMostFailuresWithoutProgress) {
      return fmt::format("{} failures in a row without progress; the last one: {}", failures_,
                         last_failure_);
    }
    if (!view.empty() && members == 0) {
      // Everybody who had the state is gone. Newcomers cannot go on alone.
      processes_.end_all();
      const Status cleared = clear_view("restart");
      if (!cleared.ok()) return cleared.error().message;
      failures_ += 1;
      if (last_failure_.empty()) last_failure_ = "all workers were killed";
      return "";
    }
    if (target.stop) return stop_who_has_nothing(view);
    int wanted = std::min(target.workers, settings_.logical_workers) + settings_.spares;
    for (const int worker : target.migrate) wanted += view.find(worker) != nullptr ? 1 : 0;
    int missing = wanted - members - joining;
    if (ties_.tied()) missing = ties_.hold(view, wanted, processes_);
    if (members > 0 && steady_clock::now() < next_start_) return "";
    for (; missing > 0; --missing) {
      const Status started = processes_.start(next_worker_++, ties_.free_device(processes_));
      if (!started.ok()) return started.error().message;
    }
    return "";
  }

  // While a job stops in order, its members finish a step and write a checkpoint. Newcomers have
  // nothing to save, and neither has a job that has not done a step since it was started.
  std::string stop_who_has_nothing(const View& view) {
    const bool before_first_step = !view.empty() &&
                                   (view.cause == "start" || view.cause == "restart") && board_ &&
                                   board_->completed() < view.first_step;
    if (before_first_step) {
      processes_.end_all();
      const Status cleared = clear_view("stop");
      return cleared.ok() ? "" : cleared.error().message;
    }
    for (const WorkerProcess& process : processes_.all()) {
      if (!process.was_member) WorkerProcesses::send(process, SIGKILL);
    }
    return "";
  }

  void note_progress(const View& view) {
    if (view.board != board_name_) {
      board_.reset();
      Result<Board> board = Board::open(view.board);
      if (!board.ok()) return;
      board_.emplace(std::move(*board));
      board_name_ = view.board;
    }
    // Steps that a restart repeats are no progress: a program that always fails at the same step
    // must not be restarted for ever.
    const std::int64_t step = board_->completed();
    if (step > last_step_) {
      last_step_ = step;
      failures_ = 0;
    }
  }

  void note_end(const WorkerProcesses::End& end) {
    const WorkerProcess& child = end.process;
    const int status = end.status;
    std::string how;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kWorkerDone) {
      // Well, unless it is expected to train: the program ended in the middle of a step.
      const Result<View> view = newest_view(*registry_);
      if (is_file(folder_.result_file()) || !view.ok() || view->find(child.worker) == nullptr) {
        return;
      }
      how = "ended in the middle of training";
    } else if (WIFEXITED(status)) {
      if (WEXITSTATUS(status) == kWorkerExcluded) return;
      how = fmt::format("ended with code {}", WEXITSTATUS(status));
    } else {
      // A killed worker is somebody's doing; one that crashes may do so again.
      const int signal = WTERMSIG(status);
      if (signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP) return;
      how = fmt::format("crashed: {}", strsignal(signal));
    }
    ++failures_;
    const std::string log = folder_.log_file(child.worker);
    std::string words = last_line(log);
    if (words.empty()) words = fmt::format("no output in {}", log);
    last_failure_ = fmt::format("{} (worker {} {})", words, child.worker, how);
    static_cast<void>(folder_.append_event(
        {{"type", "failed"}, {"worker", child.worker}, {"reason", last_failure_}}));
    if (child.was_member) return;
    pause_ = std::min<steady_clock::duration>(
        pause_ == steady_clock::duration::zero() ? kFirstPause : 2 * pause_, kLongestPause);
    next_start_ = steady_clock::now() + pause_;
  }

  // Only when it says something new.
  void write_status(const std::string& message) {
    nlohmann::json newcomers = nlohmann::json::array();
    nlohmann::json workers = nlohmann::json::array();
    for (const WorkerProcess& process : processes_.all()) {
      workers.push_back({{"id", process.worker}, {"pid", process.pid}, {"device", process.device}});
      // For 'rubato ps': spares, and others that have not come in yet.
      if (!process.was_member) {
        newcomers.push_back({{"id", process.worker}, {"pid", process.pid}});
      }
    }
    nlohmann::json status = {{"state", state_},           {"pid", getpid()},
                             {"message", message},        {"newcomers", newcomers},
                             {"workers", workers},        {"target", ties_.target_version()},
                             {"devices", ties_.devices()}};
    if (status == status_) return;
    const std::string text =
        status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    if (write_file(folder_.status_file(), text).ok()) status_ = std::move(status);
  }

  void print_new_events() {
    if (options_.quiet) return;
    const Result<std::string> text =
        is_file(folder_.events_file()) ? read_file(folder_.events_file()) : std::string();
    if (!text.ok() || text->size() <= events_shown_) return;
    std::string_view fresh = std::string_view(*text).substr(events_shown_);
    for (std::size_t end = fresh.find('\n'); end != std::string_view::npos;
         end = fresh.find('\n')) {
      fmt::print(stderr, "{}\n", describe_event(fresh.substr(0, end)));
      events_shown_ += end + 1;
      fresh.remove_prefix(end + 1);
    }
  }

  const LaunchOptions& options_;
  JobSettings settings_;
  JobFolder folder_;
  std::unique_ptr<FileRegistry> registry_;
  WorkerProcesses processes_;
  int next_worker_ = 0;
  DeviceTies ties_;
  int failures_ = 0;  // since the job last made progress
  std::string last_failure_;
  steady_clock::duration pause_{};  // after newcomers that failed
  steady_clock::time_point next_start_;
  std::optional<Board> board_;
  std::string board_name_;
  std::int64_t last_step_ = -1;
  std::size_t events_shown_ = 0;
  std::string state_ = "running";
  nlohmann::json status_;  // as written

 public:
  void number_workers_from(int worker) { next_worker_ = worker; }
  void hide_earlier_events() {
    const Result<std::string> text = read_file(folder_.events_file());
    if (text.ok()) events_shown_ = text->size();
  }
};

// Ids are never used twice, also not after a restart of the launcher.
int first_free_worker(FileRegistry& registry, std::int64_t newest) {
  int next = 0;
  for (std::int64_t number = 1; number <= newest; ++number) {
    const Result<std::optional<std::string>> record = registry.at(kViewRecord, number);
    if (!record.ok() || !record->has_value()) continue;
    const Result<View> view = parse_view(nlohmann::json::parse(**record, nullptr, false));
    if (!view.ok()) continue;
    for (const int worker : view->ids()) next = std::max(next, worker + 1);
  }
  return next;
}

std::string random_token() {
  return fmt::format("{:x}{:x}", getpid(), steady_clock::now().time_since_epoch().count());
}

}  // namespace

Result<LaunchResult> launch(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  Status made = make_directories(options.folder + "/logs");
  if (!made.ok()) return made.error();
  JobSettings settings = options.settings;
  settings.command = options.command;
  settings.first_workers = options.workers;
  if (settings.adaptive) settings.logical_workers = settings.max_workers;
  const bool continued = is_file(folder.settings_file());
  if (is_file(folder.result_file())) {
    return invalid_input(fmt::format(
        "{}: holds a finished job; choose another folder with --dir or remove it", options.folder));
  }
  if (continued) {
    Result<JobSettings> before = folder.read_settings();
    if (!before.ok()) return before.error();
    if (before->adaptive != settings.adaptive) {
      return invalid_input(
          fmt::format("{}: holds {} job; continue it with --mode {} or choose another folder",
                      options.folder, before->adaptive ? "an adaptive" : "a consistent",
                      before->adaptive ? "adaptive" : "consistent"));
    }
    if (settings.adaptive && before->lr_rule != settings.lr_rule) {
      return invalid_input(
          fmt::format("{}: holds a job with the learning-rate rule {}; continue it with --lr-rule "
                      "{} or choose another folder",
                      options.folder, to_string(before->lr_rule), to_string(before->lr_rule)));
    }
    settings.first_workers = before->first_workers;
    if (!settings.adaptive && before->logical_workers != settings.logical_workers) {
      return invalid_input(
          fmt::format("{}: holds a job with {} logical workers; continue it with --logical {} or "
                      "choose another "
                      "folder",
                      options.folder, before->logical_workers, before->logical_workers));
    }
    settings.token = before->token;
  } else {
    settings.token = random_token();
    if (!is_file(folder.secret_file())) {
      Status secret = folder.make_secret();
      if (!secret.ok()) return secret.error();
    }
  }
  Status written = folder.write_settings(settings);
  if (!written.ok()) return written.error();
  Result<std::unique_ptr<FileRegistry>> registry = FileRegistry::open(folder.registry_folder());
  if (!registry.ok()) return registry.error();
  if (!options.keep_target) {
    Status targeted = change_target(**registry, [&](Target& target) {
      target = {.workers = options.workers, .batch = target.batch, .at = unix_seconds()};
      return ok_status();
    });
    if (!targeted.ok()) return targeted.error();
  }
  if (options.listed) {
    Status registered = register_job(settings.name, options.folder);
    if (!registered.ok()) return registered.error();
  }
  Result<View> latest = newest_view(**registry);
  if (!latest.ok()) return latest.error();
  const int next_worker = first_free_worker(**registry, latest->number);

  Launcher launcher(options, settings, std::move(*registry));
  launcher.number_workers_from(next_worker);
  if (continued) {
    launcher.hide_earlier_events();
    Status cleared = launcher.clear_view("restart");
    if (!cleared.ok()) return cleared.error();
    remove_segments(fmt::format("rubato.{}.", settings.token));  // of newcomers without a view, too
  }
  return launcher.run();
}

}  // namespace rubato::elastic
