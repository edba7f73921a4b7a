// Connections that break between living workers: they are made again, or exactly one side goes on.
#include <gtest/gtest.h>

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
    if (copy < 0) GTEST_SKIP() << "this kernel does not lend descriptors (pidfd_getfd)";
    close(copy);
  }
  static pid_t pid_of(const View& view, std::size_t member) {
    return static_cast<pid_t>(view.members[member].address.pid);
  }
  // Views 1 to the newest, each decided once; every one of them can be read.
  static void expect_one_chain(const RunningJob& job) {
    auto registry = FileRegistry::open(job.folder().registry_folder());
    ASSERT_TRUE(registry.ok());
    const Result<View> newest = newest_view(**registry);
    ASSERT_TRUE(newest.ok());
    std::int64_t first_step = 0;
    for (std::int64_t number = 1; number <= newest->number; ++number) {
      const auto record = (*registry)->at(kViewRecord, number);
      ASSERT_TRUE(record.ok() && record->has_value()) << number;
      const Result<View> view = parse_view(nlohmann::json::parse(**record, nullptr, false));
      ASSERT_TRUE(view.ok()) << number;
      EXPECT_EQ(view->number, number);
      // After a failure a planned view may be skipped.
      EXPECT_TRUE(view->cause == "failure" || view->first_step >= first_step) << number;
      first_step = view->first_step;
    }
  }
};

TEST_F(Connections, ThatBreakAreMadeAgainWithoutAViewChange) {
  const std::string expected = undisturbed(1, 3, 600);
  auto job = start("job", toy(3, 3, 600));
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
  EXPECT_EQ(job->view().number, view.number) << job->logs();
  EXPECT_EQ(job->wait(), 0) << job->logs();
  EXPECT_EQ(job->result().value("views", std::int64_t{0}), view.number) << job->logs();
  EXPECT_EQ(job->hash(), expected);
}

// Messages of view changes are lost with the connection that carried them.
TEST_F(Connections, MayBreakAtAnyTimeOfAViewChange) {
  const std::string expected = undisturbed(1, 4, 800);
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  auto job = start("job", toy(2, 4, 800));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  std::int64_t broken = 0;
  while (job->step() < 650 && !job->ended()) {
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
  EXPECT_EQ(job->wait(), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_GT(broken, 50);
  expect_one_chain(*job);
}

TEST_F(Connections, OfWhichNoneCanBeMadeLetOneSideGoOn) {
  const std::string expected = undisturbed(1, 4, 500);
  for (const int workers : {2, 3}) {
    auto job =
        start(fmt::format("job-{}", workers), toy(workers, 4, 500, {"--failure-timeout", "0.5"}));
    ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
    const View view = job->view();
    ASSERT_EQ(view.members.size(), static_cast<std::size_t>(workers));
    // One of them leads: two others need no connection to train.
    const auto leader = static_cast<std::size_t>(view.position(view.leader));
    const std::size_t other = (leader + 1) % view.members.size();
    const pid_t first = pid_of(view, leader);
    const pid_t second = pid_of(view, other);
    ASSERT_TRUE(stop_listening(first));
    ASSERT_TRUE(stop_listening(second));
    for (const SocketOf& socket : connections_between(first, second)) {
      ASSERT_TRUE(shut_down(first, socket.remote_fd));
    }
    ASSERT_TRUE(job->until([&] { return job->view().number > view.number; })) << job->logs();
    EXPECT_EQ(job->wait(), 0) << job->logs();
    EXPECT_EQ(job->hash(), expected) << job->logs();
    const nlohmann::json event = view_event(*job, "failure");
    ASSERT_FALSE(event.is_null()) << job->logs();
    const auto members = event.value("members", std::vector<int>());
    const bool has_first =
        std::find(members.begin(), members.end(), view.members[leader].address.id) != members.end();
    const bool has_second =
        std::find(members.begin(), members.end(), view.members[other].address.id) != members.end();
    EXPECT_NE(has_first, has_second) << job->logs();
    expect_one_chain(*job);
  }
}

}  // namespace
}  // namespace rubato::elastic
