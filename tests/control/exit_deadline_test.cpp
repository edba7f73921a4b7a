#include "control/exit_deadline.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace rubato::control {
namespace {

// A process that was asked to stop and hangs. Returns its wait status and what it wrote.
std::pair<int, std::string> hang(double seconds, int signal) {
  std::array<int, 2> pipe_ends{};
  EXPECT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &ending, nullptr);
    exit_at_the_latest_after(seconds, ending);
    for (;;) pause();
  }
  close(pipe_ends[1]);
  if (signal != 0) kill(child, signal);
  std::string text;
  std::array<char, 512> block{};
  for (ssize_t got = 0; (got = read(pipe_ends[0], block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {status, text};
}

TEST(ExitDeadline, EndsAProcessThatHangs) {
  const auto [status, text] = hang(0.05, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(text,
            "rubatod: not everything ended within 0.05 s; stopping anyway. The event log is "
            "complete, and running jobs continue\n");
}

TEST(ExitDeadline, ASecondSignalEndsItAtOnce) {
  // The signal may come before it is blocked: then it ends the process by itself.
  const auto [status, text] = hang(3600, SIGTERM);
  EXPECT_TRUE(WIFSIGNALED(status) || text == "rubatod: stopped at once by a second signal\n")
      << status << " " << text;
}

}  // namespace
}  // namespace rubato::control
