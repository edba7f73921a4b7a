#include "elastic/launch/device_ties.h"

#include <algorithm>
#include <csignal>
#include <tuple>

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

bool in_use(const std::string& device, const WorkerProcesses& processes) {
  return std::any_of(processes.all().begin(), processes.all().end(),
                     [&](const WorkerProcess& process) { return process.device == device; });
}

}  // namespace

void DeviceTies::obey(std::int64_t version, const std::vector<std::string>& devices) {
  if (version == version_) return;
  version_ = version;
  devices_ = devices;
}

int DeviceTies::hold(const View& view, int wanted, WorkerProcesses& processes) {
  wanted = std::min(wanted, static_cast<int>(devices_.size()));
  end_newcomers(view, wanted, processes);
  const int surplus = static_cast<int>(processes.size()) - wanted;
  end_surplus(view, surplus, processes);
  // After a job has shrunk, its surplus devices are free for others.
  if (surplus <= 0 && devices_.size() > static_cast<std::size_t>(wanted)) {
    std::stable_partition(devices_.begin(), devices_.end(),
                          [&](const std::string& device) { return in_use(device, processes); });
    devices_.resize(static_cast<std::size_t>(wanted));
  }
  return -surplus;
}

// Newcomers that have not joined yet give their device back at once.
void DeviceTies::end_newcomers(const View& view, int wanted, WorkerProcesses& processes) {
  const auto members = static_cast<int>(
      std::count_if(processes.all().begin(), processes.all().end(),
                    [&](const auto& process) { return view.find(process.worker) != nullptr; }));
  int may_come = std::max(0, wanted - members);
  for (const WorkerProcess& process : processes.all()) {
    if (process.was_member || --may_come >= 0) continue;
    processes.send(process.worker, SIGKILL);
  }
}

// Members leave with the next view. Those that do not leave in time get SIGTERM, then SIGKILL.
void DeviceTies::end_surplus(const View& view, int surplus, WorkerProcesses& processes) {
  if (surplus <= 0) {
    surplus_since_.reset();
    asked_ = false;
    return;
  }
  const auto now = steady_clock::now();
  if (!surplus_since_) surplus_since_ = now;
  const double passed = std::chrono::duration<double>(now - *surplus_since_).count();
  const bool kill = passed > term_after_s_ + kill_after_s_;
  if (passed <= term_after_s_ || (asked_ && !kill)) return;
  asked_ = true;
  // Workers that have already left the view go first, the leader last.
  std::vector<WorkerProcess> order = processes.all();
  const auto rank = [&](const WorkerProcess& process) {
    return std::tuple(view.find(process.worker) == nullptr, process.worker != view.leader,
                      process.worker);
  };
  std::sort(order.begin(), order.end(),
            [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
  order.resize(static_cast<std::size_t>(surplus));
  for (const WorkerProcess& process : order) {
    processes.send(process.worker, kill ? SIGKILL : SIGTERM);
  }
}

std::string DeviceTies::free_device(const WorkerProcesses& processes) const {
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const std::string& device) {
    return !in_use(device, processes);
  });
  return found == devices_.end() ? "" : *found;
}

}  // namespace rubato::elastic
