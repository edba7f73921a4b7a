// Jobs on several nodes that share no memory: the bits equal those of one worker, whatever happens
// to workers, bridges, leaders and nodes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/json_text.h"
#include "elastic/job/ledger.h"
#include "elastic/job/node_names.h"
#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "elastic/sockets.h"
#include "elastic/transport/bridge_layout.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

class Nodes : public RuntimeTest {
 protected:
  static constexpr int kSteps = 1000;
  static constexpr int kLogical = 4;

  void TearDown() override {
    nodes_.clear();  // they write to the folder
    job_.reset();
    RuntimeTest::TearDown();
  }

  // Silence counts as a loss only in tests in which a worker is silent (runtime_fixture.h).
  static constexpr const char* kNotSoon = "60";
  static constexpr const char* kSoon = "1";

  void start_on_a(const char* failure_timeout_s) {
    job_ = start("job", toy(2, kLogical, kSteps,
                            {"--node", "a", "--failure-timeout", failure_timeout_s,
                             "--checkpoint-steps", "50", "--ledger", root_ + "/ledger"}));
  }
  // Two workers on node a, `on_b` on node b.
  void start_two_nodes(const char* failure_timeout_s = kNotSoon, int on_b = 2) {
    expected_ = undisturbed(1, kLogical, kSteps);
    start_on_a(failure_timeout_s);
    ASSERT_TRUE(job_->until([&] { return job_->step() > 5; })) << logs();
    join("b", on_b);
    ASSERT_TRUE(until_members({{"a", 2}, {"b", static_cast<std::size_t>(on_b)}})) << logs();
  }
  RunningNode& join(const std::string& node, int workers) {
    nodes_.push_back(std::make_unique<RunningNode>(test_paths::program("rubato"),
                                                   job_->folder().path(), node, workers));
    return *nodes_.back();
  }
  bool until_members(const std::map<std::string, std::size_t>& count) {
    return job_->until([&] {
      const View view = job_->view();
      std::size_t all = 0;
      for (const auto& [node, members] : count) {
        if (members_on(view, node).size() != members) return false;
        all += members;
      }
      return view.members.size() == all && job_->step() > view.first_step + 1;
    });
  }
  static void signal_worker(const Member& member, int signal) {
    kill(static_cast<pid_t>(member.address.pid), signal);
  }
  void expect_same_bits() {
    EXPECT_EQ(finish(*job_), 0) << logs();
    EXPECT_EQ(job_->hash(), expected_) << logs();
    const Result<LedgerSummary> ledger = check_ledger(root_ + "/ledger", 100);
    ASSERT_TRUE(ledger.ok()) << ledger.error().message << logs();
    EXPECT_EQ(ledger->steps, kSteps);
    for (const nlohmann::json& event : job_->events()) {
      if (event.value("cause", "") != "restart") {
        EXPECT_LE(event.value("steps_redone", 0), 1) << compact_json(event);
      }
    }
  }
  std::string logs() const {
    std::string all = job_->logs();
    for (const auto& node : nodes_) all += "--- launcher of " + node->node() + "\n" + node->log();
    return all;
  }

  std::string expected_;
  std::unique_ptr<RunningJob> job_;
  std::vector<std::unique_ptr<RunningNode>> nodes_;
};

TEST_F(Nodes, TwoNodesGiveTheBitsOfOneWorkerAndShareNoMemory) {
  start_two_nodes();
  const Result<JobSettings> settings = job_->folder().read_settings();
  ASSERT_TRUE(settings.ok());
  for (const Member& member : job_->view().members) {
    EXPECT_EQ(foreign_memory(member, settings->token), std::vector<std::string>());
  }
  expect_same_bits();
  EXPECT_EQ(nodes_.front()->wait(), 0) << logs();
  EXPECT_TRUE(events_of(*job_, "lost").empty()) << logs();
  EXPECT_TRUE(view_event(*job_, "failure").is_null()) << logs();
  EXPECT_EQ(view_event(*job_, "join").value("steps_redone", -1), 0);
}

