#include "elastic/launch/launcher_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/job/event_text.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/interrupts.h"
#include "elastic/memory/shared_memory.h"

namespace rubato::elastic {

namespace {

// After this, an event tells that the registry does not answer.
constexpr auto kRegistryPatience = std::chrono::seconds(5);

std::chrono::steady_clock::duration node_patience(const JobSettings& settings) {
  using std::chrono::steady_clock;
  return std::max<steady_clock::duration>(
      std::chrono::seconds(3), std::chrono::duration_cast<steady_clock::duration>(
                                   std::chrono::duration<double>(3 * settings.failure_timeout_s)));
}

}  // namespace

Launcher::Launcher(const LaunchOptions& options, JobSettings settings,
                   std::unique_ptr<Registry> registry)
    : options_(options),
      settings_(std::move(settings)),
      folder_(options.folder),
      registry_(std::make_unique<RememberedRegistry>(std::move(registry))),
      own_(is_spread(settings_) ? std::make_unique<FileRegistry>(folder_.registry_folder())
                                : nullptr),
      spread_(shares() && is_file(folder_.spread_file())),
      processes_(folder_, options.processes, settings_.command),
      ties_(options.processes.term_after_s, options.processes.kill_after_s),
      others_(folder_, options.node.name, node_patience(settings_)),
      ordinary_(folder_, {.grace_s = settings_.grace_s, .stated = false}),
      failures_(options.processes.retry_after_s) {
  processes_.set_variable("RUBATO_CONSISTENCY", settings_.consistency);
  processes_.set_variable(kNodeVariable, node());
  processes_.set_variable(kListenVariable, options.node.listen);
  static_cast<void>(speaks());
}

LaunchResult Launcher::run() {
  count_interrupts();
  LaunchResult result = watch();
  processes_.end_all();
  processes_.end_warm_parent();
  remove_segments(prefix());
  state_ = result.state == LaunchResult::State::kFinished  ? "finished"
           : result.state == LaunchResult::State::kStopped ? "stopped"
           : result.state == LaunchResult::State::kGone    ? "gone"
           : interrupts() >= 2                             ? "killed"
                                                           : "failed";
  write_status(result.message);
  if (!writes_status()) remove_node_status(folder_, node());
  print_new_events();
  return result;
}

Result<bool> Launcher::trains_elsewhere() {
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
    std::this_thread::sleep_for(kLauncherLook);
  }
}

Status Launcher::clear_view(const std::string& cause, const std::string& reason) {
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
  if (*won && shares()) founds_after_ = empty.number;
  if (*won && cause == "restart") tell_lost(*latest, empty.number, reason);
  remove_segments(prefix());
  return ok_status();
}

void Launcher::hide_earlier_events() {
  const Result<std::string> text = read_file(folder_.events_file());
  if (text.ok()) events_shown_ = text->size();
}

std::string Launcher::prefix() const { return node_prefix(settings_.token, node()); }

const Member* Launcher::member_here(const View& view) const {
  const auto found =
      std::find_if(view.members.begin(), view.members.end(),
                   [&](const Member& member) { return member.address.node == node(); });
  return found == view.members.end() ? nullptr : &*found;
}

bool Launcher::on_other_nodes(const View& view) const {
  return std::any_of(view.members.begin(), view.members.end(),
                     [&](const Member& member) { return member.address.node != node(); });
}

LaunchResult Launcher::watch() {
  const auto give_up = [](std::string message) {
    return LaunchResult{LaunchResult::State::kFailed, std::move(message)};
  };
  write_status("");
  // The program may have been mended.
  if (writes_status()) std::remove(folder_.hopeless_file().c_str());
  bool stop_asked = false;
  if (home() && !speaks()) {
    const Result<std::optional<LaunchResult>> over = ordinary_.resume();
    if (!over.ok()) return give_up(over.error().message);
    if (over->has_value()) return **over;
  }
  for (;;) {
    for (const WorkerProcesses::End& end : ends_to_judge()) {
      if (std::optional<LaunchResult> over = note_end(end)) return *over;
    }
    processes_.limit_logs();
    print_new_events();
    if (shares()) publish_result();
    if (finished()) {
      if (processes_.empty()) return {LaunchResult::State::kFinished, ""};
      end_unheard_newcomers();
    }
    if (!is_file(folder_.settings_file())) return give_up("the folder of the job is gone");
    if (interrupts() >= 2) return give_up("killed by a second interrupt");
    if (options_.abandoned && options_.abandoned()) return give_up("whoever started it is gone");
    if (interrupts() == 1 && !stop_asked) {
      const Status asked = ask_for_stop();
      stop_asked = asked.ok() || !can_wait_for(asked.error());
    }
    if (!writes_status()) beat();
    Result<View> view = newest_view(*registry_);
    std::int64_t version = 0;
    Result<Target> target = newest_target(targets(), &version);
    if (!view.ok() || !target.ok()) {
      const Error& error = view.ok() ? target.error() : view.error();
      if (!can_wait_for(error)) return give_up(error.message);
      std::this_thread::sleep_for(kLauncherLook);
      continue;
    }
    away_since_.reset();
    told_away_ = false;
    if (writes_status()) ties_.obey(version, target->devices);
    if (shares()) follow_views(*view);
    if (target->stop && processes_.empty()) {
      return {LaunchResult::State::kStopped,
              fmt::format("stopped before step {}", view->first_step)};
    }
    if (stop_asked && !home() && processes_.empty()) {
      return {LaunchResult::State::kStopped, fmt::format("node {} has left the job", node())};
    }
    if (home() && !shares()) forget_gone_nodes(*target);
    if (shares() && !finished() && given_up(*view)) {
      return {LaunchResult::State::kGone, "all workers of the job are gone"};
    }
    if (!finished()) {
      std::string problem = keep_alive(*view, *target);
      if (!problem.empty()) return give_up(std::move(problem));
    }
    write_status("");
    std::this_thread::sleep_for(kLauncherLook);
  }
}

