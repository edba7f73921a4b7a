// Slow workers host fewer logical workers or are replaced by spares; the bits never change.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_text.h"
#include "elastic/runtime_fixture.h"

namespace rubato::elastic {
namespace {

using Stragglers = RuntimeTest;

int hosted_by(const View& view, int worker) {
  const Member* member = view.find(worker);
  return member == nullptr ? 0 : member->hosts.size();
}

View recorded_view(const RunningJob& job, std::int64_t number) {
  const auto registry = FileRegistry::open(job.folder().registry_folder());
  const auto record = (*registry)->at(kViewRecord, number);
  const Result<View> view = parse_view(parse_json(**record));
  return view.ok() ? *view : View{};
}

TEST_F(Stragglers, HostFewerUntilTheyAreWell) {
  const std::string expected = undisturbed(1, 8, 1000);
  set_fault("slow 1 4");  // from the first step on, so that nothing else makes a worker slow first
  auto job = start("job", faulty_toy(2, 8, 1000));
  // How many fewer depends on the measured slowdown, and thus on the load of the machine.
  ASSERT_TRUE(job->until([&] {
    const int hosted = hosted_by(job->view(), 1);
    return hosted > 0 && hosted <= 2;
  })) << job->logs();
  set_fault("");
  ASSERT_TRUE(job->until([&] { return hosted_by(job->view(), 1) >= 4; })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  const auto flagged = events_of(*job, "straggler");
  ASSERT_FALSE(flagged.empty());
  EXPECT_EQ(flagged[0].value("worker", -1), 1);
  EXPECT_GT(flagged[0].value("slowdown", 0.0), 1.2);
  const auto recovered = events_of(*job, "recovered");
  EXPECT_TRUE(std::any_of(recovered.begin(), recovered.end(), [](const nlohmann::json& event) {
    return event.value("worker", -1) == 1;
  })) << job->logs();
  EXPECT_EQ(view_event(*job, "rebalance").value("steps_redone", -1), 0);
}

// The leader judges itself like every other worker.
TEST_F(Stragglers, ASlowLeaderHostsFewer) {
  const std::string expected = undisturbed(1, 6, 1000);
  set_fault("");
  auto job = start("job", faulty_toy(3, 6, 1000));
  ASSERT_TRUE(job->until([&] { return !job->view().empty(); })) << job->logs();
  const int leader = job->view().leader;  // known before the first step
  set_fault(fmt::format("slow {} 4", leader));
  ASSERT_TRUE(job->until([&] { return hosted_by(job->view(), leader) == 1; })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

TEST_F(Stragglers, AreReplacedByASpare) {
  const std::string expected = undisturbed(1, 4, 1000);
  set_fault("");
  auto job = start("job", faulty_toy(2, 4, 1000, {"--spares", "1"}));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  EXPECT_EQ(job->view().members.size(), 2u);
  const View before = job->view();
  const int slow = before.members[before.members[0].address.id == before.leader ? 1 : 0].address.id;
  set_fault(fmt::format("slow {} 4", slow));
  ASSERT_TRUE(job->until([&] { return job->view().find(slow) == nullptr; })) << job->logs();
  EXPECT_EQ(job->view().members.size(), 2u);
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_EQ(view_event(*job, "replace").value("steps_redone", -1), 0) << job->logs();
}

TEST_F(Stragglers, AKilledWorkerIsReplacedByASpareInTheNextView) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start("job", toy(2, 4, 1000, {"--spares", "1"}));
  const auto spare_ready = [&] {
    const View view = job->view();
    const Result<Board> board = Board::open(view.board);
    return view.members.size() == 2 && job->step() > view.first_step + 1 && board.ok() &&
           board->ready_newcomers() == 1;
  };
  for (const bool leads : {false, true}) {
    ASSERT_TRUE(job->until(spare_ready)) << job->logs();
    const View before = job->view();
    const int victim =
        leads ? before.leader
              : before.members[before.members[0].address.id == before.leader ? 1 : 0].address.id;
    kill(static_cast<pid_t>(before.find(victim)->address.pid), SIGKILL);
    View now;
    ASSERT_TRUE(job->until([&] {
      now = job->view();
      return now.find(victim) == nullptr && now.members.size() == 2;
    })) << job->logs();
    // The view after the loss has the spare. (There is no loss if the busy machine made the victim
    // slow and the spare replaced it just before.)
    for (std::int64_t number = before.number + 1; number < now.number; ++number) {
      if (recorded_view(*job, number).cause != "failure") continue;
      EXPECT_EQ(recorded_view(*job, number).members.size(), 1u) << job->logs();
      EXPECT_EQ(recorded_view(*job, number + 1).cause, "join") << job->logs();
      EXPECT_EQ(recorded_view(*job, number + 1).members.size(), 2u) << job->logs();
    }
  }
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

}  // namespace
}  // namespace rubato::elastic
