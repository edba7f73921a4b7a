// Daemons that share a log in a real etcd die, stand still and lose answers at random. Whatever was
// acknowledged is in the history of all of them, and there is one history.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>

#include "control/random_events.h"
#include "control/temporary_folder.h"
#include "control/whole_state.h"
#include "registry/cutting_proxy.h"
#include "registry/etcd_cluster.h"
#include "standby/played_daemon.h"

namespace rubato::control {
namespace {

using elastic::CuttingProxy;
using elastic::EtcdCluster;
using std::chrono::milliseconds;

constexpr int kDaemons = 3;
constexpr int kSteps = 150;

class HistoriesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (EtcdCluster::program().empty()) GTEST_SKIP() << EtcdCluster::kAbsent;
    const char* const given = std::getenv("RUBATO_SEED");
    seed_ = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "repeat with RUBATO_SEED=" << seed_ << '\n';
    etcd_ = EtcdCluster::start(1);
    ASSERT_NE(etcd_, nullptr);
  }

  std::uint64_t seed_ = 0;
  std::unique_ptr<EtcdCluster> etcd_;
};

struct Played {
  int leaderships = 0;
  int refused = 0;  // appends of daemons that do not lead any more, or of which it is not known
  int deaths = 0;
  std::size_t acknowledged = 0;
};

