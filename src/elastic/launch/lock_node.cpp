#include "elastic/launch/lock_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "base/file.h"
#include "elastic/launch/launcher_loop.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

constexpr auto kLockPatience = std::chrono::seconds(3);

}  // namespace

Result<Descriptor> lock_node(const JobFolder& folder, const std::string& node) {
  Status made = make_directories(folder.path() + "/nodes");
  if (!made.ok()) return made.error();
  const std::string path = fmt::format("{}/nodes/{}.lock", folder.path(), node);
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno))};
  }
  // A worker that a killed launcher was about to start holds the lock until it runs.
  bool locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  for (const auto began = steady_clock::now();
       !locked && steady_clock::now() - began < kLockPatience;) {
    std::this_thread::sleep_for(kLauncherLook);
    locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }
  if (!locked) {
    return invalid_input(
        fmt::format("{}: node '{}' already has workers of this job; use 'rubato scale' or another "
                    "--node",
                    folder.path(), node));
  }
  return file;
}

std::string random_token() {
  std::random_device random;  // of the system
  return fmt::format("{:x}{:08x}{:08x}", getpid(), random(), random());
}

}  // namespace rubato::elastic
