// The live part of the cluster demonstration: hosts join, jobs come, a host is unplugged and
// plugged in again, and every two seconds a line shows which job has which slot.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/checks.h"
#include "cluster/world.h"
#include "live/live_jobs.h"

namespace rubato::demo {

constexpr int kHosts = 3;
constexpr int kHostSlots = 2;
constexpr int kPaceMs = 25;        // length of a mini-batch
constexpr double kLostAfterS = 5;  // a silent host counts as lost

struct ClusterJob {
  std::string name;
  live::LiveProgram paced;    // as submitted
  live::LiveProgram unpaced;  // the same training at full speed, whose result it must have
  std::string id{};           // once submitted
};

// What became of the unplugged host and its job.
struct Unplugging {
  std::string node{};
  std::string job{};
  bool survived = false;  // workers on other hosts went on
  double went_on_after_s = 0;
  std::int64_t steps_redone = 0;
  bool lost = false;      // the daemon took the host's devices back
  bool returned = false;  // it came back, and a job has workers there
};

extern std::atomic<bool> interrupted;  // set by a signal handler; ends the show soon

class ClusterShow {
 public:
  ClusterShow(cluster::World& world, const std::string& examples);

  // Runs until all jobs have ended. Returns what went wrong, or "".
  std::string run();
  const std::vector<ClusterJob>& jobs() const { return jobs_; }
  const Unplugging& unplugging() const { return done_; }

 private:
  double now() const;
  void say(const std::string& text) const;
  bool wait(const std::function<bool()>& condition, double seconds);
  bool join_hosts();
  bool submit(ClusterJob& job);
  void look();
  void tell(const nlohmann::json& event);
  void tell_view(const ClusterJob& job, const nlohmann::json& view);
  void show_slots();
  int devices_on(const ClusterJob& job, const std::string& node) const;
  int fullest_host() const;
  bool unplug();
  bool ended() const;

  cluster::World& world_;
  std::vector<ClusterJob> jobs_;
  Unplugging done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int training_ = 0;  // workers of the job that is unplugged
  double shown_ = 0;
  double unplugged_at_ = 0;  // seconds since 1970
  std::int64_t seen_ = 0;    // number of the last event that was told
  std::size_t ended_ = 0;
  nlohmann::json placed_ = nlohmann::json::object();  // job -> nodes and devices held
};

}  // namespace rubato::demo