// One schedule. Disturbs one of `one_in` requests to etcd; 0: none.
Played play(const EtcdCluster& etcd, std::uint64_t seed, std::uint32_t one_in) {
  const TemporaryFolder folder;
  Random random(seed);
  RandomEvents events(seed);
  Played played;
  Stores stores;
  CuttingProxy proxy(etcd.address(0), seed, one_in, milliseconds(120));
  const elastic::RegistryUrl place{.kind = elastic::RegistryUrl::Kind::kEtcd,
                                   .servers = {proxy.address()},
                                   .path = fmt::format("/history-{}-{}", seed, one_in)};
  std::vector<std::unique_ptr<PlayedDaemon>> daemons;
  for (int i = 0; i < kDaemons; ++i) {
    daemons.push_back(std::make_unique<PlayedDaemon>(
        PlayedDaemon::Options{
            .name = fmt::format("d{}", i),
            .folder = folder / fmt::format("d{}", i),
            .place = place,
            .timing = {.patience = milliseconds(100),
                       .attempt = milliseconds(50),
                       .pause = milliseconds(5)},
            .patience = milliseconds(random.between(20, 150)),
            .beat = milliseconds(random.chance(0.5) ? 20 : 3'600'000),
            .most_commits = static_cast<std::size_t>(random.chance(0.3) ? 5 : 20'000)},
        stores));
  }
  std::map<std::int64_t, std::string> acknowledged;  // digests by number
  for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
    PlayedDaemon& daemon = *daemons[random.below(kDaemons)];
    if (!daemon.runs() || daemon.must_begin_anew()) {
      daemon.die();
      daemon.start();
      continue;
    }
    if (random.chance(0.03)) {
      daemon.die();
      ++played.deaths;
      continue;
    }
    if (!daemon.leads()) {
      played.leaderships += daemon.turn() ? 1 : 0;
      continue;
    }
    std::vector<Event> some;
    for (int i = random.between(1, 3); i > 0; --i)
      some.push_back(events.next(daemon.store().state()));
    const bool dies = random.chance(0.05);
    if (dies) daemon.will_die();
    const std::int64_t before = daemon.store().state().last_seq;
    const Status done = daemon.store().append(some);
    if (done.ok()) {
      for (const Event& event : some) {
        // Nobody else has had this number acknowledged.
        EXPECT_FALSE(acknowledged.contains(event.seq)) << event.seq;
        acknowledged[event.seq] = *shared_digest(event);
      }
      EXPECT_EQ(before + static_cast<std::int64_t>(some.size()), some.back().seq);
    } else if (done.error().code == ErrorCode::kIo) {
      ++played.refused;
    }
    if (daemon.has_died()) {
      daemon.die();
      ++played.deaths;
    }
  }
  proxy.calm();
  // In the end all live and follow.
  for (auto& daemon : daemons) {
    if (daemon->leads() && !daemon->must_begin_anew()) continue;
    daemon->die();
    daemon->start();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto settled = [&] {
    int leaders = 0;
    bool all = true;
    for (auto& daemon : daemons) {
      if (daemon->must_begin_anew()) {
        daemon->die();
        daemon->start();
      }
      if (!daemon->leads() && !daemon->turn()) {
        all = all && daemon->now().problem.empty() && daemon->now().behind == 0;
      } else if (daemon->leads() && !daemon->must_begin_anew()) {
        Event event{.at = 1, .type = "warning", .body = {{"message", "the end"}}};
        std::vector<Event> one{event};
        leaders += daemon->store().append(one).ok() ? 1 : 0;
        all = false;  // the others must still hear of it
      }
    }
    return leaders == 1 && all;
  };
  // One leads and has appended; then the others follow up to there.
  int rounds = 0;
  while (std::chrono::steady_clock::now() < deadline && rounds < 3) {
    static_cast<void>(settled());
    int leaders = 0;
    for (auto& daemon : daemons) leaders += daemon->leads() && !daemon->must_begin_anew() ? 1 : 0;
    rounds = leaders == 1 ? rounds + 1 : 0;
  }
  PlayedDaemon* leader = nullptr;
  for (auto& daemon : daemons) {
    if (daemon->leads() && !daemon->must_begin_anew()) leader = daemon.get();
  }
  if (leader == nullptr) {
    ADD_FAILURE() << "nobody leads in the end";
    return played;
  }
  const std::int64_t last = leader->store().state().last_seq;
  for (auto& daemon : daemons) {
    if (daemon.get() == leader) continue;
    while (daemon->now().seq < last && std::chrono::steady_clock::now() < deadline) {
      if (!daemon->runs() || daemon->leads()) {
        daemon->die();
        daemon->start();
      }
      daemon->turn();
    }
    EXPECT_EQ(daemon->now().seq, last) << daemon->now().problem;
  }
  // One history, with all that was acknowledged.
  const State state = whole_state(leader->store());
  for (std::size_t i = 0; i < daemons.size(); ++i) {
    if (daemons[i].get() != leader) daemons[i]->die();
    const std::string place_of = folder / fmt::format("d{}", i);
    const auto replayed = Store::replay(place_of);
    EXPECT_TRUE(replayed.ok()) << replayed.error().message;
    if (replayed.ok()) {
      EXPECT_EQ(replayed->last_seq, last);
      EXPECT_EQ(to_json(*replayed), to_json(state)) << "daemon " << i << " has another state";
    }
  }
  std::int64_t after = 0;
  for (;;) {
    const auto page = leader->store().read_events(after, 1000, 0, "");
    EXPECT_TRUE(page.ok());
    if (!page.ok() || page->empty()) break;
    for (const Event& event : *page) {
      after = event.seq;
      const auto told = acknowledged.find(event.seq);
      if (told == acknowledged.end()) continue;
      EXPECT_EQ(*shared_digest(event), told->second) << "event " << event.seq;
      acknowledged.erase(told);
      ++played.acknowledged;
    }
  }
  EXPECT_TRUE(acknowledged.empty()) << acknowledged.size() << " acknowledged events are lost, from "
                                    << acknowledged.begin()->first;
  return played;
}

TEST_F(HistoriesTest, NothingAcknowledgedIsLostAndThereIsOneHistory) {
  const char* const more = std::getenv("RUBATO_HISTORIES");
  const int count = more == nullptr ? 8 : std::atoi(more);
  Played all;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const std::uint64_t seed = seed_ + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(fmt::format("seed {}, schedule {}", seed, i));
    const Played one = play(*etcd_, seed, i % 2 == 0 ? 0 : 6);
    all.leaderships += one.leaderships;
    all.refused += one.refused;
    all.deaths += one.deaths;
    all.acknowledged += one.acknowledged;
  }
  std::cout << fmt::format(
      "{} schedules: {} leaderships, {} deaths, {} appends refused, {} events "
      "acknowledged\n",
      count, all.leaderships, all.deaths, all.refused, all.acknowledged);
  EXPECT_GT(all.leaderships, 2 * count);
  EXPECT_GT(all.refused, 0);
}

}  // namespace
}  // namespace rubato::control
