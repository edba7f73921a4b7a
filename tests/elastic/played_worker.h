// Workers without processes: real coordinators of several nodes in the test's process, whose
// training threads the test plays. The test thus chooses the moment at which something happens to a
// step. Use at most one member per node, or let all of them finish() before any is destroyed: a
// coordinator may have to end a lost worker of its own node.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/check.h"
#include "elastic/data/exchange.h"
#include "elastic/job_runner.h"
#include "elastic/memory/shared_memory.h"
#include "elastic/transport/secret.h"
#include "elastic/worker/coordinator.h"

namespace rubato::elastic {

// What the workers of a job have in common; its home node is "a".
class PlayedJob {
 public:
  explicit PlayedJob(const std::map<std::string, int>& elsewhere) {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-played-XXXXXX").string();
    RUBATO_CHECK(mkdtemp(path.data()) != nullptr, "no folder");
    folder_ = path;
    settings_ = {.name = "played",
                 .token = std::filesystem::path(path).filename(),
                 .logical_workers = 4,
                 .home = "a",
                 .failure_timeout_s = 20};
    auto opened = FileRegistry::open(folder_ + "/registry");
    RUBATO_CHECK(opened.ok(), "no registry");
    registry_ = std::move(*opened);
    want(elsewhere);
  }
  PlayedJob(const PlayedJob&) = delete;
  PlayedJob& operator=(const PlayedJob&) = delete;
  ~PlayedJob() {
    remove_segments("rubato." + settings_.token + ".");
    std::filesystem::remove_all(folder_);
  }

  // Asks for `home` workers on the home node and these on others.
  void want(const std::map<std::string, int>& elsewhere, int home = 1) const {
    const Status targeted = change_target(*registry_, [&](Target& target) {
      target.workers = home;
      target.elsewhere = elsewhere;
      for (const auto& [node, count] : elsewhere) target.workers += count;
      return ok_status();
    });
    RUBATO_CHECK(targeted.ok(), "no target");
  }
  const JobSettings& settings() const { return settings_; }
  Registry& registry() const { return *registry_; }
  const ProgramShape& shape() const { return shape_; }
  View view() const { return *newest_view(*registry_); }

 private:
  std::string folder_;
  JobSettings settings_;
  std::unique_ptr<FileRegistry> registry_;
  ProgramShape shape_{.gradient_floats = 1000, .unit_bytes = {64}, .private_bytes = 8};
};

class PlayedWorker {
 public:
  using Event = TrainingPort::Event;

  PlayedWorker(const PlayedJob& job, int worker, const std::string& node, int board = -1)
      : PlayedWorker(job, worker, node, board, job.registry()) {}
  PlayedWorker(const PlayedJob& job, int worker, const std::string& node, int board,
               Registry& registry) {
    Result<WorkerSegment> made =
        WorkerSegment::create(worker_segment_name(job.settings().token, node, worker), job.shape(),
                              job.settings().logical_workers);
    RUBATO_CHECK(made.ok(), "no segment");
    auto started =
        Coordinator::start({.settings = job.settings(),
                            .worker = worker,
                            .shape = job.shape(),
                            .description = "played",
                            .fingerprint = {},
                            .founds_after = 0,
                            .logical_slots = job.settings().logical_workers,
                            .batches = BatchRule::consistent(job.settings().logical_workers, 1),
                            .data = std::nullopt,
                            .record = [](const nlohmann::json&) {},
                            .node = {.name = node, .board = board}},
                           registry, std::string(kSecretBytes, 's'),
                           std::make_shared<WorkerSegment>(std::move(*made)));
    RUBATO_CHECK(started.ok(), started.error().message.c_str());
    coordinator_ = std::move(*started);
  }

  Coordinator& coordinator() const { return *coordinator_; }
  TrainingPort& port() const { return coordinator_->port(); }
  const Board& board() const { return port().board(); }
  const ActiveView& view() const { return *view_; }

  // Whether this is the next event it receives.
  bool hears(Event event) const { return port().wait_event(kPatience) == event; }
  // Waits until the condition holds on its board.
  bool sees(const std::function<bool()>& condition) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    return board().wait(condition, [&] { return std::chrono::steady_clock::now() > end; });
  }
  bool begins() {
    if (!hears(Event::kStart)) return false;
    view_ = port().started_view();
    if (!view_) return begins();  // an earlier event has delivered it
    port().entered(view_);
    return true;
  }
  bool arrives(std::int64_t step) const {
    return port().publish([&] { view_->row().arrived = step; });
  }
  // Its slice of the gradient is `value` everywhere.
  bool reduces(std::int64_t step, float value) const {
    board().gradient_step(step) = -2 - step;
    std::fill(board().gradient(step) + view_->slice.begin,
              board().gradient(step) + view_->slice.end, value);
    return port().publish([&] { view_->row().reduced = step; });
  }
  // Completes the step here.
  bool finishes(std::int64_t step) const {
    return sees([&] { return view_->block->all_reduced(step); }) && port().publish([&] {
      board().gradient_step(step) = step;
      mark_completed(board(), step);
    });
  }
  // For the leader, before it arrives at the step: commits the next view to begin after it.
  bool commits(const PlayedJob& job, std::int64_t step) const {
    port().begins(step);
    const bool committed = sees([&] { return view_->block->announcement().view != 0; });
    port().before_arrival(step);
    return committed && job.view().number > view_->view.number;
  }
  // What follows the complete step here; enters the next view if there is one.
  TrainingPort::Next::Kind goes_on(std::int64_t step) {
    TrainingPort::Next next = port().after_step(*view_, step);
    if (next.kind == TrainingPort::Next::Kind::kSwitch) {
      view_ = std::move(next.view);
      port().entered(view_);
    }
    return next.kind;
  }
  bool has_reduced(int worker, std::int64_t step) const {
    const auto position = static_cast<std::size_t>(view_->view.position(worker));
    return view_->block->rows[position].reduced.load(std::memory_order_acquire) >= step;
  }

 private:
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<const ActiveView> view_;
};

}  // namespace rubato::elastic
