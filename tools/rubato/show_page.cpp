#include "show_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "api/front.h"
#include "control/tokens.h"
#include "interrupt.h"

extern char** environ;

namespace rubato::cli {

namespace {

bool has_display() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return true;
  }
  return false;
}

// Starts xdg-open in a session of its own: the browser outlives this command. -1: cannot be
// started.
pid_t start_xdg_open(std::string path) {
  std::string program = "xdg-open";
  const std::array<char*, 3> words{program.data(), path.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t child = -1;
  const int code =
      posix_spawnp(&child, program.c_str(), &files, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return code == 0 ? child : -1;
}

// Without a desktop, xdg-open becomes the browser itself and stays: no answer is a good sign.
bool seems_to_open(pid_t child) {
  for (int i = 0; i < 100; ++i) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// The path as an address: everything but plain characters is escaped.
std::string file_url(const std::string& path) {
  std::string url = "file://";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    url += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

}  // namespace

void open_in_browser(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  const char* problem = nullptr;
  if (!has_display()) {
    problem = "there is no display here";
  } else if (const pid_t child = start_xdg_open(absolute); child < 0) {
    problem = "xdg-open is not installed";
  } else if (!seems_to_open(child)) {
    problem = "xdg-open found no browser";
  }
  if (problem == nullptr) return;
  fmt::print(stderr, "{}: open {} in a browser, or run 'rubato report DIR --serve'\n", problem,
             file_url(absolute));
}

Status serve_page(const std::string& page, int port) {
  const Result<std::string> secret = control::random_token();
  if (!secret) return secret.error();
  const std::string path = "/" + *secret;
  api::Front front(
      {}, nullptr,
      [&](const httplib::Request& request, httplib::Response& response, const api::Front::Gone&) {
        response.set_header("X-Content-Type-Options", "nosniff");
        response.set_header("Referrer-Policy", "no-referrer");
        response.set_header("Cache-Control", "no-store");
        if (request.path != path || request.method != "GET") {
          response.status = 404;
          response.set_content("no such page\n", "text/plain");
          return;
        }
        response.set_header("Content-Security-Policy", "frame-ancestors 'none'");
        response.set_content(page, "text/html; charset=utf-8");
      });
  if (Status listens = front.listen_on("127.0.0.1", port); !listens) return listens;
  const InterruptNoted noted;
  fmt::print("http://127.0.0.1:{}{}\n", front.port(), path);
  std::fflush(stdout);
  fmt::print(stderr,
             "serving until you press Ctrl-C; from another machine: ssh -L {0}:127.0.0.1:{0} "
             "THIS-MACHINE, then the same address\n",
             front.port());
  while (!interrupted()) ::poll(nullptr, 0, 200);
  front.stop_all();
  return ok_status();
}

}  // namespace rubato::cli
