#include "stop_jobs.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "base/file.h"
#include "control/as_user.h"
#include "control/state_folder.h"
#include "control/supervise.h"

namespace rubato {

namespace {

bool runs(const std::string& folder) {
  const control::AsUser rights = control::AsUser::owner_of(folder);
  return control::is_supervised(folder) || control::has_workers(folder);
}

}  // namespace

Result<int> stop_jobs(const std::string& state, double patience_s) {
  using std::chrono::steady_clock;
  if (!is_directory(state)) return 0;
  const Result<control::FolderLock> lock = control::FolderLock::take(state);
  if (!lock.ok()) return lock.error();
  std::error_code error;
  std::set<std::string> running;
  for (const auto& entry : std::filesystem::directory_iterator(state + "/jobs", error)) {
    const std::string folder = entry.path().string();
    const control::AsUser rights = control::AsUser::owner_of(folder);
    if (!runs(folder)) continue;
    running.insert(folder);
    control::signal_supervisor(folder, SIGTERM);
  }
  const int count = static_cast<int>(running.size());
  const auto deadline = steady_clock::now() + std::chrono::duration<double>(patience_s);
  while (!running.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::erase_if(running, [](const std::string& folder) { return !runs(folder); });
    if (steady_clock::now() < deadline) continue;
    for (const std::string& folder : running) {
      const control::AsUser rights = control::AsUser::owner_of(folder);
      control::kill_supervised(folder);
    }
  }
  return count;
}

}  // namespace rubato
