// Connections that break between living workers: they are reestablished, or exactly one side
// continues.
#include <gtest/gtest.h>

#include "base/json_text.h"
#include "base/random.h"
#include "elastic/runtime_fixture.h"
#include "elastic/sockets.h"

namespace rubato::elastic {
namespace {

class Connections : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    const int own = open("/dev/null", O_RDONLY);
    const int copy = borrow_descriptor(getpid(), own);
    close(own);
    if (copy < 0) GTEST_SKIP() << "this kernel does not support pidfd_getfd";
    close(copy);
  }
  static pid_t pid_of(const View& view, std::size_t member) {
    return static_cast<pid_t>(view.members[member].address.pid);
  }
  // Views 1 to the newest, each decided once and readable.
  static void expect_one_chain(const RunningJob& job) {
    auto registry = FileRegistry::open(job.folder().registry_folder());
    ASSERT_TRUE(registry.ok());
    const Result<View> newest = newest_view(**registry);
    ASSERT_TRUE(newest.ok());
    std::int64_t first_step = 0;
    for (std::int64_t number = 1; number <= newest->number; ++number) {
      const auto record = (*registry)->at(kViewRecord, number);
      ASSERT_TRUE(record.ok() && record->has_value()) << number;
      const Result<View> view = parse_view(parse_json(**record));
      ASSERT_TRUE(view.ok()) << number;
      EXPECT_EQ(view->number, number);
      // After a failure, a planned view may be skipped.
      EXPECT_TRUE(view->cause == "failure" || view->first_step >= first_step) << number;
      first_step = view->first_step;
    }
  }
};

TEST_F(Connections, ThatBreakAreMadeAgainAndNobodyIsLost) {
  const std::string expected = undisturbed(1, 3, 1000);
  auto job = start("job", toy(3, 3, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  const View view = job->view();
  ASSERT_EQ(view.members.size(), 3u);
  for (const auto& [a, b] : {std::pair{0, 1}, std::pair{2, 0}, std::pair{1, 2}, std::pair{1, 0}}) {
    const pid_t first = pid_of(view, static_cast<std::size_t>(a));
    const pid_t second = pid_of(view, static_cast<std::size_t>(b));
    const auto before = connections_between(first, second);
    ASSERT_EQ(before.size(), 1u);
    ASSERT_TRUE(shut_down(first, before[0].remote_fd));
    ASSERT_TRUE(job->until([&] {
      const auto now = connections_between(first, second);
      return now.size() == 1 &&
             (now[0].local_port != before[0].local_port || now[0].peer_port != before[0].peer_port);
    })) << job->logs();
  }
  EXPECT_EQ(job->view().ids(), view.ids()) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected);
  EXPECT_TRUE(events_of(*job, "lost").empty()) << job->logs();
  for (const nlohmann::json& event : events_of(*job, "view")) {
    const std::string cause = event.value("cause", "");
    EXPECT_TRUE(cause == "start" || cause == "rebalance") << event;  // see runtime_fixture.h
  }
}

// Messages about view changes are lost with the connection that carried them.
TEST_F(Connections, MayBreakAtAnyTimeOfAViewChange) {
  const std::string expected = undisturbed(1, 4, 1000);
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  auto job = start("job", toy(2, 4, 1000, {"--failure-timeout", "2"}));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  std::int64_t broken = 0;
  while (broken <= 100 && !job->ended()) {
    if (random.chance(0.2)) {
      const int wanted = random.between(1, 4);
      job->change([&](Target& target) { target.workers = wanted; });
    }
    const View view = job->view();
    if (view.empty()) continue;
    if (random.chance(0.05) && view.members.size() > 1) {
      kill(pid_of(view, view.members.size() - 1), SIGKILL);
    }
    const pid_t pid = pid_of(view, static_cast<std::size_t>(random.between(
                                       0, static_cast<int>(view.members.size()) - 1)));
    for (const SocketOf& socket : sockets_of(pid)) {
      if (socket.peer_port != 0 && random.chance(0.5)) broken += shut_down(pid, socket.remote_fd);
    }
    const std::int64_t step = job->step();
    ASSERT_TRUE(job->until([&] { return job->step() != step; })) << "no step after " << step << "\n"
                                                                 << job->logs();
  }
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_GT(broken, 100);
  expect_one_chain(*job);
}

TEST_F(Connections, OfWhichNoneCanBeMadeLetOneSideGoOn) {
  const std::string expected = undisturbed(1, 4, 1000);
  for (const int workers : {2, 3}) {
    auto job =
        start(fmt::format("job-{}", workers), toy(workers, 4, 1000, {"--failure-timeout", "2"}));
    View view;
    ASSERT_TRUE(job->until([&] {
      view = job->view();  // a worker that a busy machine made silent has a successor
      return view.members.size() == static_cast<std::size_t>(workers) && job->step() > 5;
    })) << job->logs();
    // One of the two leads: two others need no connection to train.
    const auto leader = static_cast<std::size_t>(view.position(view.leader));
    const std::size_t other = (leader + 1) % view.members.size();
    const int first_id = view.members[leader].address.id;
    const int second_id = view.members[other].address.id;
    const pid_t first = pid_of(view, leader);
    const pid_t second = pid_of(view, other);
    ASSERT_TRUE(stop_listening(first));
    ASSERT_TRUE(stop_listening(second));
    for (const SocketOf& socket : connections_between(first, second)) {
      ASSERT_TRUE(shut_down(first, socket.remote_fd));
    }
    View now;
    ASSERT_TRUE(job->until([&] {
      now = job->view();
      return now.find(first_id) == nullptr || now.find(second_id) == nullptr;
    })) << job->logs();
    EXPECT_NE(now.find(first_id) == nullptr, now.find(second_id) == nullptr) << job->logs();
    EXPECT_EQ(finish(*job), 0) << job->logs();
    EXPECT_EQ(job->hash(), expected) << job->logs();
    EXPECT_FALSE(view_event(*job, "failure").is_null()) << job->logs();
    expect_one_chain(*job);
  }
}

}  // namespace
}  // namespace rubato::elastic
