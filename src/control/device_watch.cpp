#include "control/device_watch.h"

#include <memory>
#include <utility>

#include "control/nvml.h"

namespace rubato::control {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTryAgain = std::chrono::minutes(1);

}  // namespace

DeviceWatch::DeviceWatch(std::string library, std::vector<std::string> names,
                         std::chrono::milliseconds every)
    : library_(std::move(library)),
      names_(std::move(names)),
      every_(every),
      thread_([this] { run(); }) {}

DeviceWatch::~DeviceWatch() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool DeviceWatch::rest(std::chrono::milliseconds pause) {
  const auto until = Clock::now() + pause;
  const MutexLock lock(mutex_);
  while (!stopping_ && Clock::now() < until) changed_.wait_until(mutex_, until);
  return !stopping_;
}

void DeviceWatch::run() {
  auto nvml = Nvml::load(library_);
  while (!nvml.ok()) {
    if (!rest(kTryAgain)) return;
    nvml = Nvml::load(library_);
  }
  do {
    std::vector<DeviceUse> read;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      DeviceUse use = (*nvml)->read(names_[i]);
      if (!use.utilisation && !use.memory) continue;
      use.index = static_cast<int>(i);
      read.push_back(std::move(use));
    }
    const MutexLock lock(mutex_);
    newest_ = std::move(read);
    read_at_ = Clock::now();
  } while (rest(every_));
}

std::vector<DeviceUse> DeviceWatch::newest() const {
  const MutexLock lock(mutex_);
  return Clock::now() - read_at_ < kOldest ? newest_ : std::vector<DeviceUse>();
}

}  // namespace rubato::control
