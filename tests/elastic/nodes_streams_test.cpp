// Streams between nodes that break, and holders of the secret that send garbage on them.
#include <gtest/gtest.h>

#include "base/random.h"
#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "elastic/sockets.h"
#include "elastic/transport/bridge_frame.h"
#include "elastic/transport/bridge_layout.h"
#include "elastic/transport/feed.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

class NodeStreams : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    expected_ = undisturbed(1, 4, kSteps);
    job_ = start("job", toy(2, 4, kSteps, {"--node", "a"}));
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

  // A stream that a member accepts. A dial is abandoned after a second (and repeated by those who
  // need it); a member that is not scheduled may take longer.
  static Result<Stream> dial_feed(const WorkerAddress& member, const std::string& secret,
                                  const std::string& worker) {
    const std::atomic<bool> never{false};
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      Result<Stream> stream =
          Stream::dial(member, {secret, "job", worker}, {{"stream", kFeedPurpose}}, never);
      if (stream.ok() || std::chrono::steady_clock::now() > deadline) return stream;
    }
  }

  static constexpr int kSteps = 1000;
  std::string expected_;
  std::unique_ptr<RunningJob> job_;
  std::unique_ptr<RunningNode> node_;
};

// Nobody is lost, so the same members continue; control connections are reestablished.
TEST_F(NodeStreams, ThatBreakAreOpenedAgainByAViewOfTheSameMembers) {
  const View view = job_->view();
  const auto a = static_cast<pid_t>(view.find(gateway_of(view, "a"))->address.pid);
  const auto b = static_cast<pid_t>(view.find(gateway_of(view, "b"))->address.pid);
  const int own = open("/dev/null", O_RDONLY);
  const int copy = borrow_descriptor(getpid(), own);
  close(own);
  if (copy < 0) GTEST_SKIP() << "this kernel does not support pidfd_getfd";
  close(copy);
  std::vector<SocketOf> connections;
  ASSERT_TRUE(job_->until([&] {
    connections = connections_between(a, b);
    return connections.size() == 2;  // control and stream; the feed of the newcomers has ended
  })) << job_->logs();
  for (const SocketOf& connection : connections) {
    ASSERT_TRUE(shut_down(a, connection.remote_fd));
  }
  ASSERT_TRUE(job_->until([&] { return !view_event(*job_, "failure").is_null(); })) << job_->logs();
  EXPECT_EQ(view_event(*job_, "failure").value("members", std::vector<int>()), view.ids());
  EXPECT_EQ(finish(*job_), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected_) << job_->logs();
  EXPECT_TRUE(events_of(*job_, "lost").empty()) << job_->logs();
}

TEST_F(NodeStreams, NonsenseOnAFeedEndsTheFeedAndNothingElse) {
  constexpr std::uint64_t kSeed = 3;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  const View view = job_->view();
  const Result<std::string> secret = job_->folder().read_secret();
  ASSERT_TRUE(secret.ok());
  for (int i = 0; i < 60; ++i) {
    const Member& member = view.members[random.below(4)];
    Result<Stream> stream = dial_feed(member.address, *secret, std::to_string(1000 + i));
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    BridgeHeader header{.type = BridgeFrame::kUnit, .member = 1 << 30};
    if (i % 3 == 1) header = {.type = BridgeFrame::kNext, .payload_bytes = 1};
    BridgeHeaderBytes bytes = encode(header);
    if (i % 3 == 2) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    }
    ASSERT_TRUE(stream->send(bytes));
    std::array<std::byte, 1> answer;
    EXPECT_FALSE(stream->receive(answer));
  }
  EXPECT_EQ(job_->view().ids(), view.ids()) << job_->logs();
  EXPECT_EQ(finish(*job_), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected_) << job_->logs();
  EXPECT_TRUE(events_of(*job_, "lost").empty()) << job_->logs();
  EXPECT_TRUE(view_event(*job_, "failure").is_null()) << job_->logs();
}

// A feed delivers what the members have, step by step and unit by unit.
TEST_F(NodeStreams, AFeedTellsWhatAMemberHas) {
  const View view = job_->view();
  const Result<std::string> secret = job_->folder().read_secret();
  ASSERT_TRUE(secret.ok());
  Result<Stream> stream = dial_feed(view.members.front().address, *secret, "1000");
  ASSERT_TRUE(stream.ok()) << stream.error().message;
  const auto ask = [&](const BridgeHeader& request) {
    BridgeHeaderBytes bytes;
    EXPECT_TRUE(stream->send(encode(request)) && stream->receive(bytes));
    const std::optional<BridgeHeader> answer = decode_bridge_header(bytes);
    EXPECT_TRUE(answer);
    std::vector<std::byte> payload(answer ? answer->payload_bytes : 0);
    EXPECT_TRUE(stream->receive(payload));
    return answer.value_or(BridgeHeader{});
  };
  const BridgeHeader snapshot = ask({.type = BridgeFrame::kNext});
  ASSERT_EQ(snapshot.type, BridgeFrame::kSnapshot);
  EXPECT_GE(snapshot.view, view.number);
  EXPECT_EQ(snapshot.next_members, 4);
  const BridgeHeader unit = ask({.type = BridgeFrame::kUnit, .member = 0});
  ASSERT_EQ(unit.type, BridgeFrame::kUnitData);
  EXPECT_GE(unit.step, snapshot.step);
  BridgeHeader step =
      ask({.type = BridgeFrame::kNext, .view = snapshot.view, .step = snapshot.step});
  if (step.type == BridgeFrame::kNothing) return;  // nobody trained meanwhile
  ASSERT_EQ(step.type, BridgeFrame::kStep);
  EXPECT_GT(step.step, snapshot.step);
  EXPECT_EQ(finish(*job_), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected_) << job_->logs();
}

}  // namespace
}  // namespace rubato::elastic
