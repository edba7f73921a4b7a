// Slow workers host fewer logical workers or are replaced by spares; the bits never change.
#include <gtest/gtest.h>

#include "elastic/runtime_fixture.h"

namespace rubato::elastic {
namespace {

using Stragglers = RuntimeTest;

int hosted_by(const View& view, int worker) {
  const Member* member = view.find(worker);
  return member == nullptr ? 0 : member->hosts.size();
}

TEST_F(Stragglers, HostFewerUntilTheyAreWell) {
  const std::string expected = undisturbed(1, 8, 400);
  set_fault("");
  auto job = start("job", faulty_toy(2, 8, 400));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  ASSERT_EQ(hosted_by(job->view(), 1), 4);
  set_fault("slow 1 3");
  ASSERT_TRUE(job->until([&] { return hosted_by(job->view(), 1) == 2; })) << job->logs();
  set_fault("");
  ASSERT_TRUE(job->until([&] { return hosted_by(job->view(), 1) == 4; })) << job->logs();
  EXPECT_EQ(job->wait(), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  const auto flagged = events_of(*job, "straggler");
  ASSERT_FALSE(flagged.empty());
  EXPECT_EQ(flagged[0].value("worker", -1), 1);
  EXPECT_GT(flagged[0].value("slowdown", 0.0), 1.2);
  ASSERT_FALSE(events_of(*job, "recovered").empty());
  EXPECT_EQ(view_event(*job, "rebalance").value("steps_redone", -1), 0);
}

// The leader judges itself like everybody else.
TEST_F(Stragglers, ASlowLeaderHostsFewer) {
  const std::string expected = undisturbed(1, 6, 200);
  set_fault("");
  auto job = start("job", faulty_toy(3, 6, 200));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  const int leader = job->view().leader;
  set_fault(fmt::format("slow {} 4", leader));
  ASSERT_TRUE(job->until([&] { return hosted_by(job->view(), leader) == 1; })) << job->logs();
  EXPECT_EQ(job->wait(), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

TEST_F(Stragglers, AreReplacedByASpare) {
  const std::string expected = undisturbed(1, 4, 600);
  set_fault("");
  auto job = start("job", faulty_toy(2, 4, 600, {"--spares", "1"}));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  EXPECT_EQ(job->view().members.size(), 2u);
  const View before = job->view();
  const int slow = before.members[before.members[0].address.id == before.leader ? 1 : 0].address.id;
  set_fault(fmt::format("slow {} 3", slow));
  ASSERT_TRUE(job->until([&] { return job->view().find(slow) == nullptr; })) << job->logs();
  EXPECT_EQ(job->view().members.size(), 2u);
  EXPECT_EQ(job->wait(), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_EQ(view_event(*job, "replace").value("steps_redone", -1), 0) << job->logs();
}

TEST_F(Stragglers, AKilledWorkerIsReplacedByASpareInTheNextView) {
  const std::string expected = undisturbed(1, 4, 600);
  auto job = start("job", toy(2, 4, 600, {"--spares", "1"}));
  const auto spare_ready = [&] {
    const View view = job->view();
    const Result<Board> board = Board::open(view.board);
    return view.members.size() == 2 && board.ok() && board->ready_newcomers() == 1;
  };
  for (const bool leads : {false, true}) {
    ASSERT_TRUE(job->until(spare_ready)) << job->logs();
    const View before = job->view();
    const int victim =
        leads ? before.leader
              : before.members[before.members[0].address.id == before.leader ? 1 : 0].address.id;
    kill(static_cast<pid_t>(before.find(victim)->address.pid), SIGKILL);
    ASSERT_TRUE(job->until([&] {
      const View now = job->view();
      return now.number >= before.number + 2 && now.members.size() == 2;
    })) << job->logs();
    EXPECT_EQ(job->view().find(victim), nullptr);
    EXPECT_EQ(job->view().number, before.number + 2) << job->logs();
  }
  EXPECT_EQ(job->wait(), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

}  // namespace
}  // namespace rubato::elastic
