// Streams between nodes that break, and holders of the secret that send nonsense on them.
#include <gtest/gtest.h>

#include "base/random.h"
#include "elastic/bridge_frame.h"
#include "elastic/bridge_layout.h"
#include "elastic/feed.h"
#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "elastic/sockets.h"

namespace rubato::elastic {
namespace {

class NodeStreams : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    expected_ = undisturbed(1, 4, kSteps);
    job_ = start("job", toy(2, 4, kSteps, {"--node", "a", "--failure-timeout", "1"}));
    ASSERT_TRUE(job_->until([&] { return job_->step() > 5; })) << job_->logs();
    node_ = std::make_unique<RunningNode>(RUBATO_PROGRAM, job_->folder().path(), "b", 2);
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

  static constexpr int kSteps = 900;
  std::string expected_;
  std::unique_ptr<RunningJob> job_;
  std::unique_ptr<RunningNode> node_;
};

// Everybody lives, so the same members go on; control connections are made again.
TEST_F(NodeStreams, ThatBreakAreOpenedAgainByAViewOfTheSameMembers) {
  const View view = job_->view();
  const auto a = static_cast<pid_t>(view.find(gateway_of(view, "a"))->address.pid);
  const auto b = static_cast<pid_t>(view.find(gateway_of(view, "b"))->address.pid);
  const int own = open("/dev/null", O_RDONLY);
  const int copy = borrow_descriptor(getpid(), own);
  close(own);
  if (copy < 0) GTEST_SKIP() << "this kernel does not lend descriptors (pidfd_getfd)";
  close(copy);
  const auto connections = connections_between(a, b);
  ASSERT_EQ(connections.size(), 2u);  // control and stream
  for (const SocketOf& connection : connections) {
    ASSERT_TRUE(shut_down(a, connection.remote_fd));
  }
  ASSERT_TRUE(job_->until([&] { return job_->view().number > view.number; })) << job_->logs();
  EXPECT_EQ(job_->view().ids(), view.ids()) << job_->logs();
  EXPECT_EQ(job_->view().cause, "failure");
  EXPECT_EQ(job_->wait(), 0) << job_->logs();
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
  const std::atomic<bool> never{false};
  for (int i = 0; i < 60; ++i) {
    const Member& member = view.members[random.below(4)];
    Result<Stream> stream = Stream::dial(member.address, {*secret, "job", std::to_string(1000 + i)},
                                         {{"stream", kFeedPurpose}}, never);
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
  EXPECT_EQ(job_->view().number, view.number) << job_->logs();
  EXPECT_EQ(job_->wait(), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected_) << job_->logs();
}

// What it is fed is what the members have: asked for step by step, and unit by unit.
TEST_F(NodeStreams, AFeedTellsWhatAMemberHas) {
  const View view = job_->view();
  const Result<std::string> secret = job_->folder().read_secret();
  ASSERT_TRUE(secret.ok());
  const std::atomic<bool> never{false};
  Result<Stream> stream = Stream::dial(view.members.front().address, {*secret, "job", "1000"},
                                       {{"stream", kFeedPurpose}}, never);
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
  EXPECT_EQ(job_->wait(), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected_) << job_->logs();
}

}  // namespace
}  // namespace rubato::elastic
