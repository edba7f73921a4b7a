// For a job whose target names devices: each worker has a device of its own, and there are never
// more processes than devices. Others may use a device as soon as status.json no longer lists it
// for this job.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elastic/job/view.h"
#include "elastic/launch/worker_processes.h"

namespace rubato::elastic {

class DeviceTies {
 public:
  // A surplus worker gets SIGTERM after term_after_s and SIGKILL kill_after_s later.
  DeviceTies(double term_after_s, double kill_after_s)
      : term_after_s_(term_after_s), kill_after_s_(kill_after_s) {}

  // Takes the newest target. Call it repeatedly.
  void obey(std::int64_t version, const std::vector<std::string>& devices);
  std::int64_t target_version() const { return version_; }
  bool tied() const { return !devices_.empty(); }
  const std::vector<std::string>& devices() const { return devices_; }  // devices the job keeps

  // Releases surplus processes and devices. Returns how many workers may be started to reach
  // `wanted` (or fewer, if there are fewer devices).
  int hold(const View& view, int wanted, WorkerProcesses& processes);
  // The device for the next worker; empty if workers are not tied to devices.
  std::string free_device(const WorkerProcesses& processes) const;

 private:
  static void end_newcomers(const View& view, int wanted, WorkerProcesses& processes);
  void end_surplus(const View& view, int surplus, WorkerProcesses& processes);

  double term_after_s_;
  double kill_after_s_;
  std::int64_t version_ = 0;
  std::vector<std::string> devices_;
  std::optional<std::chrono::steady_clock::time_point> surplus_since_;
  bool asked_ = false;
};

}  // namespace rubato::elastic