// The workers go on without a registry; only that something changes has to wait.
bool Launcher::can_wait_for(const Error& error) {
  const bool may_pass = error.code == ErrorCode::kIo || error.code == ErrorCode::kRefused;
  if (!registry_->may_be_away() || !may_pass) return false;
  const auto now = Clock::now();
  if (!away_since_) away_since_ = now;
  if (told_away_ || now - *away_since_ < kRegistryPatience) return true;
  told_away_ = true;
  static_cast<void>(folder_.append_event(
      {{"type", "warning"},
       {"at", unix_seconds()},
       {"message", fmt::format("the job's registry does not answer: {}; the job cannot change its "
                               "workers until it does",
                               error.message)}}));
  return true;
}

Status Launcher::ask_for_stop() {
  return change_target(targets(), [&](Target& target) {
    if (writes_status()) {
      target.stop = true;
    } else {
      target.workers = std::max(1, target.workers - target.on_node(node(), settings_.home));
      target.elsewhere.erase(node());
    }
    return ok_status();
  });
}

// Nobody starts workers on a node whose launcher is gone, so the job must not wait for them.
void Launcher::forget_gone_nodes(const Target& target) {
  if (target.elsewhere.empty() || Clock::now() - last_beat_ < kNodeBeat) return;
  last_beat_ = Clock::now();
  others_.look();
  for (const auto& [name, count] : target.elsewhere) {
    if (others_.launcher_alive(name)) continue;
    static_cast<void>(change_target(*registry_, [&, &gone = name](Target& now) {
      now.workers = std::max(1, now.workers - now.on_node(gone, settings_.home));
      now.elsewhere.erase(gone);
      return ok_status();
    }));
    others_.forget(name);
  }
}

// Newcomers that cannot reach the job do not learn that it has finished.
void Launcher::end_unheard_newcomers() {
  const auto now = Clock::now();
  if (!finished_since_) finished_since_ = now;
  if (now - *finished_since_ < node_patience(settings_)) return;
  for (const WorkerProcess& process : processes_.all()) {
    if (!process.was_member) processes_.send(process.worker, SIGKILL);
  }
}

// The heartbeat for the job's home launcher.
void Launcher::beat() {
  std::vector<int> alive;
  for (const WorkerProcess& process : processes_.all()) alive.push_back(process.worker);
  const auto now = Clock::now();
  if (node_status_.beat > 0 && alive == node_status_.workers && now - last_beat_ < kNodeBeat)
    return;
  last_beat_ = now;
  node_status_.workers = std::move(alive);
  node_status_.beat =
      std::max(node_status_.beat + 1, static_cast<std::int64_t>(unix_seconds() * 1000));
  static_cast<void>(write_node_status(folder_, node(), node_status_));
}

void Launcher::tell_lost(const View& view, std::int64_t next_view,
                         const std::string& reason) const {
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
void Launcher::write_status(const std::string& message) {
  if (!writes_status()) return;
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
  if (shares()) {
    status["view"] = views_followed_;
    status["members"] = std::count_if(processes_.all().begin(), processes_.all().end(),
                                      [](const auto& process) { return process.was_member; });
  }
  if (state_ != "running") status["step"] = last_step_ + 1;
  if (status == status_) return;
  const std::string text = compact_json(status) + "\n";
  if (write_file(folder_.status_file(), text).ok()) status_ = std::move(status);
}

void Launcher::print_new_events() {
  if (options_.quiet) return;
  const Result<std::string> text =
      is_file(folder_.events_file()) ? read_file(folder_.events_file()) : std::string();
  if (!text.ok() || text->size() <= events_shown_) return;
  std::string_view fresh = std::string_view(*text).substr(events_shown_);
  for (std::size_t end = fresh.find('\n'); end != std::string_view::npos; end = fresh.find('\n')) {
    fmt::print(stderr, "{}\n", describe_event(fresh.substr(0, end)));
    events_shown_ += end + 1;
    fresh.remove_prefix(end + 1);
  }
}

}  // namespace rubato::elastic
