// A job on two hosts whose views are decided in a real etcd on a third one. Hosts are network
// namespaces. Members of etcd are killed and stopped, workers are killed, and each host of the job
// is cut off from the others for a while; a checker reads the history.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/random.h"
#include "cluster/checks.h"
#include "cluster/hosts.h"
#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "registry/etcd_cluster.h"

namespace rubato::cluster {
namespace {

using elastic::EtcdCluster;
using elastic::RunningJob;
using elastic::RunningNode;
using elastic::View;

constexpr int kSteps = 4000;
constexpr int kLogical = 6;
constexpr std::size_t kOnEach = 2;  // workers
constexpr int kEtcd = 0;            // hosts; the others have the job

class EtcdPartition : public elastic::RuntimeTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (EtcdCluster::program().empty()) GTEST_SKIP() << EtcdCluster::kAbsent;
    expected_ = undisturbed(1, kLogical, kSteps);
    std::optional<Hosts> hosts = Hosts::make(3);
    if (hosts) hosts_.emplace(std::move(*hosts));
    if (!hosts_) GTEST_SKIP() << "network namespaces are not allowed: " << Hosts::why();
    ASSERT_TRUE(hosts_->enter(kEtcd));
    etcd_ = EtcdCluster::start(3, Hosts::address(kEtcd));
    ASSERT_NE(etcd_, nullptr);
    setenv("TOY_TRACE", trace().c_str(), 1);
    start_on_both();
  }
  void TearDown() override {
    nodes_.clear();
    job_.reset();
    unsetenv("TOY_TRACE");
    if (HasFailure() && etcd_) ADD_FAILURE() << etcd_->logs();
    RuntimeTest::TearDown();
  }

  void start_on_both() {
    // What is started is where this thread is.
    ASSERT_TRUE(hosts_->enter(1));
    job_ = start(
        "job", toy(kOnEach, kLogical, kSteps,
                   {"--node", name(1), "--listen", Hosts::address(1), "--registry",
                    etcd_->url("/rubato"), "--failure-timeout", "2", "--checkpoint-steps", "50"}));
    ASSERT_TRUE(hosts_->enter(kEtcd));
    ASSERT_TRUE(until([&] { return job_->view().members.size() == kOnEach; })) << logs();
    ASSERT_TRUE(hosts_->enter(2));
    nodes_.push_back(std::make_unique<RunningNode>(
        test_paths::program("rubato"), job_->folder().path(), name(2), static_cast<int>(kOnEach),
        std::vector<std::string>{}, Hosts::address(2)));
    ASSERT_TRUE(hosts_->enter(kEtcd));
    ASSERT_TRUE(until([&] { return whole(); })) << logs();
  }

  static std::string name(int host) { return host == 1 ? "a" : "b"; }
  std::string trace() const { return root_ + "/trace"; }
  std::size_t members_of(int host) { return elastic::members_on(newest_, name(host)).size(); }
  // All members have made a step of the view: whoever is alone from now on has the state.
  bool whole() {
    return members_of(1) == kOnEach && members_of(2) == kOnEach &&
           job_->step() > newest_.first_step + 1;
  }
  // Watches the views meanwhile: their times are part of the history.
  bool until(const std::function<bool()>& condition) {
    return job_->until([&] {
      View now = job_->view();
      if (now.number > newest_.number) {
        seen_[now.number] = elastic::unix_seconds();
        newest_ = std::move(now);
      }
      return condition();
    });
  }
  // The other host goes on alone; then both train together again. On a busy machine its workers may
  // have been silent for too long just before: then nobody is left there to go on.
  void cut(int host) {
    for (bool went_on = false; !went_on;) {
      ASSERT_TRUE(until([&] { return whole(); })) << logs();
      const std::int64_t before = newest_.number;
      hosts_->cut(host);
      const auto nobody = [&] { return members_of(3 - host) == 0; };
      EXPECT_TRUE(until([&] {
        went_on = newest_.number > before && members_of(host) == 0;
        return went_on || nobody();
      })) << logs();
      if (HasFailure()) return;
      hosts_->mend(host);
    }
  }
  void kill_worker(Random& random) const {
    const auto& members = newest_.members;
    kill(static_cast<pid_t>(
             members[random.below(static_cast<std::uint32_t>(members.size()))].address.pid),
         SIGKILL);
  }
  void disturb(int what, Random& random) {
    switch (what) {
      case 0:
        return cut(1);
      case 1:
        return cut(2);
      case 2:  // of three members one may be away
        etcd_->kill_member(random.below(3));
        return kill_worker(random);
      default: {
        const std::size_t leader = etcd_->leader();
        if (leader == etcd_->size()) return;
        etcd_->stop_member(leader);
        const std::int64_t before = newest_.number;
        kill_worker(random);  // the others decide it without the stopped one
        EXPECT_TRUE(until([&] { return newest_.number > before; })) << logs();
        etcd_->continue_member(leader);
      }
    }
  }
  std::vector<Committed> history() {
    std::vector<Committed> all;
    const Result<elastic::JobSettings> settings = job_->folder().read_settings();
    auto registry = elastic::open_registry(job_->folder(), *settings);
    for (std::int64_t number = 1;; ++number) {
      const auto text = (*registry)->at(elastic::kViewRecord, number);
      if (!text.ok() || !*text) return all;
      Result<View> view = elastic::parse_view(parse_json(**text));
      EXPECT_TRUE(view.ok()) << view.error().message;
      const auto seen = seen_.lower_bound(number);  // with a later one, at the latest
      all.push_back(
          {std::move(*view), seen == seen_.end() ? elastic::unix_seconds() : seen->second});
    }
  }
  std::string logs() const {
    std::string all = job_->logs();
    for (const auto& node : nodes_) all += "\n--- " + node->node() + "\n" + node->log();
    return all;
  }

  std::string expected_;
  std::optional<Hosts> hosts_;
  std::unique_ptr<EtcdCluster> etcd_;
  std::unique_ptr<RunningJob> job_;
  std::vector<std::unique_ptr<RunningNode>> nodes_;
  View newest_;
  std::map<std::int64_t, double> seen_;  // by number of the view
};

TEST_P(EtcdPartition, TheHistoryIsThatOfOneJob) {
  const int seed = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(static_cast<std::uint64_t>(seed));
  std::vector<int> order{0, 1, 2, 3};
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  }
  for (const int what : order) {
    SCOPED_TRACE(testing::Message() << "disturbance " << what);
    disturb(what, random);
    ASSERT_TRUE(until([&] { return whole(); })) << logs();
    for (std::size_t member = 0; member < etcd_->size(); ++member) {
      if (!etcd_->runs(member)) etcd_->restart_member(member);
    }
  }
  EXPECT_EQ(finish(*job_), 0) << logs();
  EXPECT_EQ(job_->hash(), expected_) << logs();
  EXPECT_EQ(check_views(history(), trace(), kSteps, {}), "") << logs();
}

INSTANTIATE_TEST_SUITE_P(Seeds, EtcdPartition, testing::Range(1, 4));

}  // namespace
}  // namespace rubato::cluster
