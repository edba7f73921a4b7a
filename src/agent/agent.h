// The agent of a node: runs the jobs that a daemon elsewhere wants on this machine. It calls the
// daemon (control/cluster/node_sync.h); nobody calls it. Jobs depend on neither of them: while the
// daemon or the agent is away they go on, and what happened is told later.
//
// A job here is in one of these stages:
//
//   fetching ──the folder is made from the daemon's copy──▶ here ──nothing runs, nothing is
//   wanted──▶ closing ──the daemon has everything──▶ removed
//
//   ending: it is not the daemon's any more. Its processes are killed and its folder is removed.
//
// A folder that is not complete yet has the file `fetching` in it, and belongs to nobody.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent_memory.h"
#include "agent/courier.h"
#include "agent/daemon_link.h"
#include "agent/registry_desk.h"
#include "agent/sync_thread.h"
#include "base/mutex.h"
#include "control/folder_removal.h"
#include "control/isolation.h"
#include "control/local_executor.h"
#include "control/machine.h"
#include "control/uploads.h"

namespace rubato::agent {

struct AgentOptions {
  std::string folder;  // of the agent: its token, jobs/<number>
  DaemonAddress daemon;
  std::string join_token;
  control::Machine machine;
  std::string supervisor;  // see LocalExecutorOptions
  control::Isolation isolation{};
  // Where workers of other nodes reach those of this one; empty: found when the daemon is reached.
  std::string address{};
  // A lock with which the jobs' processes here end (control/supervise.h); empty: they outlive the
  // agent.
  std::string ends_with{};
};

class Agent {
 public:
  static Result<std::unique_ptr<Agent>> make(AgentOptions options);
  ~Agent();

  // Does what is due. Call it again after pause(). An error: this agent must end, because another
  // one has taken its place, or the daemon refuses it.
  Status turn();
  std::chrono::milliseconds pause() const;
  // It wants no jobs any more. Those that it has continue elsewhere.
  void leave() { leaving_ = true; }
  // After leave(): the daemon has nothing here any more, and has forgotten the node.
  bool has_left() const { return left_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kFetching, kHere, kClosing, kEnding };
  struct Job {
    Stage stage = Stage::kFetching;
    control::NodeOrders::Job order{};     // the newest; 0 devices if there is none any more
    bool over = false;                    // it has ended by itself
    std::vector<control::Notice> last{};  // its end, told when the daemon has everything
    bool removing = false;
  };

  Agent(AgentOptions options, AgentMemory memory);

  std::string folder_of(control::JobNumber job) const;
  // --- What the daemon says (agent_orders.cpp)
  Status take_answer();
  Status obey(const control::NodeOrders& orders);
  Status begin_session(const control::NodeOrders& orders);
  Result<std::string> address_towards_daemons() const;
  Status make_executor();
  void take_over(const control::JobRecord& record);
  void end_strangers();
  void apply(const control::NodeOrders& orders);
  void note_uploads();
  control::NodeReport report() const;
  void acknowledge(std::int64_t number);

  // --- Jobs
  void take_notices();
  void tell(control::Notice notice);
  void tell_problem(control::JobNumber number, const std::string& message);
  // Takes the next step. True: there is nothing left of the job.
  bool step(control::JobNumber number, Job& job);
  void begin_fetch(control::JobNumber number, Job& job);
  void begin_here(control::JobNumber number, const Job& job);
  void want(control::JobNumber number, Job& job);
  // The job is here: its files are sent, and its registry is answered for.
  void attend(control::JobNumber number, const control::JobDocument& document);
  bool remove_folder(control::JobNumber number, Job& job);
  bool has_untold(control::JobNumber number) const;

  const AgentOptions options_;
  AgentMemory memory_;
  std::unique_ptr<control::LocalExecutor> executor_;  // null before the first session
  std::map<control::JobNumber, Job> jobs_;
  std::unique_ptr<control::FolderRemover> remover_;
  const std::shared_ptr<control::Uploads> uploads_;  // of the jobs that are or were here
  mutable Mutex needed_mutex_;
  control::Uploads::Needed needed_ RUBATO_GUARDED_BY(needed_mutex_);  // uploads of jobs here
  std::unique_ptr<Courier> courier_;
  std::unique_ptr<RegistryDesk> desk_;
  SyncThread sync_;
  std::string session_;
  std::int64_t obeyed_ = 0;
  std::int64_t told_ = 0;  // notices so far in this session
  std::deque<control::NumberedNotice> untold_;
  Clock::time_point next_call_{};
  int failures_ = 0;      // of calls, in a row
  bool unknown_ = false;  // the daemon did not know the token: the next call joins
  std::string told_problem_;
  bool leaving_ = false;
  bool left_ = false;
};

}  // namespace rubato::agent
