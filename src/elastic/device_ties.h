// A job whose target names devices: each worker has one of its own, and there are never more
// processes than devices. Somebody else may use a device as soon as status.json says that the job
// does not keep it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elastic/view.h"
#include "elastic/worker_processes.h"

namespace rubato::elastic {

class DeviceTies {
 public:
  // A worker too many is asked to leave with SIGTERM and killed, after so many seconds and so many
  // more.
  DeviceTies(double term_after_s, double kill_after_s)
      : term_after_s_(term_after_s), kill_after_s_(kill_after_s) {}

  // The newest target, again and again.
  void obey(std::int64_t version, const std::vector<std::string>& devices);
  std::int64_t target_version() const { return version_; }
  bool tied() const { return !devices_.empty(); }
  const std::vector<std::string>& devices() const { return devices_; }  // that the job keeps

  // Looks after processes and devices that are too many. Returns how many workers may be started to
  // have `wanted` (or fewer, if there are fewer devices).
  int hold(const View& view, int wanted, const WorkerProcesses& processes);
  // For the next worker; empty when workers are not tied to devices.
  std::string free_device(const WorkerProcesses& processes) const;

 private:
  static void end_newcomers(const View& view, int wanted, const WorkerProcesses& processes);
  void end_surplus(const View& view, int surplus, const WorkerProcesses& processes);

  double term_after_s_;
  double kill_after_s_;
  std::int64_t version_ = 0;
  std::vector<std::string> devices_;
  std::optional<std::chrono::steady_clock::time_point> surplus_since_;
  bool asked_ = false;
};

}  // namespace rubato::elastic