TEST_F(Nodes, ANodeLeavesAndAnotherComes) {
  start_two_nodes();
  nodes_.front()->leave();
  ASSERT_TRUE(until_members({{"a", 2}})) << logs();
  EXPECT_EQ(nodes_.front()->wait(), 0) << logs();
  join("c", 1);
  ASSERT_TRUE(until_members({{"a", 2}, {"c", 1}})) << logs();
  expect_same_bits();
  EXPECT_TRUE(view_event(*job_, "failure").is_null()) << logs();
  EXPECT_FALSE(view_event(*job_, "leave").is_null()) << logs();
}

TEST_F(Nodes, ALostWorkerOfAnotherNodeCostsAStep) {
  start_two_nodes();
  const View view = job_->view();
  for (const Member& member : members_on(view, "b")) {
    if (member.address.id != gateway_of(view, "b")) signal_worker(member, SIGKILL);
  }
  ASSERT_TRUE(job_->until([&] { return job_->view().number > view.number; })) << logs();
  expect_same_bits();
  EXPECT_FALSE(view_event(*job_, "failure").is_null()) << logs();
}

TEST_F(Nodes, ALostBridgeIsSucceeded) {
  start_two_nodes();
  const View view = job_->view();
  signal_worker(*view.find(gateway_of(view, "b")), SIGKILL);
  ASSERT_TRUE(job_->until([&] { return job_->view().number > view.number; })) << logs();
  expect_same_bits();
}

TEST_F(Nodes, ALostLeaderIsSucceeded) {
  start_two_nodes();
  const View view = job_->view();
  signal_worker(*view.find(view.leader), SIGKILL);
  ASSERT_TRUE(job_->until([&] { return job_->view().number > view.number; })) << logs();
  expect_same_bits();
}

TEST_F(Nodes, AWholeNodeIsLostAndComesBack) {
  start_two_nodes();
  nodes_.front()->kill_all();
  ASSERT_TRUE(until_members({{"a", 2}})) << logs();
  join("b", 2);
  ASSERT_TRUE(until_members({{"a", 2}, {"b", 2}})) << logs();
  expect_same_bits();
}

// Its launcher starts other workers; the rest of the job continues.
TEST_F(Nodes, AllWorkersOfTheFirstNodeAreLost) {
  start_two_nodes();
  for (const Member& member : members_on(job_->view(), "a")) signal_worker(member, SIGKILL);
  ASSERT_TRUE(job_->until([&] { return members_on(job_->view(), "a").empty(); })) << logs();
  ASSERT_TRUE(until_members({{"a", 2}, {"b", 2}})) << logs();
  expect_same_bits();
  EXPECT_TRUE(view_event(*job_, "restart").is_null()) << logs();
}

TEST_F(Nodes, AStoppedBridgeIsExcludedAndCannotHarm) {
  start_two_nodes(kSoon);
  const View view = job_->view();
  const Member stopped = *view.find(gateway_of(view, "b"));
  signal_worker(stopped, SIGSTOP);
  ASSERT_TRUE(job_->until([&] { return job_->view().find(stopped.address.id) == nullptr; }))
      << logs();
  signal_worker(stopped, SIGCONT);
  expect_same_bits();
}

TEST_F(Nodes, AStoppedNodeIsExcludedAndCannotHarm) {
  start_two_nodes(kSoon);
  const std::vector<Member> stopped = members_on(job_->view(), "b");
  for (const Member& member : stopped) signal_worker(member, SIGSTOP);
  ASSERT_TRUE(job_->until([&] {
    const View view = job_->view();
    return view.find(stopped[0].address.id) == nullptr &&
           view.find(stopped[1].address.id) == nullptr;
  })) << logs();
  for (const Member& member : stopped) signal_worker(member, SIGCONT);
  ASSERT_TRUE(until_members({{"a", 2}, {"b", 2}})) << logs();
  expect_same_bits();
}

TEST_F(Nodes, WhenAllWorkersAreLostTheJobRestartsFromItsCheckpoint) {
  start_two_nodes();
  ASSERT_TRUE(job_->until([&] { return job_->checkpoint() >= 100; })) << logs();
  for (const Member& member : job_->view().members) signal_worker(member, SIGKILL);
  ASSERT_TRUE(job_->until([&] { return !view_event(*job_, "restart").is_null(); })) << logs();
  expect_same_bits();
  EXPECT_GE(view_event(*job_, "restart").value("step", 0), 100) << logs();
}

