#include "elastic/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/board.h"
#include "elastic/command_check.h"
#include "elastic/descriptor.h"
#include "elastic/device_ties.h"
#include "elastic/event_text.h"
#include "elastic/logical_workers.h"
#include "elastic/node_status.h"
#include "elastic/pinned_environment.h"
#include "elastic/shared_memory.h"
#include "elastic/worker.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr int kMostFailuresWithoutProgress = 5;
constexpr auto kLockPatience = std::chrono::seconds(3);
// While the job trains, failed newcomers are retried with increasing pauses, up to this long.
constexpr auto kFirstPause = std::chrono::milliseconds(100);
constexpr auto kLongestPause = std::chrono::seconds(30);

volatile std::sig_atomic_t g_interrupts = 0;  // Ctrl-C: once stops, twice kills
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
        ties_(options.processes.term_after_s, options.processes.kill_after_s),
        others_(folder_, options.node.name, node_patience(settings_)) {
    processes_.set_variable("RUBATO_CONSISTENCY", settings_.consistency);
    processes_.set_variable(kNodeVariable, node());
    processes_.set_variable(kListenVariable, options.node.listen);
    const Result<Consistency> level = parse_consistency(settings_.consistency);
    if (!level.ok()) return;
    // Set by the launcher, so that a worker need not execute itself again.
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
    if (!home()) remove_node_status(folder_, node());
    print_new_events();
    return result;
  }

  // Whether members of the newest view are alive on other nodes. It takes a while to be sure that
  // none are.
  Result<bool> trains_elsewhere() {
    for (;;) {
      Result<View> view = newest_view(*registry_);
      if (!view.ok()) return view.error();
      if (!others_.any_alive(*view)) return false;
      for (const Member& member : view->members) {
        const Result<NodeStatus> status = read_node_status(folder_, member.address.node);
        const auto [entry, fresh] =
            first_beats_.try_emplace(member.address.node, status.ok() ? status->beat : 0);
        if (!fresh && status.ok() && status->beat != entry->second) return true;
      }
      std::this_thread::sleep_for(kLook);
    }
  }
  // Call when nobody of the existing view is alive: the view is history. After a restart, an event
  // reports how each of its members was lost; `reason` is for members whose end this launcher did
  // not see.
  Status clear_view(const std::string& cause, const std::string& reason = "gone") {
    Result<View> latest = newest_view(*registry_);
    if (!latest.ok()) return latest.error();
    if (latest->number == 0 || latest->empty()) return ok_status();
    View empty{.number = latest->number + 1, .first_step = latest->first_step, .cause = cause};
    if (const Member* member = member_here(*latest)) {
      const Result<Board> board = Board::open(member->address.board);
      if (board.ok()) empty.first_step = board->completed() + 1;
    }
    const Result<bool> won =
        registry_->compare_and_swap(kViewRecord, latest->number, compact_json(to_json(empty)));
    if (!won.ok()) return won.error();
    if (*won && cause == "restart") tell_lost(*latest, empty.number, reason);
    remove_segments(prefix());
    return ok_status();
  }

 private:
  const std::string& node() const { return options_.node.name; }
  bool home() const { return settings_.home == node(); }
  std::string prefix() const { return node_prefix(settings_.token, node()); }
  const Member* member_here(const View& view) const {
    const auto found =
        std::find_if(view.members.begin(), view.members.end(),
                     [&](const Member& member) { return member.address.node == node(); });
    return found == view.members.end() ? nullptr : &*found;
  }

  LaunchResult watch() {
    write_status("");
    bool stop_asked = false;
    for (;;) {
      for (const WorkerProcesses::End& end : processes_.reap()) note_end(end);
      processes_.limit_logs();
      print_new_events();
      if (is_file(folder_.result_file())) {
        if (processes_.empty()) return {LaunchResult::State::kFinished, ""};
        end_unheard_newcomers();
      }
      if (!is_file(folder_.settings_file())) {
        return {LaunchResult::State::kFailed, "the folder of the job is gone"};
      }
      if (g_interrupts >= 2) return {LaunchResult::State::kFailed, "killed by a second interrupt"};
      if (g_interrupts == 1 && !stop_asked) {
        stop_asked = true;
        static_cast<void>(change_target(*registry_, [&](Target& target) {
          if (home()) {
            target.stop = true;
          } else {
            target.workers = std::max(1, target.workers - target.on_node(node(), settings_.home));
            target.elsewhere.erase(node());
          }
          return ok_status();
        }));
      }
      if (!home()) beat();
      Result<View> view = newest_view(*registry_);
      std::int64_t version = 0;
      Result<Target> target = newest_target(*registry_, &version);
      if (!view.ok()) return {LaunchResult::State::kFailed, view.error().message};
      if (!target.ok()) return {LaunchResult::State::kFailed, target.error().message};
      if (home()) ties_.obey(version, target->devices);
      if (target->stop && processes_.empty()) {
        return {LaunchResult::State::kStopped,
                fmt::format("stopped before step {}", view->first_step)};
      }
      if (stop_asked && !home() && processes_.empty()) {
        return {LaunchResult::State::kStopped, fmt::format("node {} has left the job", node())};
      }
      if (home()) forget_gone_nodes(*target);
      if (!is_file(folder_.result_file())) {
        std::string problem = keep_alive(*view, *target);
        if (!problem.empty()) return {LaunchResult::State::kFailed, std::move(problem)};
      }
      write_status("");
      std::this_thread::sleep_for(kLook);
    }
  }

  // Starts missing workers. Returns why the job must be given up, or "".
  std::string keep_alive(const View& view, const Target& target) {
    int members = 0;
    int joining = 0;
    bool members_elsewhere = false;
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
    // As long as some worker trains, the job is healthy.
    if (members == 0 && failures_ >= kMostFailuresWithoutProgress) {
      return fmt::format("{} failures in a row without progress; the last one: {}", failures_,
                         last_failure_);
    }
    const bool begins_anew = view.empty() && view.number != last_empty_view_;
    if (begins_anew || (member_here(view) == nullptr && node_had_members_)) {
      // Remaining processes of former members do not share memory with new workers.
      node_had_members_ = false;
      board_number_ = -1;
      if (view.empty()) last_empty_view_ = view.number;
    }
    node_had_members_ = node_had_members_ || members > 0;
    if (!view.empty() && members == 0) {
      members_elsewhere = !home() || (on_other_nodes(view) && others_.any_alive(view));
      // The survivors, or the home launcher if there are none, will exclude this node's dead
      // workers. Until then newcomers would only find their remains.
      if (members_elsewhere && member_here(view) != nullptr) return "";
    }
    if (!view.empty() && members == 0 && !members_elsewhere) {
      // All workers with the state are gone. Newcomers cannot continue alone.
      processes_.end_all();
      const Status cleared = clear_view("restart");
      if (!cleared.ok()) return cleared.error().message;
      const bool failed =
          std::any_of(view.members.begin(), view.members.end(), [&](const Member& m) {
            const auto end = ends_.find(m.address.id);
            return end != ends_.end() && end->second.failed;
          });
      if (!failed) note_failure(std::nullopt, "all workers were killed");
      ends_.clear();
      return "";
    }
    if (target.stop) return stop_who_has_nothing(view);
    const int useful = most_workers();
    int wanted = std::min(target.on_node(node(), settings_.home), useful) + settings_.spares;
    for (const int worker : target.migrate) {
      const Member* const member = view.find(worker);
      wanted += member != nullptr && member->address.node == node() ? 1 : 0;
    }
    if (target.workers > useful) note_surplus(target.workers, useful);
    int missing = wanted - members - joining;
    if (ties_.tied()) {
      missing = ties_.hold(view, wanted, processes_);
    } else if (target.workers > useful) {
      end_newcomers(view, -missing);
    }
    if ((members > 0 || members_elsewhere) && steady_clock::now() < next_start_) return "";
    const Status possible = missing > 0 ? check_start() : ok_status();
    if (!possible.ok()) {
      if (members == 0 && !members_elsewhere) return possible.error().message;
      note_failure(std::nullopt, possible.error().message);
      wait_before_next_start();
      return "";
    }
    for (; missing > 0; --missing) {
      const Status started = start_worker();
      if (!started.ok()) return started.error().message;
    }
    return "";
  }

  // The largest useful number of workers: that of the logical workers, once it is known.
  int most_workers() {
    if (settings_.logical_workers > 0) return settings_.logical_workers;
    if (!program_workers_) program_workers_ = agreed_logical_workers(*registry_);
    return program_workers_.value_or(kMaxWorkers);
  }

  // Warns that some workers would have nothing to do; once per number of workers.
  void note_surplus(int workers, int useful) {
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
  void end_newcomers(const View& view, int surplus) {
    for (const WorkerProcess& process : processes_.all()) {
      if (surplus <= 0) return;
      if (process.was_member || view.find(process.worker) != nullptr) continue;
      WorkerProcesses::send(process, SIGKILL);
      --surplus;
    }
  }

  // During an orderly stop, members finish a step and write a checkpoint. Newcomers have nothing to
  // save. Neither has a job that has not completed a step since it was started.
  std::string stop_who_has_nothing(const View& view) {
    const bool before_first_step = home() && !view.empty() && !on_other_nodes(view) &&
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

  static steady_clock::duration node_patience(const JobSettings& settings) {
    return std::max<steady_clock::duration>(
        std::chrono::seconds(3),
        std::chrono::duration_cast<steady_clock::duration>(
            std::chrono::duration<double>(3 * settings.failure_timeout_s)));
  }

  bool on_other_nodes(const View& view) const {
    return std::any_of(view.members.begin(), view.members.end(),
                       [&](const Member& member) { return member.address.node != node(); });
  }

  // Nobody starts workers on a node whose launcher is gone, so the job must not wait for them.
  void forget_gone_nodes(const Target& target) {
    if (target.elsewhere.empty() || steady_clock::now() - last_beat_ < kNodeBeat) return;
    last_beat_ = steady_clock::now();
    others_.look();
    for (const auto& [name, count] : target.elsewhere) {
      if (others_.launcher_alive(name)) continue;
      static_cast<void>(change_target(*registry_, [&gone = name](Target& now) {
        const auto found = now.elsewhere.find(gone);
        if (found == now.elsewhere.end()) return ok_status();
        now.workers = std::max(1, now.workers - found->second);
        now.elsewhere.erase(found);
        return ok_status();
      }));
      others_.forget(name);
    }
  }

  // Newcomers that cannot reach the job do not learn that it has finished.
  void end_unheard_newcomers() {
    const auto now = steady_clock::now();
    if (!finished_since_) finished_since_ = now;
    if (now - *finished_since_ < node_patience(settings_)) return;
    for (const WorkerProcess& process : processes_.all()) {
      if (!process.was_member) WorkerProcesses::send(process, SIGKILL);
    }
  }

  // The heartbeat for the job's home launcher.
  void beat() {
    std::vector<int> alive;
    for (const WorkerProcess& process : processes_.all()) alive.push_back(process.worker);
    const auto now = steady_clock::now();
    if (node_status_.beat > 0 && alive == node_status_.workers && now - last_beat_ < kNodeBeat)
      return;
    last_beat_ = now;
    node_status_.workers = std::move(alive);
    node_status_.beat =
        std::max(node_status_.beat + 1, static_cast<std::int64_t>(unix_seconds() * 1000));
    static_cast<void>(write_node_status(folder_, node(), node_status_));
  }

  void note_progress(const View& view) {
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
      failures_ = 0;
    }
  }

  Status check_start() const {
    const ProcessOptions& processes = options_.processes;
    if (!processes.directory.empty()) {
      Status found = check_directory(processes.directory);
      if (!found.ok()) return found;
    }
    return check_program(settings_.command, processes.directory,
                         search_path_with(processes.environment));
  }

  Status start_worker() {
    const Result<int> worker = next_worker_id(*registry_);
    if (!worker.ok()) return worker.error();
    if (board_number_ < 0) board_number_ = *worker;
    processes_.set_variable(kBoardVariable, std::to_string(board_number_));
    return processes_.start(*worker, ties_.free_device(processes_));
  }

  struct WorkerEnd {
    std::string how{};
    bool failed = false;  // and may fail again; a killed worker was killed by somebody
  };
  WorkerEnd describe_end(int worker, int status, const Result<View>& view) const {
    if (!WIFEXITED(status)) {
      const int signal = WTERMSIG(status);
      if (signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
        return {.how = fmt::format("killed by signal {}", signal)};
      }
      return {.how = fmt::format("crashed: {}", strsignal(signal)), .failed = true};
    }
    if (WEXITSTATUS(status) == kWorkerDone) {
      // A normal end, unless the worker is expected to train: then the program ended in the middle
      // of a step.
      const bool trains =
          !is_file(folder_.result_file()) && view.ok() && view->find(worker) != nullptr;
      return {.how = "ended in the middle of training", .failed = trains};
    }
    return {.how = fmt::format("ended with code {}", WEXITSTATUS(status)),
            .failed = WEXITSTATUS(status) != kWorkerExcluded};
  }

  void note_end(const WorkerProcesses::End& end) {
    const WorkerProcess& child = end.process;
    const Result<View> view = newest_view(*registry_);
    // Count the steps since the last look. Otherwise the next start would seem to get further.
    if (view.ok()) note_progress(*view);
    const WorkerEnd known = describe_end(child.worker, end.status, view);
    // A worker may have joined and ended since the last look.
    const bool member = child.was_member || (view.ok() && view->find(child.worker) != nullptr);
    if (member) ends_[child.worker] = known;
    if (!known.failed) return;
    const std::string log = folder_.log_file(child.worker);
    std::string words = last_line(log);
    if (words.empty()) words = fmt::format("no output in {}", log);
    note_failure(child.worker, fmt::format("{} (worker {} {})", words, child.worker, known.how));
    if (!member) wait_before_next_start();
  }

  // The one place that counts: as many failures as there are events of them.
  void note_failure(std::optional<int> worker, const std::string& reason) {
    ++failures_;
    last_failure_ = reason;
    nlohmann::json event = {{"type", "failed"}, {"reason", reason}};
    if (worker) event["worker"] = *worker;
    static_cast<void>(folder_.append_event(event));
  }

  void wait_before_next_start() {
    pause_ = std::min<steady_clock::duration>(
        pause_ == steady_clock::duration::zero() ? kFirstPause : 2 * pause_, kLongestPause);
    next_start_ = steady_clock::now() + pause_;
  }

  void tell_lost(const View& view, std::int64_t next_view, const std::string& reason) const {
    for (const Member& member : view.members) {
      const auto end = ends_.find(member.address.id);
      static_cast<void>(
          folder_.append_event({{"type", "lost"},
                                {"worker", member.address.id},
                                {"view", next_view},
                                {"reason", end == ends_.end() ? reason : end->second.how}}));
    }
  }

  // Writes status.json if its content has changed.
  void write_status(const std::string& message) {
    if (!home()) return;
    nlohmann::json newcomers = nlohmann::json::array();
    nlohmann::json workers = nlohmann::json::array();
    for (const WorkerProcess& process : processes_.all()) {
      workers.push_back({{"id", process.worker}, {"pid", process.pid}, {"device", process.device}});
      // For 'rubato ps': spares and other workers that have not joined yet.
      if (!process.was_member) {
        newcomers.push_back({{"id", process.worker}, {"pid", process.pid}});
      }
    }
    nlohmann::json status = {{"state", state_},           {"pid", getpid()},
                             {"message", message},        {"newcomers", newcomers},
                             {"workers", workers},        {"target", ties_.target_version()},
                             {"devices", ties_.devices()}};
    if (state_ != "running") status["step"] = last_step_ + 1;
    if (status == status_) return;
    const std::string text = compact_json(status) + "\n";
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
  DeviceTies ties_;
  NodeWatch others_;
  std::map<std::string, std::int64_t> first_beats_;
  NodeStatus node_status_;  // this node's, if it is not the home node
  steady_clock::time_point last_beat_;
  int board_number_ = -1;
  bool node_had_members_ = false;
  std::int64_t last_empty_view_ = 0;
  std::optional<steady_clock::time_point> finished_since_;
  std::map<int, WorkerEnd> ends_;  // of former members, since the job was last started
  int failures_ = 0;               // since the job last made progress
  std::string last_failure_;
  steady_clock::duration pause_{};  // between starts, after failed newcomers
  steady_clock::time_point next_start_;
  std::optional<Board> board_;
  std::string board_name_;
  std::int64_t last_step_ = -1;
  std::size_t events_shown_ = 0;
  std::optional<int> program_workers_;  // logical ones, of a job whose owner gave no number
  int noted_surplus_ = 0;
  std::string state_ = "running";
  nlohmann::json status_;  // as last written

 public:
  void hide_earlier_events() {
    const Result<std::string> text = read_file(folder_.events_file());
    if (text.ok()) events_shown_ = text->size();
  }
};

// Refuses to continue a job with another number of logical workers.
Status check_logical_workers(const LaunchOptions& options, const JobSettings& before,
                             Registry& registry) {
  const int asked = options.settings.logical_workers;
  if (before.adaptive || asked == before.logical_workers) return ok_status();
  const int agreed = before.logical_workers > 0 ? before.logical_workers
                                                : agreed_logical_workers(registry).value_or(asked);
  if (asked == agreed) return ok_status();
  return invalid_input(
      fmt::format("{}: holds a job with {} logical workers; continue it with --logical {} or "
                  "choose another folder",
                  options.folder, agreed, agreed));
}

// One launcher per node and job: the lock ends with the process.
Result<Descriptor> lock_node(const JobFolder& folder, const std::string& node) {
  Status made = make_directories(folder.path() + "/nodes");
  if (!made.ok()) return made.error();
  const std::string path = fmt::format("{}/nodes/{}.lock", folder.path(), node);
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno))};
  }
  // A worker that a killed launcher was about to start holds the lock until it runs.
  bool locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  for (const auto began = steady_clock::now();
       !locked && steady_clock::now() - began < kLockPatience;) {
    std::this_thread::sleep_for(kLook);
    locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }
  if (!locked) {
    return invalid_input(
        fmt::format("{}: node '{}' already has workers of this job; use 'rubato scale' or another "
                    "--node",
                    folder.path(), node));
  }
  return file;
}

