// The choice of the next membership.
#include "elastic/membership/next_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace rubato::elastic::membership {
namespace {

WorkerAddress at(int worker, const std::string& node = "a") {
  WorkerAddress address;
  address.id = worker;
  address.node = node;
  address.board = "board." + node;
  return address;
}

// A leader's knowledge, to be changed by a test: workers 0 to 2 run, as wanted.
struct Leader {
  JobRules rules{BatchRule::consistent(8, 4), 8, "a"};
  View view;
  Target target;
  std::map<int, Candidate> newcomers;
  std::set<int> leaving;
  std::set<int> slow;
  std::map<int, double> seconds;
  bool rebalance = false;
  double now = 1000;
  std::optional<double> founded_at;

  Leader() {
    target.workers = 3;
    run({at(0), at(1), at(2)});
  }
  void run(const std::vector<WorkerAddress>& workers) {
    view.number = 7;
    view.cause = "join";
    view.leader = workers.front().id;
    host_evenly(rules, target, seconds, workers, view);
  }
  void joins(const WorkerAddress& worker, bool ready = true, double since = 999) {
    newcomers[worker.id] = {worker, ready, since};
  }
  Decision decide() const {
    return next_view(rules,
                     {view, target, newcomers, leaving, slow, seconds, rebalance, now, founded_at});
  }
  // Members of the next view, or nothing.
  std::vector<int> next() const {
    const Decision decision = decide();
    return decision.next ? decision.next->view.ids() : std::vector<int>();
  }
  std::string cause() const {
    const Decision decision = decide();
    return decision.next ? decision.next->view.cause : "none";
  }
};

using Ids = std::vector<int>;

TEST(NextView, ThereIsNoneIfAllIsAsWanted) {
  const Leader leader;
  EXPECT_EQ(leader.cause(), "none");
  EXPECT_FALSE(leader.decide().balanced);
}

TEST(NextView, WhoIsReadyIsAdmittedUpToTheTarget) {
  Leader leader;
  leader.target.workers = 4;
  leader.joins(at(3), false);
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(3));
  EXPECT_EQ(leader.next(), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(leader.cause(), "join");
  leader.joins(at(4));
  EXPECT_EQ(leader.next(), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(leader.decide().next->view.number, 8);
  EXPECT_EQ(leader.decide().next->view.leader, 0);
}

TEST(NextView, NewcomersOfOneRequestAreAdmittedTogether) {
  Leader leader;
  leader.target.workers = 5;
  leader.joins(at(3), true, 998);
  leader.joins(at(4), false, 998);
  EXPECT_EQ(leader.cause(), "none");
  leader.now = 1002;  // long enough
  EXPECT_EQ(leader.next(), (Ids{0, 1, 2, 3}));
  leader.now = 1000;
  leader.joins(at(4));
  EXPECT_EQ(leader.next(), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(leader.decide().next->asked_at, 998);
}

// The number of workers is as wanted, but not where they are: also the leader's node gives way.
TEST(NextView, ANodeThatShouldHaveFewerGivesWayToOneThatShouldHaveMore) {
  Leader leader;
  leader.run({at(0), at(1), at(2, "b"), at(3, "b")});
  leader.target.workers = 4;
  leader.target.elsewhere = {{"b", 2}, {"c", 2}};
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(4, "c"), false);
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(4, "c"));
  EXPECT_EQ(leader.next(), (Ids{0, 2, 3, 4}));
  EXPECT_EQ(leader.cause(), "migrate");
  leader.joins(at(5, "c"));
  EXPECT_EQ(leader.next(), (Ids{2, 3, 4, 5}));
  EXPECT_EQ(leader.decide().next->view.leader, 2);
  leader.joins(at(6, "c"));  // more than the node should have
  EXPECT_EQ(leader.next(), (Ids{2, 3, 4, 5}));
  leader.newcomers.clear();
  leader.joins(at(4, "d"));  // nobody asked for it
  EXPECT_EQ(leader.cause(), "none");
}

TEST(NextView, TheNewestLeavesButNotTheLeader) {
  Leader leader;
  leader.target.workers = 2;
  EXPECT_EQ(leader.next(), (Ids{0, 1}));
  EXPECT_EQ(leader.cause(), "leave");
  leader.view.leader = 2;
  EXPECT_EQ(leader.next(), (Ids{0, 2}));
  leader.target.workers = 1;
  EXPECT_EQ(leader.next(), (Ids{2}));
}

TEST(NextView, WhoAskedLeavesAndTheLeadPassesOn) {
  Leader leader;
  leader.leaving = {0};
  EXPECT_EQ(leader.next(), (Ids{1, 2}));
  EXPECT_EQ(leader.decide().next->view.leader, 1);
  leader.leaving = {0, 1, 2};
  EXPECT_EQ(leader.cause(), "none");  // somebody must hold the state
  leader.joins(at(3));
  EXPECT_EQ(leader.next(), (Ids{3}));
  EXPECT_EQ(leader.cause(), "migrate");
}

TEST(NextView, NodesWithASurplusGiveAndOthersReceive) {
  Leader leader;
  leader.run({at(0, "a"), at(1, "a"), at(2, "b")});
  leader.target.elsewhere = {{"b", 2}};
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(4, "a"));
  EXPECT_EQ(leader.cause(), "none");  // node a has enough
  leader.joins(at(3, "b"));
  leader.target.workers = 4;
  EXPECT_EQ(leader.next(), (Ids{0, 1, 2, 3}));
  leader.newcomers.clear();
  leader.target.workers = 2;
  leader.target.elsewhere = {{"b", 1}};
  EXPECT_EQ(leader.next(), (Ids{0, 2}));
}

