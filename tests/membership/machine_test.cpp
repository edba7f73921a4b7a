// The state machine, input by input: orders of events that the simulated world plays rarely.
#include "elastic/membership/machine.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace rubato::elastic::membership {
namespace {

WorkerAddress address_of(WorkerId id) {
  WorkerAddress address;
  address.id = id;
  address.node = "a";
  address.board = "board";
  return address;
}

// A worker whose drivers are the test.
class Driven {
 public:
  Driven()
      : machine_({.self = address_of(0),
                  .description = "job",
                  .traits = {},
                  .rules = {BatchRule::consistent(4, 1), 4, "a"},
                  .first_step = 0,
                  .timing = {}}) {}

  void say(const Input& input) {
    now_.time += std::chrono::milliseconds(1);
    machine_.handle(now_, input, effects_);
  }
  // The first effect of this kind since the last call of any of these; null: there is none.
  template <typename E>
  std::optional<E> said() {
    std::optional<E> found;
    for (const Effect& effect : std::exchange(effects_, {})) {
      if (const E* const one = std::get_if<E>(&effect); one != nullptr && !found) found = *one;
    }
    return found;
  }
  const State& state() const { return machine_.state(); }

  // Becomes the only member of a job, and wants `workers` workers after that.
  void lead(int workers) {
    say(Tick{});
    say(ViewsRead{});
    say(BoardReady{"board"});
    say(Swapped{said<Swap>()->view, Swapped::Outcome::kWon});
    say(Filled{});
    say(Mapped{said<Map>()->proposal});
    say(Swapped{said<Swap>()->view, Swapped::Outcome::kWon});
    const ViewPtr view = said<Restore>()->view;
    say(Restored{view->number});
    say(Entered{view});
    Target target;
    target.workers = workers;
    now_.time += std::chrono::seconds(1);
    say(ViewsRead{{view}, std::make_shared<const Target>(target)});
    effects_.clear();
  }
  // A newcomer asks to join and is ready. What the leader then proposes.
  Proposal join(WorkerId worker) {
    say(Connected{address_of(worker)});
    say(Received{worker, Join{address_of(worker), "job", {}}});
    say(Received{worker, Ready{}});
    return said<Map>()->proposal;
  }
  // The leader and the newcomer have mapped it. The proposal for which a step is to be held.
  Proposal prepared(const Proposal& proposal, WorkerId newcomer) {
    say(Mapped{proposal});
    say(Received{newcomer, Prepared{proposal}});
    return said<Hold>()->proposal;
  }

 private:
  Machine machine_;
  Now now_{std::chrono::seconds(100), 1000};
  Effects effects_;
};

// A change is cancelled while the training thread is asked to wait before a step. Its answer comes
// when the next change waits for one: by then the thread may have published that step.
TEST(MachineTest, AStepHeldForACancelledChangeDoesNotCountForTheNext) {
  Driven leader;
  leader.lead(2);
  const Proposal first = leader.prepared(leader.join(1), 1);
  leader.say(Lost{1, "its process ended"});
  EXPECT_TRUE(leader.said<Release>());
  const Proposal second = leader.prepared(leader.join(2), 2);
  EXPECT_NE(first, second);
  leader.say(Held{first, 5});
  EXPECT_FALSE(leader.said<Swap>());
  leader.say(Held{second, 6});
  const std::optional<Swap> swap = leader.said<Swap>();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->view->first_step, 7);
  EXPECT_EQ(swap->view->ids(), (std::vector<int>{0, 2}));
}

