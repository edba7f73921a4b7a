#include "elastic/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/file.h"
#include "elastic/board.h"
#include "elastic/descriptor.h"
#include "elastic/event_text.h"
#include "elastic/node_status.h"
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

struct Child {
  int worker = 0;
  pid_t pid = 0;
  bool was_member = false;
};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, JobSettings settings,
           std::unique_ptr<FileRegistry> registry)
      : options_(options),
        settings_(std::move(settings)),
        folder_(options.folder),
        registry_(std::move(registry)),
        others_(folder_, options.node.name, node_patience(settings_)) {
    const Result<Consistency> level = parse_consistency(settings_.consistency);
    if (level.ok()) pinned_ = pinned_variables(*level);
  }

  LaunchResult run() {
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    LaunchResult result = watch();
    end_all_children();
    remove_segments(prefix());
    const char* state = result.state == LaunchResult::State::kFinished  ? "finished"
                        : result.state == LaunchResult::State::kStopped ? "stopped"
                                                                        : "failed";
    write_status(state, result.message);
    if (!home()) remove_node_status(folder_, node());
    print_new_events();
    return result;
  }

  // Whether members of the newest view live on other nodes. It takes a while to be sure that they
  // do not.
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
  // Nobody of an earlier launch is alive: whatever view is there is history.
  Status clear_view(const std::string& cause) {
    Result<View> latest = newest_view(*registry_);
    if (!latest.ok()) return latest.error();
    if (latest->number == 0 || latest->empty()) return ok_status();
    View empty{.number = latest->number + 1, .first_step = latest->first_step, .cause = cause};
    if (const Member* member = member_here(*latest)) {
      const Result<Board> board = Board::open(member->address.board);
      if (board.ok()) empty.first_step = board->completed() + 1;
    }
    const Result<bool> won =
        registry_->compare_and_swap(kViewRecord, latest->number, to_json(empty).dump());
    if (!won.ok()) return won.error();
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
    write_status("running", "");
    bool stop_asked = false;
    for (;;) {
      reap();
      print_new_events();
      if (is_file(folder_.result_file())) {
        if (children_.empty()) return {LaunchResult::State::kFinished, ""};
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
      Result<Target> target = newest_target(*registry_);
      if (!view.ok()) return {LaunchResult::State::kFailed, view.error().message};
      if (!target.ok()) return {LaunchResult::State::kFailed, target.error().message};
      if (target->stop && children_.empty()) {
        return {LaunchResult::State::kStopped,
                fmt::format("stopped before step {}", view->first_step)};
      }
      if (stop_asked && !home() && children_.empty()) {
        return {LaunchResult::State::kStopped, fmt::format("node {} has left the job", node())};
      }
      if (home()) forget_gone_nodes(*target);
      if (!is_file(folder_.result_file())) {
        std::string problem = keep_alive(*view, *target);
        if (!problem.empty()) return {LaunchResult::State::kFailed, std::move(problem)};
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  // Starts what is missing. Returns why the job must be given up, or "".
  std::string keep_alive(const View& view, const Target& target) {
    int members = 0;
    int joining = 0;
    bool members_elsewhere = false;
    for (Child& child : children_) {
      const bool member = view.find(child.worker) != nullptr;
      if (member) {
        if (!child.was_member) pause_ = {};
        child.was_member = true;
        ++members;
      } else if (!child.was_member) {
        ++joining;
      }
    }
    note_newcomers();
    if (members > 0) note_progress(view);
    // As long as somebody trains, the job is well.
    if (members == 0 && failures_ >= kMostFailuresWithoutProgress) {
      return fmt::format("{} failures in a row without progress; the last one: {}", failures_,
                         last_failure_);
    }
    const bool begins_anew = view.empty() && view.number != last_empty_view_;
    if (begins_anew || (member_here(view) == nullptr && node_had_members_)) {
      // What is left of them does not share memory with those who come.
      node_had_members_ = false;
      board_number_ = -1;
      if (view.empty()) last_empty_view_ = view.number;
    }
    node_had_members_ = node_had_members_ || members > 0;
    if (!view.empty() && members == 0) {
      members_elsewhere = !home() || (on_other_nodes(view) && others_.any_alive(view));
      // The survivors, or the first launcher when there are none, will exclude the dead of this
      // node; newcomers would only meet what is left of them.
      if (members_elsewhere && member_here(view) != nullptr) return "";
    }
    if (!view.empty() && members == 0 && !members_elsewhere) {
      // Everybody who had the state is gone. Newcomers cannot go on alone.
      end_all_children();
      const Status cleared = clear_view("restart");
      if (!cleared.ok()) return cleared.error().message;
      failures_ += 1;
      if (last_failure_.empty()) last_failure_ = "all workers were killed";
      return "";
    }
    if (target.stop) return "";
    if ((members > 0 || members_elsewhere) && steady_clock::now() < next_start_) return "";
    int wanted = std::min(target.on_node(node(), settings_.home), settings_.logical_workers) +
                 settings_.spares;
    for (const int worker : target.migrate) {
      const Member* const member = view.find(worker);
      wanted += member != nullptr && member->address.node == node() ? 1 : 0;
    }
    for (int missing = wanted - members - joining; missing > 0; --missing) {
      std::string problem = start_worker();
      if (!problem.empty()) return problem;
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

  // Nobody starts workers on a node whose launcher is gone; the job must not wait for them.
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

  // Newcomers that cannot reach the job do not hear that it has finished.
  void end_unheard_newcomers() {
    const auto now = steady_clock::now();
    if (!finished_since_) finished_since_ = now;
    if (now - *finished_since_ < node_patience(settings_)) return;
    for (const Child& child : children_) {
      if (!child.was_member) kill(child.pid, SIGKILL);
    }
  }

  // For the first launcher of the job.
  void beat() {
    std::vector<int> alive;
    for (const Child& child : children_) alive.push_back(child.worker);
    const auto now = steady_clock::now();
    if (status_.beat > 0 && alive == status_.workers && now - last_beat_ < kNodeBeat) return;
    last_beat_ = now;
    status_.workers = std::move(alive);
    status_.beat = std::max(status_.beat + 1, static_cast<std::int64_t>(unix_seconds() * 1000));
    static_cast<void>(write_node_status(folder_, node(), status_));
  }

  // For 'rubato ps': spares, and others that have not come in yet.
  void note_newcomers() {
    nlohmann::json now = nlohmann::json::array();
    for (const Child& child : children_) {
      if (!child.was_member) now.push_back({{"id", child.worker}, {"pid", child.pid}});
    }
    if (now == newcomers_) return;
    newcomers_ = std::move(now);
    write_status("running", "");
  }

  void note_progress(const View& view) {
    const std::string& name = member_here(view)->address.board;
    if (name != board_name_) {
      board_.reset();
      Result<Board> board = Board::open(name);
      if (!board.ok()) return;
      board_.emplace(std::move(*board));
      board_name_ = name;
    }
    // Steps that a restart repeats are no progress: a program that always fails at the same step
    // must not be restarted for ever.
    const std::int64_t step = board_->completed();
    if (step > last_step_) {
      last_step_ = step;
      failures_ = 0;
    }
  }

  std::string start_worker() {
    const Result<int> id = next_worker_id(*registry_);
    if (!id.ok()) return id.error().message;
    const int worker = *id;
    if (board_number_ < 0) board_number_ = worker;
    const std::string board = std::to_string(board_number_);
    const std::string log = folder_.log_file(worker);
    std::vector<char*> arguments;
    for (const std::string& part : settings_.command) {
      arguments.push_back(const_cast<char*>(part.c_str()));
    }
    arguments.push_back(nullptr);
    const std::string number = std::to_string(worker);
    const pid_t launcher = getpid();
    const pid_t pid = fork();
    if (pid < 0) return fmt::format("cannot start a worker: {}", std::strerror(errno));
    if (pid == 0) {
      // At once, not when the program has loaded: a worker that outlived its launcher while loading
      // would come into the job's next life.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != launcher) _exit(kWorkerExcluded);
      setpgid(0, 0);  // Ctrl-C reaches the launcher, which stops the workers in order
      setenv(kJobFolderVariable, folder_.path().c_str(), 1);
      setenv(kWorkerVariable, number.c_str(), 1);
      setenv(kNodeVariable, node().c_str(), 1);
      setenv(kListenVariable, options_.node.listen.c_str(), 1);
      setenv(kBoardVariable, board.c_str(), 1);
      setenv("RUBATO_CONSISTENCY", settings_.consistency.c_str(), 1);
      for (const auto& [name, value] : pinned_) setenv(name.c_str(), value.c_str(), 1);
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      if (out >= 0) {
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
      }
      execvp(arguments[0], arguments.data());
      dprintf(STDERR_FILENO, "rubato: cannot start %s: %s\n", arguments[0], std::strerror(errno));
      _exit(127);
    }
    children_.push_back({.worker = worker, .pid = pid});
    return "";
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      const auto found = std::find_if(children_.begin(), children_.end(),
                                      [&](const Child& child) { return child.pid == pid; });
      if (found == children_.end()) continue;
      const Child child = *found;
      children_.erase(found);
      note_end(child, status);
    }
  }

  void note_end(const Child& child, int status) {
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
    last_failure_ = fmt::format("{} (worker {} {})", last_line(folder_.log_file(child.worker)),
                                child.worker, how);
    static_cast<void>(folder_.append_event(
        {{"type", "failed"}, {"worker", child.worker}, {"reason", last_failure_}}));
    if (child.was_member) return;
    pause_ = std::min<steady_clock::duration>(
        pause_ == steady_clock::duration::zero() ? kFirstPause : 2 * pause_, kLongestPause);
    next_start_ = steady_clock::now() + pause_;
  }

  static std::string last_line(const std::string& path) {
    const Result<std::string> text = read_file(path);
    if (!text.ok()) return text.error().message;
    std::string_view rest = *text;
    while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
    const std::size_t start = rest.rfind('\n');
    if (start != std::string_view::npos) rest.remove_prefix(start + 1);
    return rest.empty() ? fmt::format("no output in {}", path) : std::string(rest);
  }

  void end_all_children() {
    for (const Child& child : children_) kill(child.pid, SIGKILL);
    for (const Child& child : children_) {
      int status = 0;
      waitpid(child.pid, &status, 0);
    }
    children_.clear();
  }

  void write_status(const std::string& state, const std::string& message) const {
    if (!home()) return;
    const nlohmann::json status = {
        {"state", state}, {"pid", getpid()}, {"message", message}, {"newcomers", newcomers_}};
    static_cast<void>(write_file(folder_.status_file(), status.dump() + "\n"));
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
  std::vector<Child> children_;
  NodeWatch others_;
  std::map<std::string, std::int64_t> first_beats_;
  NodeStatus status_;  // of this node, when it is not the job's first
  steady_clock::time_point last_beat_;
  int board_number_ = -1;
  bool node_had_members_ = false;
  std::int64_t last_empty_view_ = 0;
  std::optional<steady_clock::time_point> finished_since_;
  int failures_ = 0;  // since the job last made progress
  std::string last_failure_;
  steady_clock::duration pause_{};  // after newcomers that failed
  steady_clock::time_point next_start_;
  std::optional<Board> board_;
  std::string board_name_;
  std::int64_t last_step_ = -1;
  std::size_t events_shown_ = 0;
  nlohmann::json newcomers_ = nlohmann::json::array();
  // Set by the launcher, so that a worker need not execute itself anew.
  std::vector<std::pair<std::string, std::string>> pinned_;

 public:
  void hide_earlier_events() {
    const Result<std::string> text = read_file(folder_.events_file());
    if (text.ok()) events_shown_ = text->size();
  }
};

// One launcher per node and job: a lock that ends with the process.
Result<Descriptor> lock_node(const JobFolder& folder, const std::string& node) {
  Status made = make_directories(folder.path() + "/nodes");
  if (!made.ok()) return made.error();
  const std::string path = fmt::format("{}/nodes/{}.lock", folder.path(), node);
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno))};
  }
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return invalid_input(
        fmt::format("{}: node '{}' has workers of this job already; use 'rubato scale', or another "
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
  settings.home = options.node.name;
  const bool continued = is_file(folder.settings_file());
  if (is_file(folder.result_file())) {
    return invalid_input(fmt::format(
        "{}: holds a finished job; choose another folder with --dir or remove it", options.folder));
  }
  if (continued) {
    Result<JobSettings> before = folder.read_settings();
    if (!before.ok()) return before.error();
    if (before->logical_workers != settings.logical_workers) {
      return invalid_input(
          fmt::format("{}: holds a job with {} logical workers; continue it with --logical {} or "
                      "choose another "
                      "folder",
                      options.folder, before->logical_workers, before->logical_workers));
    }
    if (before->home != settings.home) {
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
  Status registered = register_job(settings.name, options.folder);
  if (!registered.ok()) return registered.error();
  FileRegistry& records = **registry;
  Launcher launcher(options, settings, std::move(*registry));
  if (continued) {
    launcher.hide_earlier_events();
    const Result<bool> trains = launcher.trains_elsewhere();
    if (!trains.ok()) return trains.error();
    if (!*trains) {
      Status cleared = launcher.clear_view("restart");
      if (!cleared.ok()) return cleared.error();
    }
    // Of newcomers without a view, too.
    remove_segments(node_prefix(settings.token, options.node.name));
  }
  Status targeted = change_target(records, [&](Target& target) {
    target = {.workers = options.workers, .elsewhere = target.elsewhere, .at = unix_seconds()};
    for (const auto& [node, count] : target.elsewhere) target.workers += count;
    return ok_status();
  });
  if (!targeted.ok()) return targeted.error();
  return launcher.run();
}

Result<LaunchResult> join(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  const Result<Descriptor> lock = lock_node(folder, options.node.name);
  if (!lock.ok()) return lock.error();
  Result<JobSettings> settings = folder.read_settings();
  if (!settings.ok()) return settings.error();
  if (settings->home == options.node.name) {
    return invalid_input(
        fmt::format("{}: '{}' is the job's first node; use 'rubato scale' there, or give this node "
                    "another name with --node",
                    options.folder, options.node.name));
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
