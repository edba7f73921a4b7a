#include "elastic/launch/warm_copy.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "elastic/launch/warm_parent.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

namespace {

constexpr std::size_t kLongestRequest = 1 << 20;
constexpr useconds_t kParentLookUs = 500;

struct Offer {
  Descriptor socket;
  pid_t launcher = 0;
};

std::optional<Offer> take_offer() {
  const char* const variable = std::getenv(kWarmVariable);
  const std::string text = variable != nullptr ? variable : "";
  unsetenv(kWarmVariable);
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto socket = parse_int(text.substr(0, colon));
  const auto launcher = parse_int(text.substr(colon + 1));
  if (!socket || *socket <= STDERR_FILENO || !launcher) return std::nullopt;
  return Offer{Descriptor(static_cast<int>(*socket)), static_cast<pid_t>(*launcher)};
}

std::size_t threads() {
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/task", error), end;
       !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return count;
}

bool has_opened_a_gpu() {
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(*entry, gone).string().starts_with("/dev/nvidia"))
      return true;
  }
  return false;
}

bool is_closed(int socket) {
  pollfd entry{socket, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;  // nothing is sent at this time
}

// True in the new process. The one between ends at once, which makes the launcher its parent.
bool fork_child_of(pid_t launcher, int socket) {
  const pid_t between = fork();
  if (between < 0) return false;
  if (between > 0) {
    int status = 0;
    while (waitpid(between, &status, 0) < 0 && errno == EINTR) {
    }
    return false;
  }
  if (fork() != 0) _exit(0);
  while (getppid() != launcher) {
    if (is_closed(socket)) _exit(0);
    usleep(kParentLookUs);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(0);
  setpgid(0, 0);
  return true;
}

struct Request {
  std::string environment;  // NAME=VALUE, each with a final 0
  Descriptor control;
  Descriptor log;
};

// The next one. Nothing: it was not complete. Ends the process when the launcher has closed the
// socket.
std::optional<Request> next_request(int socket, std::vector<char>& space) {
  std::array<int, 2> descriptors{-1, -1};
  iovec part{space.data(), space.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && errno == EINTR) return std::nullopt;
  if (got <= 0) _exit(0);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof descriptors)) {
    return std::nullopt;
  }
  std::memcpy(descriptors.data(), CMSG_DATA(header), sizeof descriptors);
  Request request{std::string(space.data(), static_cast<std::size_t>(got)),
                  Descriptor(descriptors[0]), Descriptor(descriptors[1])};
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return std::nullopt;
  return request;
}

// In a worker that was just forked. Returns when the launcher knows it.
void become_worker(const Request& request) {
  dup2(request.log.get(), STDOUT_FILENO);
  dup2(request.log.get(), STDERR_FILENO);
  std::string_view rest = request.environment;
  while (!rest.empty()) {
    const std::string variable(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), variable.size() + 1));
    const std::size_t sign = variable.find('=');
    if (sign == std::string::npos) continue;
    setenv(variable.substr(0, sign).c_str(), variable.substr(sign + 1).c_str(), 1);
  }
  std::array<char, 16> word{};
  if (send(request.control.get(), "here", 4, MSG_NOSIGNAL) != 4) _exit(0);
  ssize_t got = 0;
  while ((got = recv(request.control.get(), word.data(), word.size(), 0)) < 0 && errno == EINTR) {
  }
  if (got <= 0) _exit(0);
}

// Forks a worker for each request. Returns in the worker; the copy itself never does.
void serve(int socket, pid_t launcher) {
  std::vector<char> space(kLongestRequest);
  for (;;) {
    const std::optional<Request> request = next_request(socket, space);
    if (!request || !fork_child_of(launcher, request->control.get())) continue;
    become_worker(*request);
    return;
  }
}

}  // namespace

void leave_warm_copy() {
  const std::optional<Offer> offer = take_offer();
  if (!offer || getppid() != offer->launcher || threads() != 1 || has_opened_a_gpu()) return;
  std::fflush(nullptr);  // what is buffered would be written by every copy
  if (!fork_child_of(offer->launcher, offer->socket.get())) return;
  std::array<char, 16> name{};
  prctl(PR_GET_NAME, name.data());
  prctl(PR_SET_NAME, "rubato-warm");  // for ps and top
  if (send(offer->socket.get(), "ready", 5, MSG_NOSIGNAL) != 5) _exit(0);
  serve(offer->socket.get(), offer->launcher);
  prctl(PR_SET_NAME, name.data());
}

void turn_down_warm_offer() { static_cast<void>(take_offer()); }

}  // namespace rubato::elastic