// A newcomer is started in a view, and has not read of the one before it, which lost a worker of
// its node: the message names that worker, so it is ended before the view begins there.
TEST(MachineTest, AStartNamesTheLostOfAViewThatNobodyToldOf) {
  const auto view_of = [](ViewNumber number, const std::vector<WorkerAddress>& workers) {
    View view;
    view.number = number;
    view.cause = "failure";
    view.leader = workers.front().id;
    view.board = "board";
    for (const WorkerAddress& worker : workers) view.members.push_back({worker, {}});
    return std::make_shared<const View>(std::move(view));
  };
  WorkerAddress leader = address_of(1);
  leader.node = "b";
  Driven newcomer;
  newcomer.say(Tick{});
  newcomer.say(ViewsRead{{view_of(4, {leader})}, nullptr});
  newcomer.say(BoardReady{"board"});
  newcomer.say(Connected{leader});
  newcomer.say(Received{1, Start{view_of(6, {leader, address_of(0)}), "b", {}, {address_of(4)}}});
  const std::optional<Fence> fence = newcomer.said<Fence>();
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->worker, 4);
  newcomer.say(Tick{});
  EXPECT_FALSE(newcomer.said<Restore>());
  newcomer.say(Ended{4});
  EXPECT_TRUE(newcomer.said<Restore>());
}

// A newcomer that has lost a worker of the next view leaves, unless the leader notices that loss.
TEST(MachineTest, ANewcomerThatHasLostAWorkerOfTheNextViewDoesNotHoldItUp) {
  View view;
  view.number = 4;
  view.leader = 1;
  view.board = "board";
  view.members = {{address_of(1), {}}, {address_of(2), {}}};
  Driven newcomer;
  newcomer.say(Tick{});
  newcomer.say(ViewsRead{{std::make_shared<const View>(view)}, nullptr});
  newcomer.say(BoardReady{"board"});
  newcomer.say(Connected{address_of(1)});
  newcomer.say(Lost{2, "silent"});
  view.number = 5;
  view.members.push_back({address_of(0), {}});
  newcomer.say(Received{1, Prepare{std::make_shared<const View>(view), {5, 1, 1}}});
  for (int i = 0; i < 200; ++i) newcomer.say(Tick{});
  EXPECT_FALSE(newcomer.said<TellLeave>());
  for (int i = 0; i < 200; ++i) newcomer.say(Tick{});
  EXPECT_TRUE(newcomer.said<TellLeave>());
}

// A view that cannot be mapped is tried again after a pause, or at once when a loss explains it.
TEST(MachineTest, AViewThatCannotBeMappedIsNotTriedAgainAtOnce) {
  Driven leader;
  leader.lead(2);
  leader.say(MapFailed{"gone", leader.join(1)});
  EXPECT_FALSE(leader.said<Map>());
  for (int i = 0; i < 100; ++i) leader.say(Tick{});
  EXPECT_FALSE(leader.said<Map>());
  for (int i = 0; i < 300; ++i) leader.say(Tick{});
  const std::optional<Map> again = leader.said<Map>();
  ASSERT_TRUE(again);
  leader.say(MapFailed{"gone", again->proposal});
  leader.say(Lost{1, "its process ended"});
  EXPECT_FALSE(leader.said<Map>());
  EXPECT_EQ(leader.join(2).attempt, again->proposal.attempt + 1);
}

// A hint makes it read at once; one that comes during a read, which may be too early for what the
// hint is about, makes it read once more.
TEST(MachineTest, AHintOfTheRegistryIsFollowedByARead) {
  Driven leader;
  leader.lead(1);
  leader.say(ViewsRead{});  // answers the one that is under way
  leader.say(Tick{});
  EXPECT_FALSE(leader.said<ReadViews>());
  leader.say(RegistryChanged{});
  EXPECT_TRUE(leader.said<ReadViews>());
  leader.say(RegistryChanged{});
  leader.say(RegistryChanged{});
  EXPECT_FALSE(leader.said<ReadViews>());  // one at a time
  leader.say(ViewsRead{});
  EXPECT_TRUE(leader.said<ReadViews>());
  leader.say(ViewsRead{});
  EXPECT_FALSE(leader.said<ReadViews>());
  leader.say(RegistryChanged{});
  EXPECT_TRUE(leader.said<ReadViews>());
  leader.say(ReadFailed{});  // tried again
  EXPECT_TRUE(leader.said<ReadViews>());
}

}  // namespace
}  // namespace rubato::elastic::membership
