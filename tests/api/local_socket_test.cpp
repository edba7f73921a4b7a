// The unix socket: the kernel says who calls, no token is needed.
#include "api/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "api/api_fixture.h"

namespace rubato::api {
namespace {

// The status of a request that a process of this user sends; 0 if there is no response. The child
// makes only system calls, because this process has other threads.
int status_for(uid_t user, const std::string& path, const std::string& request) {
  const pid_t child = fork();
  if (child == 0) {
    if (user != geteuid() && setresuid(user, user, user) != 0) _exit(99);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    const int file = socket(AF_UNIX, SOCK_STREAM, 0);
    std::array<char, 16> text{};
    if (connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        write(file, request.data(), request.size()) != static_cast<ssize_t>(request.size()) ||
        read(file, text.data(), 12) != 12) {
      _exit(0);
    }
    _exit((text[9] - '0') * 50 + (text[10] - '0') * 10 + (text[11] - '0'));  // 200: 100, 403: 203
  }
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WEXITSTATUS(status);
  return code >= 200 ? 400 + code - 200 : code >= 100 ? 200 + code - 100 : code;
}

TEST(LocalSocket, TheKernelSaysWhoCalls) {
  const std::string root = std::filesystem::temp_directory_path() / "rubato-socket-XXXXXX";
  std::string folder = root;
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::permissions(folder, std::filesystem::perms(0711));
  const control::Caller admin{.tenant = "", .admin = true};
  auto controller = control::Controller::start(
      {.folder = folder + "/state", .supervisor = "/bin/false", .machine = {.devices = 1}});
  ASSERT_TRUE(controller.ok()) << controller.error().message;
  const std::string path = folder + "/s";
  auto server = Server::start(**controller, {.local_socket = path});
  ASSERT_TRUE(server.ok()) << server.error().message;
  const std::string ask = "GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string admins = "GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string with_token =
      "GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n";
  EXPECT_EQ(status_for(geteuid(), path, ask), 200);
  EXPECT_EQ(status_for(geteuid(), path, admins), 200);
  EXPECT_EQ(status_for(geteuid(), path, with_token), 401) << "a token that is given counts";
  if (geteuid() == 0) {
    EXPECT_EQ(status_for(64'003, path, ask), 403);
    ASSERT_TRUE((*controller)->set_tenant(admin, "vision", {}).ok());
    ASSERT_TRUE((*controller)->set_tenant(admin, "vision", {.user = "64003"}).ok());
    EXPECT_EQ(status_for(64'003, path, ask), 200);
    EXPECT_EQ(status_for(64'003, path, admins), 403);
    EXPECT_EQ(status_for(64'004, path, ask), 403);
  }
  server->reset();
  EXPECT_EQ(status_for(geteuid(), path, ask), 0);
  auto next = Server::start(**controller, {.local_socket = path});  // replaces the old socket
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ(status_for(geteuid(), path, ask), 200);
  next->reset();
  controller->reset();
  std::filesystem::remove_all(folder);
}

TEST(LocalSocket, OnlyTheKernelsAddressNamesAUser) {
  EXPECT_EQ(local_user("unix:0"), uid_t{0});
  EXPECT_EQ(local_user("unix:64003"), uid_t{64'003});
  EXPECT_FALSE(local_user("127.0.0.1").has_value());
  EXPECT_FALSE(local_user("unix:").has_value());
  EXPECT_FALSE(local_user("unix:-1").has_value());
}

}  // namespace
}  // namespace rubato::api
