// An executor whose jobs are numbers: nodes with devices, what jobs want of them and what they
// hold. The world outlives the daemon, as real jobs do. It checks whatever the daemon asks for.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "control/job_executor.h"
#include "control/result_files.h"

namespace rubato::control {

class MemoryWorld {
 public:
  explicit MemoryWorld(std::vector<LiveNode> nodes, std::uint64_t seed = 1)
      : nodes_(std::move(nodes)), random_(seed) {}

  // --- The test's side: from its thread
  void add(const LiveNode& node) {
    const std::lock_guard lock(mutex_);
    nodes_.push_back(node);
  }
  // Its jobs lose what they hold there.
  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::erase_if(nodes_, [&](const LiveNode& node) { return node.name == name; });
    for (auto& [number, job] : jobs_) {
      std::erase_if(job.held, [&](const NodeDevices& part) { return part.node == name; });
    }
  }
  void rename(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    names_[from] = to;
    const auto change = [&](std::string& name) { name = name == from ? to : name; };
    for (LiveNode& node : nodes_) change(node.name);
    for (auto& [number, job] : jobs_) {
      for (NodeDevices& part : job.held) change(part.node);
      for (NodeDevices& part : job.wanted) change(part.node);
    }
  }
  // The job ends as soon as somebody looks.
  void finish(JobNumber job) {
    const std::lock_guard lock(mutex_);
    if (!jobs_[job].held.empty()) jobs_[job].finishes = true;
  }
  // A step takes so long on one device, and `across` times as long across nodes. 0: jobs report
  // nothing.
  void steps_take(Seconds seconds, double across = 1) {
    const std::lock_guard lock(mutex_);
    step_s_ = seconds;
    across_ = across;
  }
  JobPlacement wanted(JobNumber job) const {
    const std::lock_guard lock(mutex_);
    return jobs_.contains(job) ? jobs_.at(job).wanted : JobPlacement();
  }
  JobPlacement held(JobNumber job) const {
    const std::lock_guard lock(mutex_);
    return jobs_.contains(job) ? jobs_.at(job).held : JobPlacement();
  }
  std::vector<LiveNode> nodes() const {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }

 private:
  friend class MemoryExecutor;
  struct Job {
    JobPlacement wanted{};
    JobPlacement held{};
    JobPlacement told{};
    std::int64_t step = 0;
    bool finishes = false;
    bool over = false;
  };

  int devices_of(const std::string& name) const {
    for (const LiveNode& node : nodes_) {
      if (node.name == name) return node.devices;
    }
    return 0;
  }
  std::map<std::string, int> sums(JobPlacement Job::*which) const {
    std::map<std::string, int> sums;
    for (const auto& [number, job] : jobs_) {
      for (const NodeDevices& part : job.*which) sums[part.node] += part.devices;
    }
    return sums;
  }
  // What is granted on nodes that are there fits on them, and so does what is held.
  void check() const {
    for (const auto& [which, what] :
         {std::pair(&Job::wanted, "granted"), std::pair(&Job::held, "held")}) {
      for (const auto& [node, devices] : sums(which)) {
        if (devices_of(node) == 0) continue;
        EXPECT_LE(devices, devices_of(node)) << what << " devices of node " << node;
      }
    }
  }

  mutable std::mutex mutex_;
  std::vector<LiveNode> nodes_;
  std::map<std::string, std::string> names_;
  std::map<JobNumber, Job> jobs_;
  Random random_;
  Seconds step_s_ = 0;
  double across_ = 1;
};

class MemoryExecutor final : public JobExecutor {
 public:
  explicit MemoryExecutor(std::shared_ptr<MemoryWorld> world)
      : world_(std::move(world)), nodes_(world_->nodes()) {
    const std::lock_guard lock(world_->mutex_);
    for (auto& [number, job] : world_->jobs_) job.told = {};
  }

  std::span<const LiveNode> nodes() const override { return nodes_; }
  Remains remains_of(const JobRecord& job) const override {
    const std::lock_guard lock(world_->mutex_);
    return world_->jobs_.contains(job.number) ? Remains::kItsOwn : Remains::kNothing;
  }
  JobPlacement named_today(const JobPlacement& recorded) const override {
    const std::lock_guard lock(world_->mutex_);
    JobPlacement today;
    for (NodeDevices part : recorded) {
      const auto name = world_->names_.find(part.node);
      if (name != world_->names_.end()) part.node = name->second;
      for (const LiveNode& node : nodes_) {
        if (node.name != part.node) continue;
        part.device_type = node.device_type;
        today.push_back(part);
      }
    }
    return today;
  }
  Status adopt(const JobRecord& record) override {
    const JobPlacement today = named_today(record.nodes);
    const std::lock_guard lock(world_->mutex_);
    MemoryWorld::Job& job = world_->jobs_[record.number];
    JobPlacement known = job.wanted;
    std::erase_if(known, [&](const NodeDevices& part) {
      return world_->devices_of(part.node) == 0;  // the log does not say yet that it is gone
    });
    EXPECT_EQ(today, known) << "job " << record.number << " comes back to other devices";
    job.told = named_now(record.held_nodes);
    return ok_status();
  }