TEST(NextView, AWorkerIsReplacedWhenAnotherIsReady) {
  Leader leader;
  leader.target.migrate = {1};
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(3));
  EXPECT_EQ(leader.next(), (Ids{0, 2, 3}));
  EXPECT_EQ(leader.cause(), "migrate");
}

TEST(NextView, ASpareReplacesAStraggler) {
  Leader leader;
  leader.slow = {1};
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(3));
  EXPECT_EQ(leader.next(), (Ids{0, 2, 3}));
  EXPECT_EQ(leader.cause(), "replace");
}

TEST(NextView, AStragglerHostsFewer) {
  Leader leader;
  leader.rebalance = true;
  EXPECT_EQ(leader.cause(), "none");
  EXPECT_TRUE(leader.decide().balanced);
  leader.seconds = {{0, 1}, {1, 10}, {2, 1}};
  EXPECT_EQ(leader.cause(), "rebalance");
  EXPECT_EQ(leader.decide().next->view.find(1)->hosts.size(), 1);
  leader.rebalance = false;
  EXPECT_EQ(leader.cause(), "none");  // not without a reason to look
}

TEST(NextView, NewcomersAreTakenToBeAsFastAsTheOthers) {
  Leader leader;  // with three members and seconds that were measured, not guessed
  leader.seconds = {{0, 0.02}, {1, 0.02}, {2, 0.02}};
  leader.target.workers = 4;
  leader.joins(at(3));
  const Decision decision = leader.decide();
  for (const Member& member : decision.next->view.members) EXPECT_EQ(member.hosts.size(), 2);
}

TEST(NextView, AStopWaitsForNobody) {
  Leader leader;
  leader.target.stop = true;
  leader.joins(at(3), false);
  EXPECT_EQ(leader.cause(), "stop");
  EXPECT_TRUE(leader.decide().next->view.empty());
  EXPECT_EQ(leader.decide().next->view.leader, -1);
}

TEST(NextView, AFounderWaitsForAllOrForLong) {
  Leader leader;
  leader.run({at(0)});
  leader.view.cause = "start";
  leader.founded_at = 990;
  EXPECT_EQ(leader.cause(), "none");
  leader.joins(at(1));
  leader.joins(at(2));
  EXPECT_EQ(leader.next(), (Ids{0, 1, 2}));
  EXPECT_EQ(leader.cause(), "start");
  leader.newcomers.erase(2);
  EXPECT_EQ(leader.cause(), "none");
  leader.target.stop = true;  // it is founded with whoever is there, then stops
  EXPECT_EQ(leader.next(), (Ids{0, 1}));
  leader.target.stop = false;
  leader.now = 1021;
  EXPECT_EQ(leader.next(), (Ids{0, 1}));
}

