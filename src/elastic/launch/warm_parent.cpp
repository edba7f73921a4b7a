#include "elastic/launch/warm_parent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/file.h"

namespace rubato::elastic {

namespace {

// The launcher does nothing else in the meantime. A fork takes milliseconds.
constexpr std::chrono::milliseconds kLongestFork{2000};

struct Pair {
  Descriptor here;  // tells who wrote a message
  Descriptor there;
};

std::optional<Pair> connected_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return std::nullopt;
  Pair pair{Descriptor(ends[0]), Descriptor(ends[1])};
  const int on = 1;
  if (setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return std::nullopt;
  return pair;
}

// One that has ended and has not been waited for is not: /proc says nothing about it any more.
bool is_living_child(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

enum class Heard : std::uint8_t { kNothing, kClosed, kMessage };

// One message of any content. `from` becomes the process that wrote it.
Heard hear(int socket, pid_t& from) {
  std::array<char, 16> text{};
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Heard::kNothing : Heard::kClosed;
  if (got == 0) return Heard::kClosed;
  from = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    ucred writer{};
    std::memcpy(&writer, CMSG_DATA(header), sizeof writer);
    from = writer.pid;
  }
  return Heard::kMessage;
}

bool send_with_descriptors(int socket, const std::string& text, std::array<int, 2> descriptors) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(text.size());
}

// Waits until somebody writes, for as long as a fork may take.
Heard await(int socket, pid_t& from) {
  const auto end = std::chrono::steady_clock::now() + kLongestFork;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Heard::kNothing;
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;  // the clock decides
    const Heard heard = hear(socket, from);
    if (heard != Heard::kNothing) return heard;
  }
}

}  // namespace

Descriptor WarmParent::offer() {
  look();
  if (given_up_ || socket_.valid()) return {};
  // Copies become children of this process, although others make them.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return {};
  std::optional<Pair> pair = connected_pair();
  if (!pair) return {};
  socket_ = std::move(pair->here);
  return std::move(pair->there);
}

void WarmParent::look() {
  if (!socket_.valid() || parent_ != 0) return;
  pid_t from = 0;
  const Heard heard = hear(socket_.get(), from);
  if (heard == Heard::kNothing) return;
  if (heard != Heard::kMessage || !is_new_child(from)) {
    socket_ = Descriptor();
    return;
  }
  parent_ = from;
  if (!runs_command(from)) give_up();
}

// Whether the process is what the launcher has executed. A wrapper that ends in exec may do
// something else for another worker. The interpreter of a script precedes the command.
bool WarmParent::runs_command(pid_t pid) const {
  const Result<std::string> words = read_file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string command;
  for (const std::string& word : command_) command += word + '\0';
  if (!words.ok() || !words->ends_with(command)) return false;
  const std::size_t before = words->size() - command.size();
  return before == 0 || (*words)[before - 1] == '\0';
}

// A living child of this process that is neither a worker nor the warm parent.
bool WarmParent::is_new_child(pid_t pid) const {
  return pid > 0 && pid != parent_ && is_living_child(pid) && !is_worker_(pid);
}

std::optional<pid_t> WarmParent::start(const Request& request) {
  look();
  if (parent_ == 0) return std::nullopt;
  std::optional<Pair> pair = connected_pair();
  const Descriptor log(open(request.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!pair || !log.valid()) return std::nullopt;
  std::string text;
  for (const auto& [name, value] : request.environment) text += name + '=' + value + '\0';
  if (!send_with_descriptors(socket_.get(), text, {pair->there.get(), log.get()})) {
    end();
    return std::nullopt;
  }
  pair->there = Descriptor();
  pid_t child = 0;
  const Heard heard = await(pair->here.get(), child);
  if (heard == Heard::kMessage && is_new_child(child) &&
      send(pair->here.get(), "go", 2, MSG_NOSIGNAL) == 2) {
    return child;
  }
  if (heard == Heard::kClosed) {
    end();  // the next worker that is executed may leave another copy
  } else {
    give_up();  // this would cost time at every start
  }
  return std::nullopt;
}

void WarmParent::note_end(pid_t child) {
  if (child == parent_) parent_ = 0;
}

void WarmParent::give_up() {
  given_up_ = true;
  end();
}

void WarmParent::end() {
  socket_ = Descriptor();
  if (parent_ != 0) {
    kill(parent_, SIGKILL);
    int status = 0;
    while (waitpid(parent_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  parent_ = 0;
}

}  // namespace rubato::elastic
