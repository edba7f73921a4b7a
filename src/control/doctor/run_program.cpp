// RealMachine::run: a program's output, within a time.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "control/doctor/real_machine.h"

namespace rubato::control::doctor {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 1 << 20;

using Pipe = std::array<int, 2>;

// Starts it in a process group of its own; an error number otherwise.
int start(const std::vector<std::string>& command, int output, int errors, pid_t& child) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<char*> variables;
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::strncmp(*one, "LC_ALL=", 7) != 0) variables.push_back(*one);
  }
  std::string plain_language = "LC_ALL=C";
  variables.push_back(plain_language.data());
  variables.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int code =
      posix_spawnp(&child, words[0], &files, &attributes, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return code;
}

// Reads what is there; false at the end.
bool read_some(int file, std::string& text) {
  std::array<char, 4096> piece{};
  const ssize_t got = ::read(file, piece.data(), piece.size());
  if (got < 0) return errno == EINTR;
  if (text.size() < kMostOutput) text.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// Reads both until they end; false when the time is over before.
bool read_both(int output, int errors, steady_clock::time_point until, Ran& result) {
  std::array<pollfd, 2> files{{{.fd = output, .events = POLLIN, .revents = 0},
                               {.fd = errors, .events = POLLIN, .revents = 0}}};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (left.count() <= 0) return false;
    if (::poll(files.data(), files.size(), static_cast<int>(left.count())) < 0) continue;
    if (files[0].revents != 0 && !read_some(output, result.output)) files[0].fd = -1;
    if (files[1].revents != 0 && !read_some(errors, result.errors)) files[1].fd = -1;
  }
  return true;
}

// A process that hangs inside the kernel cannot be killed: it is left behind.
bool reap(pid_t child, steady_clock::time_point until, int& status) {
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

Ran wait_for(pid_t child, int output, int errors, milliseconds at_most) {
  Ran result;
  const auto until = steady_clock::now() + at_most;
  int status = 0;
  if (!read_both(output, errors, until, result) || !reap(child, until, status)) {
    ::kill(-child, SIGKILL);
    reap(child, steady_clock::now() + std::chrono::seconds(2), status);
    result.end = Ran::End::kTimedOut;
    return result;
  }
  result.end = Ran::End::kEnded;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace

Ran RealMachine::run(const std::vector<std::string>& command, milliseconds at_most) const {
  Pipe output{};
  Pipe errors{};
  if (::pipe2(output.data(), O_CLOEXEC) != 0) return {};
  if (::pipe2(errors.data(), O_CLOEXEC) != 0) {
    for (const int file : output) ::close(file);
    return {};
  }
  pid_t child = -1;
  const int refused = start(command, output[1], errors[1], child);
  ::close(output[1]);
  ::close(errors[1]);
  Ran result;
  if (refused == 0) result = wait_for(child, output[0], errors[0], at_most);
  ::close(output[0]);
  ::close(errors[0]);
  return result;
}

}  // namespace rubato::control::doctor
