// The live part of the demo: jobs arrive, a worker and the daemon are killed, and every two seconds
// a line shows which job has which slot.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "demo/jobs.h"
#include "live/live_daemon.h"

namespace rubato::demo {

// What the demo did to its jobs; times are seconds since 1970, 0: never.
struct Disturbances {
  std::string worker_of{};  // the job that lost a worker
  double worker_killed_at = 0;
  double daemon_killed_at = 0;
  double daemon_back_at = 0;
};

// Set by a signal handler; ends the show soon.
extern std::atomic<bool> interrupted;

class Show {
 public:
  // The daemon runs; the jobs get their ids here.
  Show(live::LiveDaemon& daemon, std::vector<DemoJob>& jobs) : daemon_(daemon), jobs_(jobs) {}

  // Runs until all jobs have ended. False if they do not end, or the daemon does not come back.
  bool run();
  const Disturbances& disturbances() const { return done_; }

 private:
  double now() const;
  void say(const std::string& text) const;
  void submit_due();
  void tell_ends();
  void show_slots() const;
  void kill_a_worker();
  bool kill_the_daemon();
  const DemoJob* find(const std::string& id) const;

  live::LiveDaemon& daemon_;
  std::vector<DemoJob>& jobs_;
  Disturbances done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t submitted_ = 0;
  std::int64_t seen_ = 0;  // number of the last event that was shown
};

}  // namespace rubato::demo
