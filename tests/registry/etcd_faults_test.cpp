// A registry in a real etcd while connections break, members are killed and the leader is stopped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "elastic/job/etcd_registry.h"
#include "registry/contest.h"
#include "registry/cutting_proxy.h"
#include "registry/etcd_cluster.h"

namespace rubato::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class EtcdFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (EtcdCluster::program().empty()) GTEST_SKIP() << EtcdCluster::kAbsent;
    const char* const given = std::getenv("RUBATO_SEED");
    seed_ = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "repeat with RUBATO_SEED=" << seed_ << '\n';
  }
  void start(std::size_t members) {
    etcd_ = EtcdCluster::start(members);
    ASSERT_NE(etcd_, nullptr);
  }
  void TearDown() override {
    if (HasFailure() && etcd_) ADD_FAILURE() << etcd_->logs();
  }
  static std::unique_ptr<Registry> open(std::vector<ServerAddress> servers,
                                        EtcdClient::Timing timing) {
    return std::make_unique<EtcdRegistry>(
        RegistryUrl{RegistryUrl::Kind::kEtcd, std::move(servers), "/test"}, timing);
  }
  // Goes on until the writers have won this many more times.
  static void wait_for_wins(const Contest& contest, std::int64_t more) {
    const std::int64_t goal = contest.won() + more;
    const auto deadline = steady_clock::now() + std::chrono::seconds(120);
    while (contest.won() < goal && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_GE(contest.won(), goal) << "nobody gets on";
  }

  std::uint64_t seed_ = 0;
  std::unique_ptr<EtcdCluster> etcd_;
};

// The registry itself repeats what got no answer, so no call ends with an error.
TEST_F(EtcdFaultsTest, ALostAnswerIsResolved) {
  start(1);
  auto proxy = std::make_unique<CuttingProxy>(etcd_->address(0), seed_, 4, milliseconds(300));
  Contest contest([&] {
    return open({proxy->address()}, {.patience = std::chrono::seconds(60),
                                     .attempt = milliseconds(200),
                                     .pause = milliseconds(5)});
  });
  contest.start(4, 40);
  contest.join();
  EXPECT_GT(proxy->disturbed(), 30);
  proxy.reset();  // nothing is under way any more
  EXPECT_EQ(contest.won(), 160);
  EXPECT_EQ(contest.errors(), 0) << contest.last_error();
  contest.check(*open(etcd_->addresses(), {}));
}

// Without the patience to repeat, the caller learns that it is not known what happened.
TEST_F(EtcdFaultsTest, WhatIsNotKnownIsNotClaimed) {
  start(1);
  auto proxy = std::make_unique<CuttingProxy>(etcd_->address(0), seed_, 4, milliseconds(300));
  Contest contest([&] {
    return open(
        {proxy->address()},
        {.patience = milliseconds(200), .attempt = milliseconds(200), .pause = milliseconds(200)});
  });
  contest.start(4, 20);
  contest.join();
  proxy.reset();
  EXPECT_GT(contest.errors(), 10);
  contest.check(*open(etcd_->addresses(), {}));
}

TEST_F(EtcdFaultsTest, MembersAreKilledAndTheLeaderIsStopped) {
  start(3);
  Random random(seed_);
  Contest contest([this] { return open(etcd_->addresses(), {}); });
  contest.start(4, 1'000'000);
  wait_for_wins(contest, 20);
  for (int round = 0; round < 3; ++round) {
    const std::size_t victim = random.below(3);
    etcd_->kill_member(victim);
    wait_for_wins(contest, 20);
    etcd_->restart_member(victim);
    while (!etcd_->answers(victim)) std::this_thread::sleep_for(milliseconds(20));
    wait_for_wins(contest, 20);
    const std::size_t leader = etcd_->leader();
    if (leader == etcd_->size()) continue;  // just now there is none
    etcd_->stop_member(leader);
    wait_for_wins(contest, 20);
    etcd_->continue_member(leader);  // and carries out what it was asked for before
    wait_for_wins(contest, 20);
  }
  contest.stop();
  contest.join();
  contest.check();
}

TEST_F(EtcdFaultsTest, WithoutAMajorityNothingIsDecidedAndNothingLost) {
  start(3);
  const auto registry = open(
      etcd_->addresses(),
      {.patience = milliseconds(1500), .attempt = milliseconds(300), .pause = milliseconds(20)});
  ASSERT_TRUE(*registry->compare_and_swap("view", 0, "first"));
  etcd_->kill_member(0);
  etcd_->kill_member(1);
  EXPECT_FALSE(registry->get("view").ok());
  EXPECT_FALSE(registry->compare_and_swap("view", 1, "second").ok());
  etcd_->kill_member(2);
  // Nobody can have got this one.
  const Result<bool> sent = registry->compare_and_swap("view", 1, "third");
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code, ErrorCode::kRefused) << sent.error().message;
  EXPECT_NE(sent.error().message.find("127.0.0.1"), std::string::npos) << sent.error().message;
  for (std::size_t i = 0; i < 3; ++i) etcd_->restart_member(i);
  Contest contest([this] { return open(etcd_->addresses(), {}); }, "another");
  contest.start(1, 5);
  contest.join();
  const Result<Record> view = registry->get("view");
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_TRUE(view->value == "first" || view->value == "second") << view->value;
}

// Members of different clusters in one URL would decide apart from each other.
TEST_F(EtcdFaultsTest, AMemberOfAnotherClusterIsNotBelieved) {
  start(1);
  const auto other = EtcdCluster::start(1);
  ASSERT_NE(other, nullptr);
  const auto registry = open(
      {etcd_->address(0), other->address(0)},
      {.patience = milliseconds(600), .attempt = milliseconds(200), .pause = milliseconds(20)});
  ASSERT_TRUE(*registry->compare_and_swap("view", 0, "here"));
  etcd_->kill_member(0);
  const Result<Record> view = registry->get("view");
  ASSERT_FALSE(view.ok());
  etcd_->restart_member(0);
  while (!etcd_->answers(0)) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(registry->get("view")->value, "here");
}

}  // namespace
}  // namespace rubato::elastic
