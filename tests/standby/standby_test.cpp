// One standby and one leader with a shared log in a real etcd, case by case.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "control/temporary_folder.h"
#include "elastic/job/view.h"
#include "registry/etcd_cluster.h"
#include "standby/played_daemon.h"

namespace rubato::control {
namespace {

using elastic::EtcdCluster;
using std::chrono::milliseconds;

class StandbyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (EtcdCluster::program().empty()) GTEST_SKIP() << EtcdCluster::kAbsent;
    etcd_ = EtcdCluster::start(1);
    ASSERT_NE(etcd_, nullptr);
  }
  PlayedDaemon::Options options(const std::string& name) {
    return {.name = name,
            .folder = folder_ / name,
            .place = {.kind = elastic::RegistryUrl::Kind::kEtcd,
                      .servers = etcd_->addresses(),
                      .path = "/standby"},
            .timing = {.patience = milliseconds(1000),
                       .attempt = milliseconds(500),
                       .pause = milliseconds(10)}};
  }
  static std::vector<Event> warning(std::string text) {
    return {{.at = 1, .type = "warning", .body = {{"message", std::move(text)}}}};
  }
  static bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return true;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<EtcdCluster> etcd_;
  Stores stores_;
};

TEST_F(StandbyTest, AStandbyTakesOverAndTheFormerLeaderCanAppendNothing) {
  PlayedDaemon a(options("a"), stores_);
  PlayedDaemon b(options("b"), stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  ASSERT_TRUE(a.append(warning("one")).ok());
  b.start();
  EXPECT_FALSE(b.turn());
  EXPECT_EQ(b.now().leader, a.url());
  EXPECT_EQ(b.now().seq, 1) << b.now().problem;
  // a stands still
  ASSERT_TRUE(until([&] { return b.turn(); })) << b.now().problem;
  EXPECT_GE(b.now().silent_s, 0.2);
  const Status refused = a.append(warning("late"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_TRUE(a.must_begin_anew());
  EXPECT_NE(a.leadership().doubt(), "");
  EXPECT_EQ(a.store().state().last_seq, 1);
  ASSERT_TRUE(b.append(warning("two")).ok());
  a.die();
  a.start();
  EXPECT_FALSE(a.turn());
  EXPECT_EQ(a.now().seq, 2) << a.now().problem;
  EXPECT_FALSE(is_file(folder_ / "a/rubato.db.old1")) << "its store was of this history";
}

TEST_F(StandbyTest, SignsOfLifeKeepTheLeader) {
  auto lively = options("a");
  lively.beat = milliseconds(20);
  PlayedDaemon a(lively, stores_);
  PlayedDaemon b(options("b"), stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  b.start();
  const auto end = std::chrono::steady_clock::now() + milliseconds(1000);
  while (std::chrono::steady_clock::now() < end) ASSERT_FALSE(b.turn());
  EXPECT_EQ(a.leadership().doubt(), "");
  EXPECT_TRUE(until([&] { return a.leadership().followers().size() == 1; }));
  a.leadership().resign();
  EXPECT_TRUE(b.turn()) << "who has resigned is not waited for";
}

TEST_F(StandbyTest, AStandbyThatLagsBehindFetchesTheStore) {
  auto strict = options("a");
  strict.beat = milliseconds(20);
  strict.most_commits = 3;
  PlayedDaemon a(strict, stores_);
  auto patient = options("b");
  patient.patience = std::chrono::minutes(1);
  PlayedDaemon b(patient, stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  ASSERT_TRUE(a.append(warning("first")).ok());
  b.start();
  EXPECT_FALSE(b.turn());
  b.die();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(a.append(warning(fmt::format("{}", i))).ok());
  }
  ASSERT_TRUE(until([&] { return a.log()->firsts()->size() <= 3; })) << "the log is not trimmed";
  b.start();
  EXPECT_FALSE(b.turn());
  EXPECT_EQ(b.now().seq, 21) << b.now().problem;
  EXPECT_TRUE(is_file(folder_ / "b/rubato.db.old1"));
  // What everybody has is deleted, but for the last commit.
  ASSERT_TRUE(until([&] { return !b.turn() && a.log()->firsts()->size() == 1; }));
}

TEST_F(StandbyTest, AStoreOfAnotherHistoryIsSetAside) {
  auto lively = options("a");
  lively.beat = milliseconds(20);
  PlayedDaemon a(lively, stores_);
  PlayedDaemon b(options("b"), stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  ASSERT_TRUE(a.append(warning("shared")).ok());
  b.start();
  EXPECT_FALSE(b.turn());
  b.die();
  {  // somebody starts a daemon of its own on this folder, whose log goes on in another way
    auto store = Store::open(folder_ / "b");
    ASSERT_TRUE(store.ok());
    auto alone = warning("alone");
    ASSERT_TRUE((*store)->append(alone).ok());
  }
  ASSERT_TRUE(a.append(warning("together")).ok());
  b.start();
  EXPECT_FALSE(b.turn());
  EXPECT_EQ(b.now().seq, 2) << b.now().problem;
  EXPECT_TRUE(is_file(folder_ / "b/rubato.db.old1"));
  b.die();
  const auto store = Store::open(folder_ / "b");
  const auto events = (*store)->read_events(1, 10, 0, "");
  ASSERT_EQ(events->size(), 1U);
  EXPECT_EQ(events->front().body["message"], "together");
}

TEST_F(StandbyTest, NobodyLeadsWithAnotherHistoryOrOtherTokens) {
  {
    PlayedDaemon a(options("a"), stores_);
    a.start();
    ASSERT_TRUE(a.turn());
    ASSERT_TRUE(a.append(warning("one")).ok());
  }
  PlayedDaemon c(options("c"), stores_);
  c.start();
  for (int i = 0; i < 50; ++i) {
    ASSERT_FALSE(c.turn());
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_NE(c.now().problem, "");
  auto log = c.log();
  auto view = log->look();
  auto other = std::make_shared<SharedLog>(options("x").place, SharedLog::Timing{});
  auto standby =
      Standby::make(other, {.folder = folder_ / "x", .url = "http://x", .tokens = "other"});
  ASSERT_TRUE(standby.ok());
  EXPECT_NE((*standby)->turn().problem.find("has other tokens"), std::string::npos);
}

TEST_F(StandbyTest, ManyEventsAtOnceTravelInPieces) {
  PlayedDaemon a(options("a"), stores_);
  auto patient = options("b");
  patient.patience = std::chrono::minutes(1);
  PlayedDaemon b(patient, stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  ASSERT_TRUE(a.append(warning("small")).ok());
  b.start();
  EXPECT_FALSE(b.turn());
  std::vector<Event> large;
  for (const char c : {'x', 'y', 'z', 'w'}) {
    large.push_back(warning(std::string(900'000, c)).front());
  }
  ASSERT_TRUE(a.append(large).ok());
  EXPECT_FALSE(b.turn());
  EXPECT_EQ(b.now().seq, 5) << b.now().problem;
}

TEST_F(StandbyTest, WithoutEtcdNothingIsAppendedAndItGoesOnByItself) {
  PlayedDaemon a(options("a"), stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  ASSERT_TRUE(a.append(warning("one")).ok());
  etcd_->kill_member(0);
  const Status refused = a.append(warning("two"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_FALSE(a.must_begin_anew()) << "nobody can lead meanwhile";
  EXPECT_TRUE(until([&] { return !a.leadership().doubt().empty(); }));
  etcd_->restart_member(0);
  EXPECT_TRUE(until([&] { return a.append(warning("three")).ok(); }));
  EXPECT_EQ(a.leadership().doubt(), "");
  EXPECT_EQ(a.store().state().last_seq, 2);
}

TEST_F(StandbyTest, OnlyTheLeaderDecidesViews) {
  PlayedDaemon a(options("a"), stores_);
  PlayedDaemon b(options("b"), stores_);
  a.start();
  ASSERT_TRUE(a.turn());
  const auto registries = [&](PlayedDaemon& daemon) {
    return std::make_unique<SharedRegistries>(daemon.log(), daemon.shared_leadership());
  };
  std::filesystem::create_directories(folder_ / "copy-a");
  std::filesystem::create_directories(folder_ / "copy-b");
  const auto of_a = registries(a);
  const std::string view = compact_json(elastic::to_json(elastic::View{.number = 1}));
  const auto registry = of_a->open("uid1", folder_ / "copy-a");
  ASSERT_TRUE(of_a->begin("uid1", folder_ / "copy-a", "gpu1").ok());
  const auto won = registry->compare_and_swap("view", 0, view);
  ASSERT_TRUE(won.ok()) << won.error().message;
  EXPECT_TRUE(*won);
  EXPECT_FALSE(*registry->compare_and_swap("view", 0, view)) << "it is there";
  EXPECT_FALSE(*registry->compare_and_swap("view", 5, view)) << "versions have no gaps";
  b.start();
  ASSERT_TRUE(until([&] { return b.turn(); }));
  // The former leader does not know yet.
  EXPECT_FALSE(registry->compare_and_swap("view", 1, view).ok());
  const auto of_b = registries(b);
  EXPECT_EQ(of_b->home("uid1"), "gpu1");
  const auto next = of_b->open("uid1", folder_ / "copy-b");
  EXPECT_EQ(next->get("view")->version, 1);
  EXPECT_EQ(next->get("view")->value, view);
  EXPECT_TRUE(*next->compare_and_swap("view", 1, view));
  of_b->forget("uid1");
  EXPECT_TRUE(b.log()->read("job/uid1/")->empty());
}

}  // namespace
}  // namespace rubato::control