  Status claim(JobNumber job, const FolderOwner&) override {
    const std::lock_guard lock(world_->mutex_);
    world_->jobs_.try_emplace(job);
    return ok_status();
  }
  Status want(JobNumber number, const JobDocument&, const JobPlacement& placement,
              std::int64_t) override {
    const std::lock_guard lock(world_->mutex_);
    for (const NodeDevices& part : placement) {
      const bool known = std::any_of(nodes_.begin(), nodes_.end(), [&](const LiveNode& node) {
        return node.name == part.node && node.device_type == part.device_type;
      });
      EXPECT_TRUE(known) << "a node that is not there: " << part.node;
    }
    world_->jobs_[number].wanted = placement;
    return ok_status();
  }
  void cancel(JobNumber number) override {
    const std::lock_guard lock(world_->mutex_);
    const auto job = world_->jobs_.find(number);
    if (job == world_->jobs_.end()) return;
    job->second.wanted.clear();
    job->second.over = true;
  }
  bool forget(JobNumber number) override {
    const std::lock_guard lock(world_->mutex_);
    const auto job = world_->jobs_.find(number);
    if (job != world_->jobs_.end() && !job->second.held.empty()) return false;
    world_->jobs_.erase(number);
    return true;
  }

  // Jobs give back and take at different times.
  std::vector<Notice> poll() override {
    const std::lock_guard lock(world_->mutex_);
    // What was granted on a node that left is taken back in the next turn.
    const bool settled =
        std::equal(nodes_.begin(), nodes_.end(), world_->nodes_.begin(), world_->nodes_.end());
    nodes_ = world_->nodes_;
    std::vector<Notice> notices;
    for (auto& [number, job] : world_->jobs_) {
      if (job.finishes && !job.over) {
        job.over = true;
        job.wanted.clear();
        notices.push_back(
            {.job = number, .kind = Notice::Kind::kFinished, .body = {{"steps", job.step}}});
      }
      if (world_->random_.chance(0.7)) give_back(job);
    }
    for (auto& [number, job] : world_->jobs_) {
      if (!job.over && world_->random_.chance(0.7)) take(job);
    }
    if (settled) world_->check();
    for (auto& [number, job] : world_->jobs_) {
      if (job.told != job.held) {
        job.told = job.held;
        notices.push_back({.job = number, .devices = devices_on(job.held), .nodes = job.held});
      }
      if (world_->step_s_ > 0 && !job.held.empty()) report(number, job, notices);
    }
    return notices;
  }

  JobPlacement held(JobNumber number) const override { return world_->held(number); }
  int held() const override {
    const std::lock_guard lock(world_->mutex_);
    int devices = 0;
    for (const auto& [number, job] : world_->jobs_) devices += devices_on(job.held);
    return devices;
  }
  bool has_called_runtime(JobNumber) const override { return true; }
  std::vector<std::string> log_files(const JobRecord&) const override { return {}; }
  Result<ResultPlace> result_place(const JobRecord&) const override {
    return Error{ErrorCode::kNotFound, "numbers have no files"};
  }

 private:
  JobPlacement named_now(JobPlacement placement) const {
    for (NodeDevices& part : placement) {
      const auto name = world_->names_.find(part.node);
      if (name != world_->names_.end()) part.node = name->second;
    }
    return placement;
  }
  static void give_back(MemoryWorld::Job& job) {
    for (NodeDevices& part : job.held) {
      const auto wanted =
          std::find_if(job.wanted.begin(), job.wanted.end(),
                       [&](const NodeDevices& other) { return other.node == part.node; });
      part.devices = std::min(part.devices, wanted == job.wanted.end() ? 0 : wanted->devices);
    }
    std::erase_if(job.held, [](const NodeDevices& part) { return part.devices == 0; });
  }
  // All of what is missing, or nothing.
  void take(MemoryWorld::Job& job) const {
    if (job.held == job.wanted) return;
    std::map<std::string, int> used = world_->sums(&MemoryWorld::Job::held);
    for (const NodeDevices& part : job.held) used[part.node] -= part.devices;
    for (const NodeDevices& part : job.wanted) {
      if (used[part.node] + part.devices > world_->devices_of(part.node)) return;
    }
    for (const NodeDevices& part : job.held) used[part.node] += part.devices;
    job.held = job.wanted;
  }
  void report(JobNumber number, MemoryWorld::Job& job, std::vector<Notice>& notices) const {
    const int workers = devices_on(job.held);
    const Seconds step_s = world_->step_s_ / workers * (job.held.size() > 1 ? world_->across_ : 1);
    notices.push_back({.job = number,
                       .kind = Notice::Kind::kProgress,
                       .body = {{"step", ++job.step},
                                {"total_steps", 1'000'000},
                                {"steps_per_epoch", 1000},
                                {"batch", 64},
                                {"workers", workers},
                                {"logical_workers", 8},
                                {"step_s", step_s}}});
  }

  std::shared_ptr<MemoryWorld> world_;
  std::vector<LiveNode> nodes_;
};

}  // namespace rubato::control