std::string random_token() {
  return fmt::format("{:x}{:x}", getpid(), steady_clock::now().time_since_epoch().count());
}

}  // namespace

Result<LaunchResult> launch(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  Status made = make_directories(options.folder + "/logs");
  if (!made.ok()) return made.error();
  const Result<Descriptor> lock = lock_node(folder, options.node.name);
  if (!lock.ok()) return lock.error();
  JobSettings settings = options.settings;
  settings.command = options.command;
  settings.first_workers = options.workers;
  if (settings.adaptive) settings.logical_workers = settings.max_workers;
  settings.home = options.node.name;
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
    const auto known = FileRegistry::open(folder.registry_folder());
    if (!known.ok()) return known.error();
    Status same = check_logical_workers(options, *before, **known);
    if (!same.ok()) return same.error();
    if (!before->home.empty() && before->home != settings.home) {
      return invalid_input(
          fmt::format("{}: holds a job of node '{}'; continue it there, or with --node {}",
                      options.folder, before->home, before->home));
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
  if (options.listed) {
    Status registered = register_job(settings.name, options.folder);
    if (!registered.ok()) return registered.error();
  }
  FileRegistry& records = **registry;
  Launcher launcher(options, settings, std::move(*registry));
  if (continued) {
    launcher.hide_earlier_events();
    const Result<bool> trains = launcher.trains_elsewhere();
    if (!trains.ok()) return trains.error();
    if (!*trains) {
      Status cleared = launcher.clear_view("restart", "gone with its launcher");
      if (!cleared.ok()) return cleared.error();
    }
    // Also the memory of newcomers without a view.
    remove_segments(node_prefix(settings.token, options.node.name));
  }
  if (!options.keep_target) {
    Status targeted = change_target(records, [&](Target& target) {
      target = {.workers = options.workers,
                .batch = target.batch,
                .elsewhere = target.elsewhere,
                .at = unix_seconds()};
      for (const auto& [node, count] : target.elsewhere) target.workers += count;
      return ok_status();
    });
    if (!targeted.ok()) return targeted.error();
  }
  return launcher.run();
}

Result<LaunchResult> join(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  const Result<Descriptor> lock = lock_node(folder, options.node.name);
  if (!lock.ok()) return lock.error();
  Result<JobSettings> settings = folder.read_settings();
  if (!settings.ok()) return settings.error();
  if (settings->home == options.node.name) {
    return invalid_input(fmt::format(
        "{}: '{}' is the node that started the job; use 'rubato scale' there or give this node "
        "another name with --node",
        options.folder, options.node.name));
  }
  if (settings->adaptive) {
    return invalid_input(
        fmt::format("{}: holds an adaptive job, which runs on one machine only; use 'rubato scale' "
                    "there or run it with --mode consistent",
                    options.folder));
  }
  settings->spares = 0;
  Result<std::unique_ptr<FileRegistry>> registry = FileRegistry::open(folder.registry_folder());
  if (!registry.ok()) return registry.error();
  Status targeted = change_target(**registry, [&](Target& target) {
    target.workers += options.workers - target.on_node(options.node.name, settings->home);
    target.elsewhere[options.node.name] = options.workers;
    target.at = unix_seconds();
    return ok_status();
  });
  if (!targeted.ok()) return targeted.error();
  Launcher launcher(options, *settings, std::move(*registry));
  launcher.hide_earlier_events();
  return launcher.run();
}

}  // namespace rubato::elastic
