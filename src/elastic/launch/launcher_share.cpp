// A launcher whose job may have workers on other nodes and no folder in common with them: what is
// different then, and launch_share().
//
// The launcher that founds the job has the newest checkpoint in its folder. As long as all workers
// were on this node, it begins the job again there when they are gone, as any launcher does. Once
// workers of other nodes took part (the folder's file `spread`), a newer checkpoint may be
// elsewhere, and whoever starts the launchers decides where the job begins again: it commits an
// empty view, which ends all of them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "base/file.h"
#include "elastic/job/checkpoint_place.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/interrupts.h"
#include "elastic/launch/launcher_loop.h"
#include "elastic/launch/lock_node.h"
#include "elastic/memory/shared_memory.h"
#include "elastic/transport/libcrypto.h"
#include "elastic/worker/worker.h"

namespace rubato::elastic {

namespace {

// The node of the leader may be slow to publish the result, or out of reach for a moment.
constexpr auto kResultPatience = std::chrono::seconds(10);

}  // namespace

bool Launcher::all_members_here(const View& view) const {
  return std::all_of(view.members.begin(), view.members.end(),
                     [&](const Member& member) { return member.address.node == node(); });
}

void Launcher::note_spread(const View& view) {
  if (spread_ || view.empty() || all_members_here(view)) return;
  spread_ = write_file(folder_.spread_file(), "").ok();
}

// Whoever looks at the job on this node finds its views in the folder's registry.
void Launcher::follow_views(const View& newest) {
  note_spread(newest);
  while (views_followed_ < newest.number) {
    const std::int64_t next = views_followed_ + 1;
    const auto view = registry_->at(kViewRecord, next);
    if (!view.ok() || !view->has_value()) return;
    if (!own_->compare_and_swap(kViewRecord, views_followed_, **view).ok()) return;
    views_followed_ = next;
  }
}

bool Launcher::given_up(const View& view) const {
  if (view.empty() && view.cause == "stop" && !processes_.empty()) return false;
  if (view.empty()) return view.number != founds_after_.value_or(-1);
  if (!spread_ || !all_members_here(view)) return false;
  return std::none_of(processes_.all().begin(), processes_.all().end(),
                      [&](const auto& process) { return view.find(process.worker) != nullptr; });
}

void Launcher::publish_result() {
  if (published_ || !is_file(folder_.result_file())) return;
  const Result<std::string> text = read_file(folder_.result_file());
  published_ = text.ok() && registry_->compare_and_swap(kResultRecord, 0, *text).ok();
}

// Another node may have the result.
bool Launcher::finished() {
  if (is_file(folder_.result_file())) return true;
  if (!shares() || finished_) return finished_;
  const Result<Record> result = registry_->get(kResultRecord);
  finished_ = result.ok() && result->version > 0;
  return finished_;
}

std::vector<WorkerProcesses::End> Launcher::ends_to_judge() {
  std::vector<WorkerProcesses::End> ends = processes_.reap();
  if (!ends.empty()) registry_->forget();  // they may have left with a view that is not known yet
  if (!shares()) return ends;
  const auto now = Clock::now();
  std::vector<WorkerProcesses::End> judged;
  const bool over = finished();
  for (WorkerProcesses::End& end : ends) {
    const bool done = WIFEXITED(end.status) && WEXITSTATUS(end.status) == kWorkerDone;
    if (done && !over) {
      postponed_.emplace_back(now, std::move(end));
    } else {
      judged.push_back(std::move(end));
    }
  }
  std::erase_if(postponed_, [&](auto& entry) {
    if (!over && now - entry.first < kResultPatience) return false;
    judged.push_back(std::move(entry.second));
    return true;
  });
  return judged;
}

Result<LaunchResult> launch_share(const LaunchOptions& options) {
  const JobFolder folder(options.folder);
  if (options.settings.encrypt) {
    const Status able = check_encryption();
    if (!able.ok()) return able.error();
  }
  for (const std::string& path : {options.folder + "/logs", folder.registry_folder()}) {
    const Status made = make_directories(path);
    if (!made.ok()) return made.error();
  }
  const Result<Descriptor> lock = lock_node(folder, options.node.name);
  if (!lock.ok()) return lock.error();
  JobSettings settings = options.settings;
  settings.command = options.command;
  settings.registry = kDaemonsRegistry;
  if (is_file(folder.settings_file())) {
    const Result<JobSettings> before = folder.read_settings();
    if (!before.ok()) return before.error();
    settings.token = before->token;
    settings.first_workers = before->first_workers;
    settings.home = before->home;
  } else if (!options.founds) {
    return Error{ErrorCode::kIo, fmt::format("{}: is missing", folder.settings_file())};
  }
  if (settings.token.empty()) settings.token = random_token();
  if (!is_file(folder.secret_file())) {
    const Status secret = folder.make_secret();
    if (!secret.ok()) return secret.error();
  }
  if (options.founds) settings.home = options.node.name;
  const Status linked = link_checkpoints(folder, settings.checkpoints);
  if (!linked.ok()) return linked.error();
  const Status written = folder.write_settings(settings);
  if (!written.ok()) return written.error();
  Result<std::unique_ptr<Registry>> registry = open_registry(folder, settings);
  if (!registry.ok()) return registry.error();
  Launcher launcher(options, settings, std::move(*registry));
  launcher.hide_earlier_events();
  remove_segments(node_prefix(settings.token, options.node.name));
  const Status begun = launcher.begin_share();
  if (!begun.ok()) return begun.error();
  return launcher.run();
}

// A supervisor that was killed comes back here, too. Its own workers are gone.
Status Launcher::begin_share() {
  // A daemon that has just started may not know yet that the job is on this node.
  Result<View> view = newest_view(*registry_);
  while (!view.ok() && can_wait_for(view.error()) && interrupts() == 0 &&
         !(options_.abandoned && options_.abandoned())) {
    std::this_thread::sleep_for(kLauncherLook);
    view = newest_view(*registry_);
  }
  if (!view.ok()) return view.error();
  const Result<Record> known = own_->get(kViewRecord);
  if (!known.ok()) return known.error();
  views_followed_ = known->version;
  note_spread(*view);
  if (!options_.founds || (spread_ && !view->empty())) return ok_status();
  Status cleared = clear_view("restart", "gone with its launcher");
  if (!cleared.ok()) return cleared;
  const Result<View> empty = newest_view(*registry_);
  if (!empty.ok()) return empty.error();
  if (!empty->empty()) return ok_status();
  founds_after_ = empty->number;
  return ok_status();
}

}  // namespace rubato::elastic
