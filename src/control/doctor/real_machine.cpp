#include "control/doctor/real_machine.h"

#include <fcntl.h>
#include <link.h>
#include <linux/magic.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "control/doctor/clean_text.h"

namespace rubato::control::doctor {

namespace {

constexpr std::size_t kMostRead = 1 << 20;

std::string network_filesystem(const std::string& path) {
  constexpr std::uint64_t kCifs = 0xFF534D42;
  constexpr std::uint64_t kSmb2 = 0xFE534D42;
  constexpr std::uint64_t kLustre = 0x0BD00BD0;
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return "";
  switch (static_cast<std::uint64_t>(info.f_type) & 0xFFFFFFFF) {
    case NFS_SUPER_MAGIC:
      return "NFS";
    case kCifs:
    case kSmb2:
      return "CIFS";
    case kLustre:
      return "Lustre";
    case AFS_SUPER_MAGIC:
      return "AFS";
    default:
      return "";
  }
}

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::optional<bool> kernel_says_synchronised() {
  timex state{};  // modes 0: only asks
  const int code = ::adjtimex(&state);
  if (code < 0) return std::nullopt;
  return code != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
}

std::uint64_t limit_of(decltype(RLIMIT_CORE) what) {
  rlimit limit{};
  if (::getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur;
}

// Whether a client reaches the listening socket: one can also listen on an interface that is down.
bool can_connect(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(listener, name, &size) != 0) return false;
  const int client = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client < 0) return false;
  const bool connected = ::connect(client, name, size) == 0;
  const int code = errno;
  ::close(client);
  errno = code;
  return connected;
}

// The dynamic loader of this program, which loads other programs of this machine as well.
std::string own_loader() {
  std::string loader;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_INTERP) continue;
          const auto address = info->dlpi_addr + header.p_vaddr;
          // NOLINTNEXTLINE(performance-no-int-to-ptr): where the loader has put the name
          *static_cast<std::string*>(result) = reinterpret_cast<const char*>(address);
        }
        return 1;  // the program itself comes first
      },
      &loader);
  return loader;
}

}  // namespace

std::optional<std::string> RealMachine::read(const std::string& path) const {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  while (text.size() < kMostRead && (got = ::read(file, piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(file);
  if (got < 0) return std::nullopt;
  return text;
}

FileInfo RealMachine::file(const std::string& path) const {
  struct stat info {};
  if (path.empty() || ::stat(path.c_str(), &info) != 0) return {};
  return {.exists = true,
          .folder = S_ISDIR(info.st_mode),
          .writable = ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0,
          .mode = info.st_mode & 07777U,
          .owner = info.st_uid};
}

std::vector<std::string> RealMachine::list(const std::string& folder) const {
  const auto names = list_directory(folder);
  return names.ok() ? *names : std::vector<std::string>();
}

std::string RealMachine::real_path(const std::string& path) const {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         std::free);
  return real ? real.get() : path;
}

std::optional<Space> RealMachine::space(const std::string& path) const {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return Space{.total_bytes = std::uint64_t{info.f_blocks} * info.f_frsize,
               .free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize,
               .free_files = info.f_favail,
               .counts_files = info.f_files > 0,
               .network_filesystem = network_filesystem(path)};
}

std::string RealMachine::environment(const std::string& name) const {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

unsigned RealMachine::user() const { return ::geteuid(); }

int RealMachine::usable_cpus() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Clocks RealMachine::clocks() const {
  const double wall = seconds_of(CLOCK_REALTIME);
  const double monotonic = seconds_of(CLOCK_MONOTONIC);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return {.wall_s = wall,
          .wall_passed_s = seconds_of(CLOCK_REALTIME) - wall,
          .monotonic_passed_s = seconds_of(CLOCK_MONOTONIC) - monotonic,
          .synchronised = kernel_says_synchronised()};
}

Limits RealMachine::limits() const {
  return {.open_files = limit_of(RLIMIT_NOFILE),
          .core_bytes = limit_of(RLIMIT_CORE),
          .processes = limit_of(RLIMIT_NPROC)};
}

Libraries RealMachine::libraries(const std::string& program) const {
  const std::string loader = own_loader();
  if (loader.empty()) return {.problem = "this program has no dynamic loader to ask"};
  const Ran listed = run({loader, "--list", program}, std::chrono::seconds(20));
  if (listed.end != Ran::End::kEnded) return {.problem = "the dynamic loader did not answer"};
  return parse_library_list(listed.output + listed.errors, listed.code == 0);
}

Libraries parse_library_list(std::string_view text, bool succeeded) {
  Libraries result{.loadable = succeeded, .problem = succeeded ? "" : first_line(text)};
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t arrow = line.find(" => ");
    if (arrow == std::string_view::npos) continue;
    const std::string name(trim(line.substr(0, arrow)));
    const std::string_view target = trim(line.substr(arrow + 4));
    if (target.starts_with('/')) {
      result.found.push_back({name, std::string(target.substr(0, target.rfind(" (")))});
      continue;
    }
    result.found.push_back({name, ""});
    if (result.loadable) result.problem = name + " is not found";
    result.loadable = false;
  }
  return result;
}

Port RealMachine::port(const std::string& host, int number) const {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(number).c_str(), &hints, &found);
      code != 0) {
    return {Port::State::kUnusable, ::gai_strerror(code)};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {Port::State::kUnusable, std::strerror(errno)};
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // as the daemon does
  const bool usable = ::bind(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                      ::listen(socket, 1) == 0 && can_connect(socket);
  const int code = errno;
  ::close(socket);
  if (usable) return {Port::State::kFree, ""};
  if (code == EADDRINUSE) return {Port::State::kTaken, ""};
  return {Port::State::kUnusable, std::strerror(code)};
}

Answer RealMachine::get(const std::string& url) const {
  return get_ ? get_(url) : Answer{.status = 0, .body = "", .problem = "not asked"};
}

}  // namespace rubato::control::doctor
