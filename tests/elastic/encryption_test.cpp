// A job on two nodes whose workers encrypt what they send each other: the same bits, nothing to
// read on the way, and whatever somebody inserts costs a repeated step at most.
#include <gtest/gtest.h>

#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "elastic/sockets.h"
#include "elastic/transport/bridge_layout.h"
#include "elastic/transport/mesh.h"
#include "elastic/transport/wire.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

constexpr const char* kBridgeFrame = "RBG2";  // begins every frame between nodes

class Encryption : public RuntimeTest {
 protected:
  void start_two_nodes(bool encrypt) {
    std::vector<std::string> options{"--node", "a"};
    if (encrypt) options.emplace_back("--encrypt");
    job_ = start("job", toy(2, 4, kSteps, options));
    ASSERT_TRUE(job_->until([&] { return job_->step() > 5; })) << job_->logs();
    node_ =
        std::make_unique<RunningNode>(test_paths::program("rubato"), job_->folder().path(), "b", 2);
    ASSERT_TRUE(job_->until([&] {
      const View view = job_->view();
      return view.members.size() == 4 && job_->step() > view.first_step;
    })) << job_->logs();
  }
  void TearDown() override {
    node_.reset();
    job_.reset();
    RuntimeTest::TearDown();
  }
  pid_t gateway(const std::string& node) const {
    const View view = job_->view();
    return static_cast<pid_t>(view.find(gateway_of(view, node))->address.pid);
  }
  // What waits to be read on the connections between the nodes, seen many times.
  std::string bytes_on_the_way() const {
    std::string seen;
    EXPECT_TRUE(job_->until([&] {
      for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "a")}) {
        const pid_t reader = gateway(to);
        for (const SocketOf& socket : connections_between(reader, gateway(from))) {
          const int copy = borrow_descriptor(reader, socket.remote_fd);
          std::string bytes(1 << 16, '\0');
          const ssize_t n = recv(copy, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
          close(copy);
          if (n > 0) seen.append(bytes, 0, static_cast<std::size_t>(n));
        }
      }
      return seen.size() > 20'000;
    })) << seen.size()
        << job_->logs();
    return seen;
  }
  static bool can_borrow() {
    const int own = open("/dev/null", O_RDONLY);
    const int copy = borrow_descriptor(getpid(), own);
    close(own);
    if (copy >= 0) close(copy);
    return copy >= 0;
  }

  static constexpr int kSteps = 1000;
  std::unique_ptr<RunningJob> job_;
  std::unique_ptr<RunningNode> node_;
};

TEST_F(Encryption, HidesWhatWorkersSendAndKeepsTheBits) {
  if (!can_borrow()) GTEST_SKIP() << "this kernel does not support pidfd_getfd";
  const std::string expected = undisturbed(1, 4, kSteps);
  for (const bool encrypt : {false, true}) {
    SCOPED_TRACE(encrypt);
    start_two_nodes(encrypt);
    EXPECT_EQ(bytes_on_the_way().find(kBridgeFrame) == std::string::npos, encrypt);
    EXPECT_EQ(finish(*job_), 0) << job_->logs();
    EXPECT_EQ(job_->hash(), expected) << job_->logs();
    EXPECT_TRUE(view_event(*job_, "failure").is_null()) << job_->logs();
    node_.reset();
    job_.reset();
    std::filesystem::rename(root_ + "/job", root_ + (encrypt ? "/encrypted" : "/plain"));
  }
}

// Somebody who can write to the connections between two nodes inserts bytes into all of them.
TEST_F(Encryption, BytesThatSomebodyInsertsCostAStepAndNeverABit) {
  if (!can_borrow()) GTEST_SKIP() << "this kernel does not support pidfd_getfd";
  const std::string expected = undisturbed(1, 4, kSteps);
  start_two_nodes(true);
  const View view = job_->view();
  const std::string ping = encode_frame(static_cast<std::uint8_t>(Message::kPing), "{}");
  std::vector<SocketOf> connections;
  ASSERT_TRUE(job_->until([&] {
    connections = connections_between(gateway("a"), gateway("b"));
    return connections.size() == 2;  // control and stream; the feed of the newcomers has ended
  })) << job_->logs();
  for (const SocketOf& connection : connections) {
    const int copy = borrow_descriptor(gateway("a"), connection.remote_fd);
    EXPECT_EQ(send(copy, ping.data(), ping.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(ping.size()));
    close(copy);
  }
  ASSERT_TRUE(job_->until([&] { return !view_event(*job_, "failure").is_null(); })) << job_->logs();
  EXPECT_EQ(view_event(*job_, "failure").value("members", std::vector<int>()), view.ids());
  ASSERT_TRUE(job_->until([&] { return !events_of(*job_, "error").empty(); })) << job_->logs();
  EXPECT_NE(events_of(*job_, "error").front().value("message", "").find("a control frame of type"),
            std::string::npos);
  EXPECT_EQ(finish(*job_), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected) << job_->logs();
  EXPECT_TRUE(events_of(*job_, "lost").empty()) << job_->logs();
}

// Workers of both kinds would refuse each other.
TEST_F(Encryption, IsDecidedWhenAJobBegins) {
  for (const bool encrypt : {false, true}) {
    SCOPED_TRACE(encrypt);
    const std::string name = encrypt ? "encrypted" : "plain";
    const auto run = [&](bool ask) {
      return start(name,
                   toy(1, 2, kSteps,
                       ask ? std::vector<std::string>{"--encrypt"} : std::vector<std::string>{}));
    };
    job_ = run(encrypt);
    ASSERT_TRUE(job_->until([&] { return job_->step() > 3; })) << job_->logs();
    kill(job_->pid(), SIGINT);
    EXPECT_EQ(job_->wait(), 0) << job_->logs();
    job_ = run(!encrypt);
    if (!encrypt) {
      EXPECT_NE(job_->wait(), 0);
      EXPECT_NE(job_->logs().find("holds a job that does not encrypt"), std::string::npos)
          << job_->logs();
      continue;
    }
    EXPECT_EQ(finish(*job_), 0) << job_->logs();
    const Result<JobSettings> settings = job_->folder().read_settings();
    ASSERT_TRUE(settings.ok());
    EXPECT_TRUE(settings->encrypt);
  }
}

}  // namespace
}  // namespace rubato::elastic
