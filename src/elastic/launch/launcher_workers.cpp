// Which workers a launcher starts and ends, and what their ends mean.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/file.h"
#include "elastic/job/logical_workers.h"
#include "elastic/launch/command_check.h"
#include "elastic/launch/launcher_loop.h"
#include "elastic/launch/program_mark.h"
#include "elastic/worker/pinned_environment.h"
#include "elastic/worker/worker.h"

namespace rubato::elastic {

bool Launcher::speaks() {
  if (speaks_) return true;
  speaks_ = settings_.program == ProgramKind::kRuntime || is_file(folder_.hello_file());
  if (speaks_) set_variables_of_workers();
  return speaks_;
}

// Set by the launcher, so that a worker need not execute itself again. They would slow an ordinary
// program down.
void Launcher::set_variables_of_workers() {
  const Result<Consistency> level = parse_consistency(settings_.consistency);
  if (!level.ok()) return;
  for (const auto& [name, value] : pinned_variables(*level)) processes_.set_variable(name, value);
}

std::string Launcher::keep_alive(const View& view, const Target& target) {
  const Counted now = count_processes(view);
  if (now.members > 0) note_progress(view);
  // As long as some worker trains, the job is healthy.
  if (now.members == 0 && failures_.too_many()) return failures_.text();
  const bool begins_anew = view.empty() && view.number != last_empty_view_;
  if (begins_anew || (member_here(view) == nullptr && node_had_members_)) {
    // Remaining processes of former members do not share memory with new workers.
    node_had_members_ = false;
    board_number_ = -1;
    if (view.empty()) last_empty_view_ = view.number;
  }
  node_had_members_ = node_had_members_ || now.members > 0;
  bool members_elsewhere = false;
  if (!view.empty() && now.members == 0) {
    members_elsewhere = shares() ? !all_members_here(view)
                                 : !home() || (on_other_nodes(view) && others_.any_alive(view));
    // The survivors, or the home launcher if there are none, will exclude this node's dead
    // workers. Until then newcomers would only find their remains.
    if (members_elsewhere && member_here(view) != nullptr) return "";
  }
  if (!view.empty() && now.members == 0 && !members_elsewhere) return begin_again(view);
  if (target.stop) return stop_who_has_nothing(view);
  const int missing = missing_workers(view, target, now);
  return failures_.may_start() ? start_missing(missing, now.members > 0 || members_elsewhere) : "";
}

Launcher::Counted Launcher::count_processes(const View& view) {
  Counted now;
  for (WorkerProcess& process : processes_.all()) {
    if (view.find(process.worker) != nullptr) {
      if (!process.was_member) failures_.worker_joined();
      process.was_member = true;
      ++now.members;
    } else if (!process.was_member) {
      ++now.joining;
    }
  }
  return now;
}

// All workers with the state are gone. Newcomers cannot continue alone.
std::string Launcher::begin_again(const View& view) {
  registry_->forget();
  const Result<View> newest = newest_view(*registry_);
  if (!newest.ok()) return can_wait_for(newest.error()) ? "" : newest.error().message;
  if (newest->number != view.number) return "";
  processes_.end_all();
  const Status cleared = clear_view("restart");
  if (!cleared.ok()) return can_wait_for(cleared.error()) ? "" : cleared.error().message;
  const bool failed = std::any_of(view.members.begin(), view.members.end(), [&](const Member& m) {
    const auto end = ends_.find(m.address.id);
    return end != ends_.end() && end->second.failed;
  });
  if (!failed) note_failure(std::nullopt, "all workers were killed");
  ends_.clear();
  failures_.forget_pause();
  return "";
}

int Launcher::missing_workers(const View& view, const Target& target, const Counted& now) {
  const int useful = most_workers();
  const int share = shares() ? target.workers : target.on_node(node(), settings_.home);
  int wanted = std::min(share, useful) + settings_.spares;
  for (const int worker : target.migrate) {
    const Member* const member = view.find(worker);
    wanted += member != nullptr && member->address.node == node() ? 1 : 0;
  }
  if (target.workers > useful) note_surplus(target.workers, useful);
  int missing = wanted - now.members - now.joining;
  if (ties_.tied()) {
    missing = ties_.hold(view, wanted, processes_);
  } else if (target.workers > useful) {
    end_newcomers(view, -missing);
  }
  // Who does not know the runtime must not run several times. Who could not be started is not tried
  // with many processes at once.
  const bool one_at_most = !speaks() || (view.empty() && failures_.starts_failed());
  const bool first = shares() || node() == target.first_node(settings_.home);
  if (one_at_most) missing = std::min(missing, first && processes_.empty() ? 1 : 0);
  return missing;
}

std::string Launcher::start_missing(int missing, bool trains) {
  const Status possible = missing > 0 ? check_start() : ok_status();
  if (!possible.ok()) {
    if (!trains) return possible.error().message;
    note_failure(std::nullopt, possible.error().message);
    failures_.start_failed(Clock::now());
    return "";
  }
  for (; missing > 0; --missing) {
    const Status started = start_worker();
    if (started.ok()) continue;
    return can_wait_for(started.error()) ? "" : started.error().message;
  }
  return "";
}

int Launcher::most_workers() {
  if (settings_.logical_workers > 0) return settings_.logical_workers;
  if (!program_workers_) program_workers_ = agreed_logical_workers(*registry_);
  return program_workers_.value_or(kMaxWorkers);
}

// Warns that some workers would have nothing to do; once per number of workers.
void Launcher::note_surplus(int workers, int useful) {
  if (!home() || workers == noted_surplus_) return;
  noted_surplus_ = workers;
  static_cast<void>(folder_.append_event(
      {{"type", "warning"},
       {"at", unix_seconds()},
       {"message",
        fmt::format("the job has {} logical worker{}, so it runs on {} worker{} instead of {}",
                    useful, useful == 1 ? "" : "s", useful, useful == 1 ? "" : "s", workers)}}));
}

// Ends up to this many workers that have not joined yet.
void Launcher::end_newcomers(const View& view, int surplus) {
  for (const WorkerProcess& process : processes_.all()) {
    if (surplus <= 0) return;
    if (process.was_member || view.find(process.worker) != nullptr) continue;
    processes_.send(process.worker, SIGKILL);
    --surplus;
  }
}

// During an orderly stop, members finish a step and write a checkpoint. Newcomers have nothing to
// save. Neither has a job that has not completed a step since it was started. A program that has
// not spoken may have, so it is asked.
std::string Launcher::stop_who_has_nothing(const View& view) {
  if (home() && !speaks()) {
    ordinary_.stop(processes_);
    return "";
  }
  const bool before_first_step = home() && !view.empty() && !on_other_nodes(view) &&
                                 (view.cause == "start" || view.cause == "restart") && board_ &&
                                 board_->completed() < view.first_step;
  if (before_first_step) {
    processes_.end_all();
    const Status cleared = clear_view("stop");
    return cleared.ok() || can_wait_for(cleared.error()) ? "" : cleared.error().message;
  }
  for (const WorkerProcess& process : processes_.all()) {
    if (!process.was_member) processes_.send(process.worker, SIGKILL);
  }
  return "";
}

void Launcher::note_progress(const View& view) {
  const Member* const member = member_here(view);
  if (member == nullptr) return;
  const std::string& name = member->address.board;
  if (name != board_name_) {
    board_.reset();
    Result<Board> board = Board::open(name);
    if (!board.ok()) return;
    board_.emplace(std::move(*board));
    board_name_ = name;
  }
  // Steps that a restart repeats are not progress: a program that always fails at the same step
  // must not be restarted forever.
  const std::int64_t step = board_->completed();
  if (step > last_step_) {
    last_step_ = step;
    failures_.progress();
  }
}

Status Launcher::check_start() {
  const ProcessOptions& processes = options_.processes;
  if (!processes.directory.empty()) {
    Status found = check_directory(processes.directory);
    if (!found.ok()) return found;
  }
  const Result<std::string> program =
      find_program(settings_.command, processes.directory, search_path_with(processes.environment));
  if (!program.ok()) return program.error();
  if (!speaks() && has_program_mark(*program)) set_variables_of_workers();
  return ok_status();
}

Status Launcher::start_worker() {
  const Result<int> worker = next_worker_id(*registry_);
  if (!worker.ok()) return worker.error();
  if (shares()) {
    processes_.set_variable(kFoundsVariable, std::to_string(founds_after_.value_or(-1)));
  }
  if (board_number_ < 0) board_number_ = *worker;
  processes_.set_variable(kBoardVariable, std::to_string(board_number_));
  if (!speaks()) {
    Status begun = ordinary_.begin(*worker);
    if (!begun.ok()) return begun;
  }
  Status started = processes_.start(*worker, ties_.free_device(processes_));
  if (!started.ok() && !speaks()) ordinary_.not_started();
  return started;
}

// A worker need not have joined the job when it ends if the launcher or the job's owner wanted its
// end, if others train without it, or if another node decides.
bool Launcher::may_end_before_it_joins(const WorkerProcess& child, const Result<View>& view) const {
  if (child.told_to_end || !home() || !view.ok() || !view->empty()) return true;
  const Result<Target> target = newest_target(own_ ? *own_ : static_cast<Registry&>(*registry_));
  return is_file(folder_.result_file()) || finished_ || !target.ok() || target->stop;
}

Launcher::WorkerEnd Launcher::describe_end(const WorkerProcess& child, int status,
                                           const Result<View>& view) const {
  const bool joined = child.was_member || (view.ok() && view->find(child.worker) != nullptr);
  const bool early = !joined && !may_end_before_it_joins(child, view);
  if (!WIFEXITED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
      return {.how = fmt::format("killed by signal {}{}", signal,
                                 early ? " before it joined the job" : ""),
              .failed = early};
    }
    return {.how = fmt::format("crashed: {}", strsignal(signal)), .failed = true};
  }
  const int code = WEXITSTATUS(status);
  if (early && (code == kWorkerDone || code == kWorkerExcluded)) {
    return {.how = fmt::format("ended with code {} before it joined the job", code),
            .failed = true};
  }
  if (code == kWorkerDone) {
    // A normal end, unless the worker is expected to train: then the program ended in the middle
    // of a step.
    const bool trains = !is_file(folder_.result_file()) && !finished_ && view.ok() &&
                        view->find(child.worker) != nullptr;
    return {.how = "ended in the middle of training", .failed = trains};
  }
  return {.how = fmt::format("ended with code {}", code), .failed = code != kWorkerExcluded};
}

