// The launcher of one node: its loop, the worker processes that it starts, and what it writes.
// launch() and join() in launcher.h use it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/node_status.h"
#include "elastic/job/remembered_registry.h"
#include "elastic/launch/device_ties.h"
#include "elastic/launch/failure_count.h"
#include "elastic/launch/launcher.h"
#include "elastic/launch/ordinary_program.h"
#include "elastic/launch/worker_processes.h"
#include "elastic/memory/board.h"

namespace rubato::elastic {

inline constexpr auto kLauncherLook = std::chrono::milliseconds(20);

class Launcher {
 public:
  Launcher(const LaunchOptions& options, JobSettings settings, std::unique_ptr<Registry> registry);

  LaunchResult run();
  // Whether members of the newest view are alive on other nodes. It takes a while to be sure that
  // none are.
  Result<bool> trains_elsewhere();
  // Call when nobody of the existing view is alive: the view is history. After a restart, an event
  // reports how each of its members was lost; `reason` is for members whose end this launcher did
  // not see.
  Status clear_view(const std::string& cause, const std::string& reason = "gone");
  void hide_earlier_events();
  // Call it before run() if this launcher runs a share of a job.
  Status begin_share();

 private:
  using Clock = std::chrono::steady_clock;

  const std::string& node() const { return options_.node.name; }
  bool home() const { return settings_.home == node(); }
  // Runs a share of a job whose registry is the daemon's (launch_share).
  bool shares() const { return own_ != nullptr; }
  bool writes_status() const { return home() || shares(); }
  std::string prefix() const;
  const Member* member_here(const View& view) const;
  bool on_other_nodes(const View& view) const;

  // --- The loop (launcher_loop.cpp) ---
  LaunchResult watch();
  Status ask_for_stop();
  // Whether the job can wait until this error is over. After a while, an event tells of it.
  bool can_wait_for(const Error& error);
  void forget_gone_nodes(const Target& target);
  void end_unheard_newcomers();
  void beat();
  void tell_lost(const View& view, std::int64_t next_view, const std::string& reason) const;
  void write_status(const std::string& message);
  void print_new_events();

  // --- Jobs on several nodes without a common folder (launcher_share.cpp) ---
  // The registry with this node's target.
  Registry& targets() { return own_ ? *own_ : static_cast<Registry&>(*registry_); }
  void follow_views(const View& newest);
  void note_spread(const View& view);
  bool spread() const { return spread_; }
  bool all_members_here(const View& view) const;
  // Whether the job begins again elsewhere, or somebody else lets it.
  bool given_up(const View& view) const;
  void publish_result();
  bool finished();
  // What ended since the last look, and what was postponed: a worker that says that the job has
  // finished is believed for a while, until the other node has published the result.
  std::vector<WorkerProcesses::End> ends_to_judge();

  // --- Starts and ends of workers (launcher_workers.cpp) ---
  // Starts missing workers. Returns why the job must be given up, or "".
  std::string keep_alive(const View& view, const Target& target);
  struct Counted {
    int members = 0;
    int joining = 0;
  };
  Counted count_processes(const View& view);
  // Ends what is too much. Returns how many workers should be started.
  int missing_workers(const View& view, const Target& target, const Counted& now);
  std::string start_missing(int missing, bool trains);
  std::string begin_again(const View& view);
  // The largest useful number of workers: that of the logical workers, once it is known.
  int most_workers();
  void note_surplus(int workers, int useful);
  void end_newcomers(const View& view, int surplus);
  std::string stop_who_has_nothing(const View& view);
  void note_progress(const View& view);
  Status check_start();
  Status start_worker();
  void set_variables_of_workers();

  struct WorkerEnd {
    std::string how{};
    bool failed = false;  // and may fail again; a killed worker was killed by somebody
  };
  WorkerEnd describe_end(const WorkerProcess& child, int status, const Result<View>& view) const;
  bool may_end_before_it_joins(const WorkerProcess& child, const Result<View>& view) const;
  // Returns the end of the job if this is the end of an ordinary program.
  std::optional<LaunchResult> note_end(const WorkerProcesses::End& end);
  void note_failure(std::optional<int> worker, const std::string& reason);
  // Whether the program is known to use the runtime. Until then it has one process.
  bool speaks();

  const LaunchOptions& options_;
  JobSettings settings_;
  JobFolder folder_;
  const std::unique_ptr<RememberedRegistry> registry_;
  // --- Of a share
  const std::unique_ptr<Registry> own_;  // in the folder; null: not a share
  std::int64_t views_followed_ = 0;
  std::optional<std::int64_t> founds_after_;  // the empty view after which this node founds the job
  bool spread_ = false;
  bool published_ = false;
  std::vector<std::pair<Clock::time_point, WorkerProcesses::End>> postponed_;
  bool finished_ = false;
  WorkerProcesses processes_;
  DeviceTies ties_;
  NodeWatch others_;
  OrdinaryProgram ordinary_;  // as long as the program has not spoken
  bool speaks_ = false;
  std::map<std::string, std::int64_t> first_beats_;
  NodeStatus node_status_;  // this node's, if it is not the home node
  Clock::time_point last_beat_;
  int board_number_ = -1;
  bool node_had_members_ = false;
  std::int64_t last_empty_view_ = 0;
  std::optional<Clock::time_point> finished_since_;
  std::map<int, WorkerEnd> ends_;  // of former members, since the job was last started
  FailureCount failures_;
  std::optional<Board> board_;
  std::string board_name_;
  std::int64_t last_step_ = -1;
  std::size_t events_shown_ = 0;
  std::optional<int> program_workers_;  // logical ones, of a job whose owner gave no number
  int noted_surplus_ = 0;
  std::optional<Clock::time_point> away_since_;  // the registry
  bool told_away_ = false;
  std::string state_ = "running";
  nlohmann::json status_;  // as last written
};

}  // namespace rubato::elastic