TEST(NextView, AnAuditAndAnotherBatchAreViewsOfTheSameMembers) {
  Leader leader;
  leader.target.audits = 1;
  leader.target.at = 900;
  EXPECT_EQ(leader.cause(), "audit");
  EXPECT_TRUE(leader.decide().next->view.audit);
  EXPECT_EQ(leader.decide().next->asked_at, 900);
  leader.rules.batches = BatchRule::adaptive({1, 64}, 4);
  leader.run({at(0), at(1), at(2)});
  leader.target.batch = 24;
  EXPECT_EQ(leader.cause(), "batch");
  EXPECT_EQ(leader.decide().next->view.batch, 24);
}

TEST(NextView, ANewcomerOnAnotherBoardOfAMembersNodeIsLeftOut) {
  Leader leader;
  leader.target.workers = 4;
  WorkerAddress stranger = at(3);
  stranger.board = "another";
  leader.joins(stranger);
  EXPECT_EQ(leader.cause(), "none");
}

// Whatever is known, a next view is one that can run.
TEST(NextView, IsSoundInRandomSituations) {
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const auto node = [&] { return std::string(1, static_cast<char>('a' + below(3))); };
    Leader leader;
    std::vector<WorkerAddress> members;
    for (int i = 0, n = 1 + below(5); i < n; ++i) members.push_back(at(i, node()));
    leader.run(members);
    leader.target.workers = 1 + below(8);
    if (below(2) == 0) leader.target.elsewhere = {{"b", below(4)}, {"c", below(4)}};
    if (below(3) == 0) leader.target.migrate = {below(6)};
    leader.target.stop = below(10) == 0;
    leader.target.audits = below(5) == 0 ? 1 : 0;
    for (int i = 0, n = below(4); i < n; ++i) {
      leader.joins(at(10 + i, node()), below(2) == 0, 995 + below(5));
    }
    for (int i = 0; i < 5; ++i) {
      if (below(6) == 0) leader.leaving.insert(i);
      if (below(6) == 0) leader.slow.insert(i);
      if (below(2) == 0) leader.seconds[i] = 0.5 + below(8);
    }
    leader.rebalance = below(2) == 0;
    if (below(5) == 0) leader.founded_at = 960 + below(40);

    const Decision decision = leader.decide();
    if (!decision.next) continue;
    const View& view = decision.next->view;
    EXPECT_EQ(view.number, leader.view.number + 1);
    EXPECT_FALSE(view.cause.empty());
    if (view.empty()) {
      EXPECT_TRUE(leader.target.stop && !leader.founded_at);
      continue;
    }
    EXPECT_NE(view.find(view.leader), nullptr);
    EXPECT_EQ(view.logical_workers(), leader.rules.batches.logical_workers(0));
    EXPECT_LE(view.members.size(),
              static_cast<std::size_t>(std::clamp(leader.target.workers, 1, 8)));
    int hosted = 0;
    std::set<int> ids;
    for (const Member& member : view.members) {
      const int worker = member.address.id;
      EXPECT_TRUE(ids.insert(worker).second);
      EXPECT_EQ(member.hosts.begin, hosted);
      EXPECT_GE(member.hosts.size(), 1);
      hosted = member.hosts.end;
      EXPECT_FALSE(leader.leaving.contains(worker));
      const auto joined = leader.newcomers.find(worker);
      EXPECT_TRUE(leader.view.find(worker) != nullptr ||
                  (joined != leader.newcomers.end() && joined->second.ready));
    }
    // The leader stays unless it has to go.
    if (ids.contains(leader.view.leader)) {
      EXPECT_EQ(view.leader, leader.view.leader);
    }
  }
}

}  // namespace
}  // namespace rubato::elastic::membership