std::optional<LaunchResult> Launcher::note_end(const WorkerProcesses::End& end) {
  if (home() && !speaks()) {
    Result<std::optional<LaunchResult>> over = ordinary_.ended(end.status);
    if (!over.ok()) return LaunchResult{LaunchResult::State::kFailed, over.error().message};
    return *over;
  }
  const WorkerProcess& child = end.process;
  const Result<View> view = newest_view(*registry_);
  // Count the steps since the last look. Otherwise the next start would seem to get further.
  if (view.ok()) note_progress(*view);
  const WorkerEnd known = describe_end(child, end.status, view);
  // A worker may have joined and ended since the last look.
  const bool member = child.was_member || (view.ok() && view->find(child.worker) != nullptr);
  if (member) ends_[child.worker] = known;
  if (child.warm && !member && known.failed) processes_.execute_all_from_now_on();
  const bool others_train = view.ok() && !view->empty();
  bool counts = known.failed;
  if (!member && !child.told_to_end && (known.failed || others_train)) {
    // Workers that were started together and fail together have failed once.
    counts = failures_.start_failed(child.started) ? counts : counts && others_train;
  }
  if (!counts) return std::nullopt;
  const std::string log = folder_.log_file(child.worker);
  std::string words = last_line(log);
  if (words.empty()) words = fmt::format("no output in {}", log);
  note_failure(child.worker, fmt::format("{} (worker {} {})", words, child.worker, known.how));
  if (const std::string why = last_line(folder_.hopeless_file()); writes_status() && !why.empty()) {
    return LaunchResult{LaunchResult::State::kFailed, why};
  }
  return std::nullopt;
}

// The one place that counts: as many failures as there are events of them.
void Launcher::note_failure(std::optional<int> worker, const std::string& reason) {
  failures_.add(reason, worker ? folder_.log_file(*worker) : "");
  nlohmann::json event = {{"type", "failed"}, {"reason", reason}};
  if (worker) event["worker"] = *worker;
  static_cast<void>(folder_.append_event(event));
}

}  // namespace rubato::elastic
