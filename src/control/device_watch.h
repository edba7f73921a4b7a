// Asks the driver for the use of this machine's devices, in a thread of its own: nobody else waits
// for a driver that takes its time.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "control/device_use.h"

namespace rubato::control {

class DeviceWatch {
 public:
  // `names` of the devices, in their order on the node; `library` as for Nvml::load. If it cannot
  // be loaded, it is tried again once a minute: the driver may come later.
  DeviceWatch(std::string library, std::vector<std::string> names,
              std::chrono::milliseconds every = std::chrono::seconds(2));
  // Waits for the call that is under way.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // The newest readings: only devices of which the driver tells something, and none if it has not
  // answered for kOldest. From any thread; never waits for the driver.
  static constexpr std::chrono::seconds kOldest{10};
  std::vector<DeviceUse> newest() const;

 private:
  void run();
  // False: the watch ends.
  bool rest(std::chrono::milliseconds pause);

  const std::string library_;
  const std::vector<std::string> names_;
  const std::chrono::milliseconds every_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::vector<DeviceUse> newest_ RUBATO_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point read_at_ RUBATO_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace rubato::control