TEST_F(Nodes, TheFirstLauncherIsLostAndContinuesWhileTheOtherNodeTrains) {
  start_two_nodes();
  const std::int64_t before = job_->step();
  const int lost = members_on(job_->view(), "a").front().address.id;
  kill(job_->pid(), SIGKILL);
  job_->wait();
  start_on_a(kNotSoon);
  ASSERT_TRUE(job_->until([&] { return job_->view().find(lost) == nullptr; })) << logs();
  ASSERT_TRUE(until_members({{"a", 2}, {"b", 2}})) << logs();
  EXPECT_GT(job_->step(), before);
  expect_same_bits();
  EXPECT_TRUE(view_event(*job_, "restart").is_null()) << logs();
}

// At a job's first step, everybody already has the state. But a newcomer on a node without members
// sees a view begin only on a board that is fed, so it must not join before that.
TEST_F(Nodes, ANewcomerWaitsUntilItsBoardIsFed) {
  expected_ = undisturbed(1, kLogical, kSteps);
  set_fault("slow -1 30");
  job_ =
      start("job", faulty_toy(1, kLogical, kSteps, {"--node", "a", "--ledger", root_ + "/ledger"}));
  ASSERT_TRUE(job_->until([&] { return job_->view().number == 2; })) << logs();  // founded
  const View alone = job_->view();
  const Result<JobSettings> settings = job_->folder().read_settings();
  auto registry = FileRegistry::open(job_->folder().registry_folder());
  ASSERT_TRUE(settings.ok() && registry.ok());
  const Result<Board> theirs = Board::open(alone.board);
  ASSERT_TRUE(theirs.ok());
  // The board of node b exists, and its lock is held by somebody who does nothing.
  const auto next = static_cast<int>((*registry)->get(kWorkerRecord)->version);
  const std::string name = board_name(settings->token, "b", next);
  auto held = std::make_optional(Board::create(name, theirs->shape()));
  ASSERT_TRUE(held->ok() && (*held)->try_lock());
  join("b", 1);
  ASSERT_TRUE(job_->until([&] { return theirs->watchers() > 0 && job_->step() > 0; })) << logs();
  set_fault("");
  ASSERT_TRUE(job_->until([&] { return job_->step() > 20; })) << logs();
  EXPECT_EQ(job_->view().number, alone.number) << logs();
  held.reset();
  ASSERT_TRUE(until_members({{"a", 1}, {"b", 1}})) << logs();
  EXPECT_EQ(members_on(job_->view(), "b").front().address.board, name);
  expect_same_bits();
}

// The gateways of b and c lose each other, but the leader on node a loses neither. The leader
// cannot know, and b and c cannot continue together, so one of them tells it.
TEST_F(Nodes, TwoWhoLoseEachOtherAreNotWaitedFor) {
  start_two_nodes(kSoon, 1);
  join("c", 1);
  ASSERT_TRUE(until_members({{"a", 2}, {"b", 1}, {"c", 1}})) << logs();
  const View view = job_->view();
  const auto b = static_cast<pid_t>(view.find(gateway_of(view, "b"))->address.pid);
  const int id = gateway_of(view, "c");
  const auto c = static_cast<pid_t>(view.find(id)->address.pid);
  ASSERT_GT(id, gateway_of(view, "b"));  // so c connects, and b cannot be reached again
  if (!stop_listening(b)) GTEST_SKIP() << "this kernel does not support pidfd_getfd";
  for (const SocketOf& connection : connections_between(c, b)) {
    ASSERT_TRUE(shut_down(c, connection.remote_fd));
  }
  ASSERT_TRUE(job_->until([&] {
    const View now = job_->view();
    return now.find(id) == nullptr || now.find(gateway_of(view, "b")) == nullptr;
  })) << logs();
  expect_same_bits();
}

TEST_F(Nodes, NodesAreNamedOnce) {
  start_two_nodes();
  RunningNode& twice = join("b", 1);
  EXPECT_EQ(twice.wait(), 1);
  EXPECT_NE(twice.log().find("already has workers of this job"), std::string::npos) << twice.log();
  RunningNode& home = join("a", 1);
  EXPECT_EQ(home.wait(), 1);
  expect_same_bits();
}

}  // namespace
}  // namespace rubato::elastic
