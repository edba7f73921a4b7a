// What every registry promises (elastic/job/registry.h), asked of each of them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "control/temporary_folder.h"
#include "elastic/job/registry_url.h"
#include "registry/contest.h"
#include "registry/etcd_cluster.h"

namespace rubato::elastic {
namespace {

enum class Backend { kFile, kEtcd };

class ConformanceTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::kFile) {
      url_ = "file:" + (temporary_ / "registry");
    } else {
      if (EtcdCluster::program().empty()) GTEST_SKIP() << EtcdCluster::kAbsent;
      etcd_ = EtcdCluster::start(1);
      ASSERT_NE(etcd_, nullptr);
      url_ = etcd_->url("/rubato/test");
    }
    ASSERT_TRUE(create_registry(url_).ok());
    registry_ = open();
  }
  void TearDown() override {
    if (HasFailure() && etcd_) ADD_FAILURE() << etcd_->logs();
  }
  std::unique_ptr<Registry> open() const {
    auto opened = open_registry(url_);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }

  const TemporaryFolder temporary_;
  std::unique_ptr<EtcdCluster> etcd_;
  std::string url_;
  std::unique_ptr<Registry> registry_;
};

TEST_P(ConformanceTest, VersionsAreConsecutiveAndDecidedOnce) {
  EXPECT_EQ(registry_->get("view")->version, 0);
  EXPECT_FALSE(registry_->at("view", 1)->has_value());
  for (std::int64_t version = 1; version <= 20; ++version) {
    EXPECT_TRUE(*registry_->compare_and_swap("view", version - 1, std::to_string(version)));
    EXPECT_FALSE(*registry_->compare_and_swap("view", version - 1, "late"));
    EXPECT_FALSE(*registry_->compare_and_swap("view", version + 1, "early"));
    EXPECT_EQ(registry_->get("view")->version, version);
    EXPECT_EQ(registry_->get("view")->value, std::to_string(version));
  }
  for (std::int64_t version = 1; version <= 20; ++version) {
    EXPECT_EQ(registry_->at("view", version)->value(), std::to_string(version));
  }
  EXPECT_FALSE(registry_->at("view", 21)->has_value());
}

TEST_P(ConformanceTest, RecordsDoNotMeet) {
  const auto other = open();
  ASSERT_TRUE(*registry_->compare_and_swap("view", 0, "a view"));
  EXPECT_EQ(other->get("views")->version, 0);
  EXPECT_EQ(other->get("vie")->version, 0);
  ASSERT_TRUE(*other->compare_and_swap("target", 0, "a target"));
  EXPECT_EQ(registry_->get("view")->value, "a view");
  EXPECT_EQ(registry_->get("target")->value, "a target");
}

TEST_P(ConformanceTest, AValueIsAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  std::string large(300'000, 'x');
  large += all;
  const std::vector<std::string> values{"", "\n", all, "rubato1 7 me\n", large};
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(*registry_->compare_and_swap("view", static_cast<std::int64_t>(i), values[i]));
    EXPECT_EQ(registry_->get("view")->value, values[i]);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(registry_->at("view", static_cast<std::int64_t>(i) + 1)->value(), values[i]);
  }
}

TEST_P(ConformanceTest, OfManyThreadsOneWins) {
  Contest contest([this] { return open(); });
  contest.start(8, 25);
  contest.join();
  EXPECT_EQ(contest.errors(), 0) << contest.last_error();
  EXPECT_EQ(contest.won(), 200);
  contest.check();
}

TEST_P(ConformanceTest, OfManyProcessesOneWins) {
  constexpr int kProcesses = 6;
  constexpr int kWins = 20;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      Contest one([this] { return open(); });
      one.compete(fmt::format("process {}", i), kWins);
      std::ofstream file(temporary_ / std::to_string(i));
      for (const auto& [version, value] : one.wins()) file << version << ' ' << value << '\n';
      file.close();
      _exit(one.errors() == 0 && !testing::Test::HasFailure() ? 0 : 1);
    }
    children.push_back(child);
  }
  Contest contest([this] { return open(); });
  for (int i = 0; i < kProcesses; ++i) {
    int status = 0;
    waitpid(children[static_cast<std::size_t>(i)], &status, 0);
    EXPECT_EQ(status, 0);
    std::ifstream file(temporary_ / std::to_string(i));
    std::int64_t version = 0;
    for (std::string value; file >> version && std::getline(file, value);) {
      contest.win(version, value.substr(1));
    }
  }
  EXPECT_EQ(contest.wins().size(), static_cast<std::size_t>(kProcesses * kWins));
  contest.check();
}

std::string name_of(const testing::TestParamInfo<Backend>& info) {
  return info.param == Backend::kFile ? "File" : "Etcd";
}
INSTANTIATE_TEST_SUITE_P(Registries, ConformanceTest,
                         testing::Values(Backend::kFile, Backend::kEtcd), name_of);

}  // namespace
}  // namespace rubato::elastic
