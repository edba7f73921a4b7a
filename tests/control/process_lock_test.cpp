#include "control/process_lock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "control/process_tree.h"

namespace rubato::control {
namespace {

class ProcessLock : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("rubato-lock-{}", getpid())).string();
};

TEST_F(ProcessLock, OneHasItAndLookingDoesNotDisturb) {
  EXPECT_FALSE(FileLock::is_held(path_));
  auto lock = FileLock::try_take(path_, FileLock::Children::kDoNotInherit);
  ASSERT_TRUE(lock.has_value());
  EXPECT_TRUE(FileLock::is_held(path_));
  EXPECT_FALSE(FileLock::try_take(path_, FileLock::Children::kDoNotInherit).has_value());
  EXPECT_TRUE(FileLock::is_held(path_));
  lock.reset();
  EXPECT_FALSE(FileLock::is_held(path_));
  EXPECT_TRUE(FileLock::try_take(path_, FileLock::Children::kDoNotInherit).has_value());
}

// This is how the supervisor's lock shows that its workers are alive.
TEST_F(ProcessLock, StaysUntilTheLastProcessThatInheritedItIsGone) {
  for (const auto children : {FileLock::Children::kInherit, FileLock::Children::kDoNotInherit}) {
    auto lock = FileLock::try_take(path_, children);
    ASSERT_TRUE(lock.has_value());
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ready[1], 1);
      execl("/bin/sh", "sh", "-c", "echo; exec sleep 1000", nullptr);
      _exit(127);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);  // the other program is running
    lock.reset();
    EXPECT_EQ(FileLock::is_held(path_), children == FileLock::Children::kInherit);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
  }
}

TEST_F(ProcessLock, ASignalReachesTheProcessThatIsMeantAndNoOther) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const std::optional<ProcessId> process = identify(child);
  ASSERT_TRUE(process.has_value());
  EXPECT_FALSE(send_signal({child, process->started + 1}, SIGKILL));  // same pid, other process
  EXPECT_EQ(kill(child, 0), 0);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);
  EXPECT_TRUE(send_signal(*process, SIGKILL));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(send_signal(*process, SIGKILL));
  EXPECT_FALSE(identify(child).has_value());
}

TEST_F(ProcessLock, ProcessesAreFoundByTheirEnvironment) {
  const auto start = [&](const std::string& value) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ready[1], 1);
      setenv("RUBATO_LOCK_TEST", value.c_str(), 1);
      execl("/bin/sh", "sh", "-c", "echo; exec sleep 1000", nullptr);
      _exit(127);
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  };
  const pid_t meant = start(path_);
  const pid_t other = start(path_ + "0");
  EXPECT_EQ(kill_leftovers("RUBATO_LOCK_TEST=" + path_, path_ + ".lock", getuid()), 1);
  int status = 0;
  EXPECT_EQ(waitpid(meant, &status, 0), meant);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(waitpid(other, nullptr, WNOHANG), 0);
  EXPECT_EQ(kill_leftovers("RUBATO_LOCK_TEST=" + path_ + "0", path_ + ".lock", getuid()), 1);
  waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace rubato::control
