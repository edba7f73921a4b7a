// Real jobs whose registry is in a real etcd: the same bits as with a registry in a folder, while
// members of etcd and workers of the job are lost.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "registry/etcd_cluster.h"

namespace rubato::elastic {
namespace {

class EtcdJobTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (EtcdCluster::program().empty()) GTEST_SKIP() << EtcdCluster::kAbsent;
    etcd_ = EtcdCluster::start(3);
    ASSERT_NE(etcd_, nullptr);
  }
  void TearDown() override {
    if (HasFailure() && etcd_) ADD_FAILURE() << etcd_->logs();
    RuntimeTest::TearDown();
  }
  std::unique_ptr<RunningJob> start_in_etcd(int workers, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--registry", etcd_->url("/rubato")});
    return start("job", toy(workers, 4, 1000, std::move(more)));
  }
  static void kill_worker(const View& view, bool leader) {
    for (const Member& member : view.members) {
      if ((member.address.id == view.leader) != leader) continue;
      kill(static_cast<pid_t>(member.address.pid), SIGKILL);
      return;
    }
  }
  // A view newer than `before` trains with this many workers.
  static bool trains_on(RunningJob& job, const View& before, std::size_t workers) {
    return job.until([&] {
      const View now = job.view();
      return now.number > before.number && now.members.size() == workers &&
             job.step() > now.first_step;
    });
  }

  std::unique_ptr<EtcdCluster> etcd_;
};

TEST_F(EtcdJobTest, TheSameBitsWhileWorkersAndMembersOfEtcdAreLost) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start_in_etcd(3);
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  ASSERT_EQ(job->view().members.size(), 3U);
  EXPECT_FALSE(is_directory(job->folder().registry_folder()));

  // A member of etcd is killed, and a worker.
  const std::size_t leader = etcd_->leader();
  ASSERT_LT(leader, etcd_->size());
  const std::size_t follower = (leader + 1) % etcd_->size();
  etcd_->kill_member(follower);
  View before = job->view();
  kill_worker(before, false);
  ASSERT_TRUE(trains_on(*job, before, 3)) << job->logs();
  etcd_->restart_member(follower);
  while (!etcd_->answers(follower)) std::this_thread::sleep_for(std::chrono::milliseconds(20));

  // The leader of etcd is stopped, and the leader of the job is killed.
  const std::size_t stopped = etcd_->leader();
  ASSERT_LT(stopped, etcd_->size());
  etcd_->stop_member(stopped);
  before = job->view();
  kill_worker(before, true);
  ASSERT_TRUE(trains_on(*job, before, 3)) << job->logs();
  etcd_->continue_member(stopped);

  before = job->view();
  ASSERT_TRUE(job->change([](Target& target) { target.workers = 2; })) << job->logs();
  ASSERT_TRUE(trains_on(*job, before, 2)) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

// Without etcd the workers go on; what should change waits for it.
TEST_F(EtcdJobTest, TrainsOnWhileEtcdIsAway) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start_in_etcd(2);
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  const View before = job->view();
  const Result<Board> board = Board::open(before.board);
  ASSERT_TRUE(board.ok());
  for (std::size_t i = 0; i < etcd_->size(); ++i) etcd_->kill_member(i);
  const std::int64_t step = board->completed();
  EXPECT_TRUE(job->until([&] { return board->completed() > step + 20; })) << job->logs();
  // Somebody is told of it after a while.
  EXPECT_TRUE(job->until([&] { return !events_of(*job, "warning").empty(); })) << job->logs();
  for (std::size_t i = 0; i < etcd_->size(); ++i) etcd_->restart_member(i);
  while (etcd_->leader() == etcd_->size()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(job->view().number, before.number);
  ASSERT_TRUE(job->change([](Target& target) { target.workers = 3; })) << job->logs();
  ASSERT_TRUE(trains_on(*job, before, 3)) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

TEST_F(EtcdJobTest, AnotherNodeFindsTheRegistryInTheSettings) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start_in_etcd(1, {"--node", "a"});
  ASSERT_TRUE(job->until([&] { return job->step() > 3; })) << job->logs();
  const View before = job->view();
  RunningNode node(test_paths::program("rubato"), job->folder().path(), "b", 2);
  ASSERT_TRUE(trains_on(*job, before, 3)) << job->logs() << node.log();
  EXPECT_EQ(members_on(job->view(), "b").size(), 2U);
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_EQ(node.wait(), 0) << node.log();
}

// A killed launcher, its workers and all: the same command continues the job.
TEST_F(EtcdJobTest, TheSameCommandContinuesAJob) {
  const std::string expected = undisturbed(1, 4, 1000);
  std::int64_t number = 0;
  {
    auto job = start_in_etcd(2, {"--checkpoint-steps", "5"});
    ASSERT_TRUE(job->until([&] { return job->checkpoint() > 5; })) << job->logs();
    number = job->view().number;
  }
  auto job = start_in_etcd(2, {"--checkpoint-steps", "5"});
  ASSERT_TRUE(job->until([&] { return job->view().number > number && job->step() > 6; }))
      << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

}  // namespace
}  // namespace rubato::elastic
