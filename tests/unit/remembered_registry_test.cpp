#include "elastic/job/remembered_registry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace rubato::elastic {
namespace {

// Counts its reads; tells of changes when the test says so.
class CountingRegistry final : public Registry {
 public:
  Result<Record> get(const std::string&) override {
    ++reads;
    if (away) return Error{ErrorCode::kIo, "away"};
    return Record{version, std::to_string(version)};
  }
  Result<bool> compare_and_swap(const std::string&, std::int64_t expected,
                                const std::string&) override {
    if (expected != version) return false;
    ++version;
    return true;
  }
  Result<std::optional<std::string>> at(const std::string&, std::int64_t) override {
    return std::optional<std::string>();
  }
  std::unique_ptr<RegistryWatch> watch(std::function<void()> tell) override {
    if (!watched) return nullptr;
    changed = std::move(tell);
    return std::make_unique<RegistryWatch>();
  }
  std::chrono::milliseconds look_interval() const override { return std::chrono::hours(1); }

  int reads = 0;
  std::int64_t version = 1;
  bool away = false;
  bool watched = true;
  std::function<void()> changed;
};

class RememberedRegistryTest : public testing::Test {
 protected:
  std::unique_ptr<CountingRegistry> made_ = std::make_unique<CountingRegistry>();
  CountingRegistry& beneath_ = *made_;
};

TEST_F(RememberedRegistryTest, ReadsWhenSomethingHasChanged) {
  RememberedRegistry registry(std::move(made_));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(registry.get("view")->version, 1);
  EXPECT_EQ(beneath_.reads, 1);
  beneath_.version = 2;
  beneath_.changed();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(registry.get("view")->value, "2");
  EXPECT_EQ(beneath_.reads, 2);
  registry.forget();
  EXPECT_EQ(registry.get("view")->version, 2);
  EXPECT_EQ(beneath_.reads, 3);
}

TEST_F(RememberedRegistryTest, AWriteIsSeenAtOnceAndALostOneReadAgain) {
  RememberedRegistry registry(std::move(made_));
  EXPECT_EQ(registry.get("view")->version, 1);
  EXPECT_TRUE(*registry.compare_and_swap("view", 1, "x"));
  EXPECT_EQ(registry.get("view")->version, 2);
  beneath_.version = 3;  // another writes, and no hint has come yet
  EXPECT_FALSE(*registry.compare_and_swap("view", 2, "x"));
  EXPECT_EQ(registry.get("view")->version, 3);
}

TEST_F(RememberedRegistryTest, AnErrorIsNotRemembered) {
  RememberedRegistry registry(std::move(made_));
  beneath_.away = true;
  EXPECT_FALSE(registry.get("view").ok());
  beneath_.away = false;
  EXPECT_EQ(registry.get("view")->version, 1);
}

TEST_F(RememberedRegistryTest, WithoutAWatchEverythingIsRead) {
  beneath_.watched = false;
  RememberedRegistry registry(std::move(made_));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(registry.get("view")->version, 1);
  EXPECT_EQ(beneath_.reads, 5);
}

}  // namespace
}  // namespace rubato::elastic
