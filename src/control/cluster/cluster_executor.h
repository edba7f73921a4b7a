// Runs jobs on nodes whose agents call the daemon (node_sync.h). The loop calls it as a
// JobExecutor; the threads that answer agents call sync() and ask_registry(). What a job does on
// its nodes is decided by ClusterJob (cluster_job.h).
//
// The daemon keeps a copy of each job's folder (job_copy.h). When a node is done with a job, the
// copy has everything from there; a job that is on no node begins on its next one with the copy.
// The registry of a job that spans nodes is in the copy, too, and only its nodes may use it. This
// class is the only writer of the job's target there; what each node has is written by its agent in
// a registry of the node's own.
//
// A node gives a device to one job at a time, but it may tell that a job has taken one before it
// tells that another has given it back: a daemon that has just started hears of the jobs one after
// the other. What a job takes is recorded when there is room, so the log never has more devices
// held on a node than the node has.
//
// A node that is not heard for a while becomes *lost*: its jobs are not on it any more, and its
// agent's session ends, so that nothing that happens there afterwards is accepted; when it comes
// back, it ends what it still runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "control/cluster/cluster_job.h"
#include "control/cluster/node_record.h"
#include "control/cluster/node_sync.h"
#include "control/job_executor.h"
#include "elastic/job/registry.h"

namespace rubato::control {

class SharedRegistries;

struct ClusterOptions {
  std::string folder{};  // copies of the jobs' folders are FOLDER/<number>
  // Where registries of jobs are decided if this daemon shares its log; null: in the copies.
  std::shared_ptr<SharedRegistries> registries{};
  double lost_after_s = 30;  // a node that was not heard for so long is lost
  // At most so many calls of agents per second; with few nodes they call every tenth of a second.
  double calls_per_s = 1000;
};

class ClusterExecutor final : public JobExecutor {
 public:
  // `nodes` are those of the log with this identity. They count as heard now.
  ClusterExecutor(ClusterOptions options, const std::string& store,
                  const std::map<std::string, NodeRecord>& nodes);

  // --- The loop
  // The epoch of this daemon. Until it is known, no agent gets an answer.
  void begin(std::int64_t epoch);
  // A node joined, or its record changed. Takes effect in the next poll().
  void set_node(const NodeRecord& record);
  void remove_node(const std::string& name);
  // The time for the jobs of this drained node to stop is over: they are killed.
  void hurry(const std::string& name);
  // Nodes that are not lost by their record and were not heard for too long, with the seconds; and
  // those that are lost and were heard. If no node at all is heard, the daemon itself may be out of
  // reach, so it waits ten times as long.
  std::map<std::string, double> silent_nodes() const;
  std::vector<std::string> heard_lost_nodes() const;
  // Agents were not answered for a while: their silence until now does not count.
  void forgive_silence();
  // Nodes whose agents want to leave, and that no job is on.
  std::vector<std::string> left_nodes() const;

  bool keeps_some_together() const override { return true; }
  std::span<const LiveNode> nodes() const override { return offered_; }
  Remains remains_of(const JobRecord& record) const override;
  JobPlacement named_today(const JobPlacement& recorded) const override { return recorded; }
  Status adopt(const JobRecord& record) override;
  Status claim(JobNumber number, const FolderOwner& owner) override;
  Status want(JobNumber number, const JobDocument& document, const JobPlacement& placement,
              std::int64_t batch) override;
  void cancel(JobNumber number) override;
  bool forget(JobNumber number) override;
  std::vector<Notice> poll() override;
  JobPlacement held(JobNumber number) const override;
  int held() const override;
  bool has_called_runtime(JobNumber number) const override;

