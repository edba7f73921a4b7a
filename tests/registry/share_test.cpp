// Launchers of jobs whose registry is a daemon's, with a played agent that answers for it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <list>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/registry.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/launcher.h"
#include "elastic/transport/line_socket.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

using nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(100);

// Answers for a registry in a folder, after it has refused so many calls.
class PlayedAgent {
 public:
  PlayedAgent(const std::string& socket, const std::string& registry, int refusals)
      : listener_(std::move(listen_at_file(socket).value())),
        registry_(registry),
        refusals_(refusals) {
    thread_ = std::thread([this] { run(); });
  }
  ~PlayedAgent() {
    stopping_ = true;
    thread_.join();
  }
  PlayedAgent(const PlayedAgent&) = delete;
  PlayedAgent& operator=(const PlayedAgent&) = delete;

  bool refuses() const { return refusals_ > 0; }

 private:
  struct Client {
    Descriptor socket;
    LineReader reader{1 << 20};
  };

  json answer(const json& call) {
    const std::string op = call.value("op", "");
    const std::string name = call.value("name", "");
    if (op == "watch") return json::object();
    if (refusals_ > 0) {
      --refusals_;
      return {{"error", "j1 is not a job of node a"}, {"code", "refused"}};
    }
    if (op == "get") {
      const Result<Record> record = registry_.get(name);
      return {{"version", record->version}, {"value", record->value}};
    }
    if (op == "at") {
      const auto value = registry_.at(name, call.value("version", std::int64_t{0}));
      return value->has_value() ? json{{"value", **value}} : json::object();
    }
    const auto won = registry_.compare_and_swap(name, call.value("expected", std::int64_t{0}),
                                                call.value("value", ""));
    return {{"won", *won}};
  }

  void run() {
    std::list<Client> clients;
    while (!stopping_) {
      std::vector<pollfd> entries{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const Client& client : clients) {
        entries.push_back({.fd = client.socket.get(), .events = POLLIN, .revents = 0});
      }
      if (::poll(entries.data(), entries.size(), 20) <= 0) continue;
      Descriptor fresh(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fresh.valid()) clients.push_back({.socket = std::move(fresh)});
      std::erase_if(clients, [&](Client& client) {
        const bool lost = !client.reader.receive(client.socket.get()).ok();
        while (const auto line = client.reader.next()) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
          static_cast<void>(
              send_all(client.socket.get(), answer(parse_json(*line)).dump() + "\n", until));
        }
        return lost;
      });
    }
  }

  const Descriptor listener_;
  FileRegistry registry_;
  std::atomic<int> refusals_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

class ShareTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-share-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    std::filesystem::create_directories(job().path());
  }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(root_);
  }
  JobFolder job() const { return JobFolder(root_ + "/job"); }
  std::string registry() const { return root_ + "/daemons"; }

  // In a process of its own, as a supervisor does. Its exit code is the state that it ended with,
  // or 100 after an error.
  pid_t start_launcher() const {
    const pid_t child = fork();
    if (child != 0) return child;
    LaunchOptions options{.folder = job().path()};
    options.settings.name = "share";
    options.settings.logical_workers = options.settings.max_workers = 2;
    options.command = {test_paths::program("toy_train"), "--steps", "5"};
    options.node.name = "a";
    options.founds = options.keep_target = options.quiet = true;
    options.listed = false;
    const Result<LaunchResult> result = launch_share(options);
    const std::string& message = result.ok() ? result->message : result.error().message;
    static_cast<void>(write_file(root_ + "/message", message));
    _exit(result.ok() ? static_cast<int>(result->state) : 100);
  }

  std::string root_;
};

// Seed 112 of the cluster's chaos: after the daemon was killed, a node asked for the registry of a
// job before the next daemon had put the job there, and the answer ended the job for good.
TEST_F(ShareTest, ALauncherWaitsForADaemonThatDoesNotKnowTheJobYet) {
  for (const std::string& folder : {registry(), job().registry_folder()}) {
    const auto made = FileRegistry::open(folder);
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE(change_target(**made, [](Target& target) {
                  target.workers = 1;
                  return ok_status();
                }).ok());
  }
  const pid_t launcher = start_launcher();
  ASSERT_GT(launcher, 0);
  PlayedAgent agent(job().desk_socket(), registry(), 20);
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (waitpid(launcher, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(launcher, SIGKILL);
      waitpid(launcher, &status, 0);
      FAIL() << "the launcher does not end";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(agent.refuses());
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(LaunchResult::State::kFinished))
      << read_file(root_ + "/message").value();
}

}  // namespace
}  // namespace rubato::elastic