  // --- From any thread
  std::vector<std::string> log_files(const JobRecord& record) const override;
  Result<ResultPlace> result_place(const JobRecord& record) const override;
  // What the agent of a node says, and what it should do. The caller has made sure that it is the
  // agent. kRefused: another start of the agent has taken over; this one must end.
  Result<NodeOrders> sync(const NodeReport& report);
  // Whether the job is on the node; its uid if it is.
  std::optional<std::string> is_on(JobNumber number, const std::string& node) const;
  // A call of desk_registry.h ("get", "at" or "swap"), for a process of the job on this node, and
  // the answer to it.
  nlohmann::json ask_registry(JobNumber number, const std::string& node,
                              const nlohmann::json& request);
  // Of nodes that were heard in the last seconds.
  std::vector<DeviceUse> device_use() const override;
  // What is known of a node besides its record.
  struct Contact {
    bool heard = false;   // in this daemon's time
    double silent_s = 0;  // since it was last heard
    bool leaving = false;
    std::vector<JobNumber> jobs{};  // that are on it
  };
  std::map<std::string, Contact> contacts() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Node {
    NodeRecord record{};
    Clock::time_point heard_at{};
    bool heard = false;
    bool leaving = false;
    bool hurries = false;
    std::int64_t start = 0;
    std::string session{};
    std::int64_t orders = 0;     // number of the last ones
    std::int64_t received = 0;   // number of the last notice
    std::set<JobNumber> jobs{};  // that are on it
    std::vector<DeviceUse> use{};

    bool offered() const { return record.usable() && !leaving; }
  };

  std::string folder_of(JobNumber job) const;
  std::unique_ptr<elastic::Registry> registry_of(JobNumber number, const std::string& uid) const;
  void change_orders(ClusterJob& job, const std::string& node) RUBATO_REQUIRES(mutex_);
  void put(JobNumber number, ClusterJob& job, const std::string& node, ClusterJob::Part part)
      RUBATO_REQUIRES(mutex_);
  // The job is not on the node any more.
  void drop(JobNumber number, ClusterJob& job, const std::string& node) RUBATO_REQUIRES(mutex_);
  void tell_held(JobNumber number, const ClusterJob& job) RUBATO_REQUIRES(mutex_);
  // What the node has told of its devices, as far as there is room.
  void record_held(const Node& node) RUBATO_REQUIRES(mutex_);
  bool settle(JobNumber number, ClusterJob& job) RUBATO_REQUIRES(mutex_);
  void begin(JobNumber number, ClusterJob& job, const std::string& node) RUBATO_REQUIRES(mutex_);
  bool end_view(JobNumber number, ClusterJob& job) RUBATO_REQUIRES(mutex_);
  void look_for_workers(JobNumber number, ClusterJob& job) RUBATO_REQUIRES(mutex_);
  bool write_target(JobNumber number, ClusterJob& job) RUBATO_REQUIRES(mutex_);
  void tell_end(JobNumber number, ClusterJob& job) RUBATO_REQUIRES(mutex_);
  JobPlacement held_by(const ClusterJob& job) const RUBATO_REQUIRES(mutex_);
  JobRecord record_for(JobNumber number, const ClusterJob& job, const std::string& node) const;
  void take_notices(Node& node, const NodeReport& report) RUBATO_REQUIRES(mutex_);
  void take_notice(Node& node, JobNumber number, ClusterJob& job, Notice notice)
      RUBATO_REQUIRES(mutex_);
  void take_states(const Node& node, const NodeReport& report) RUBATO_REQUIRES(mutex_);
  NodeOrders orders_for(Node& node) RUBATO_REQUIRES(mutex_);
  double pause() const RUBATO_REQUIRES(mutex_);
  bool hears_nobody() const RUBATO_REQUIRES(mutex_);

  void offer_nodes() RUBATO_REQUIRES(mutex_);

  const ClusterOptions options_;
  const std::string store_;
  std::vector<LiveNode> offered_;  // the loop's
  mutable Mutex mutex_;
  std::int64_t epoch_ RUBATO_GUARDED_BY(mutex_) = 0;
  std::int64_t sessions_ RUBATO_GUARDED_BY(mutex_) = 0;
  Clock::time_point heard_anybody_at_ RUBATO_GUARDED_BY(mutex_) = Clock::now();
  std::map<std::string, Node> nodes_ RUBATO_GUARDED_BY(mutex_);
  std::map<JobNumber, ClusterJob> jobs_ RUBATO_GUARDED_BY(mutex_);
  // For the next poll(), in the order in which the states of the jobs changed: what a job holds is
  // told as a whole, so an older notice after a newer one would undo it.
  std::vector<Notice> notices_ RUBATO_GUARDED_BY(mutex_);
  std::set<JobNumber> unsettled_ RUBATO_GUARDED_BY(mutex_);                     // to be looked at
  std::set<std::pair<JobNumber, std::string>> done_ RUBATO_GUARDED_BY(mutex_);  // nodes with jobs
};

}  // namespace rubato::control
