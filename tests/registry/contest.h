// Many writers of one record, and what must be true of its history whatever happens to them:
// versions are consecutive, each has the value of one call, a call that said true has its version,
// one that said false has none, and whoever reads sees at least what was there when it asked.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "elastic/job/registry.h"

namespace rubato::elastic {

class Contest {
 public:
  using Open = std::function<std::unique_ptr<Registry>()>;
  explicit Contest(Open open, std::string name = "contest")
      : open_(std::move(open)), name_(std::move(name)) {}

  // Each thread tries until it has won `wins` times, or until stop().
  void start(int threads, int wins) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i, wins] { compete(fmt::format("thread {}", i), wins); });
    }
  }
  void stop() { stopping_ = true; }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::int64_t won() const { return won_; }
  std::int64_t errors() const { return errors_; }
  std::string last_error() {
    const std::lock_guard lock(mutex_);
    return last_error_;
  }

  // One writer. Calls may be tried several times: after an error, with the version that is there.
  void compete(const std::string& who, int wins) {
    const std::unique_ptr<Registry> registry = open_();
    int mine = 0;
    for (int i = 0; mine < wins && !stopping_; ++i) {
      const std::int64_t known = committed_;
      const Result<Record> newest = registry->get(name_);
      if (!newest.ok()) {
        note(newest.error());
        continue;
      }
      EXPECT_GE(newest->version, known) << who << " read what was not the newest any more";
      const std::string value = fmt::format("{} try {}", who, i);
      const Result<bool> won = registry->compare_and_swap(name_, newest->version, value);
      if (!won.ok()) {
        note(won.error());
        if (won.error().code == ErrorCode::kRefused) lost(value);
      } else if (*won) {
        ++mine;
        ++won_;
        win(newest->version + 1, value);
      } else {
        lost(value);
      }
    }
  }

  void win(std::int64_t version, const std::string& value) {
    for (std::int64_t before = committed_; before < version;) {
      if (committed_.compare_exchange_weak(before, version)) break;
    }
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(wins_.emplace(version, value).second) << "two calls won version " << version;
  }
  const std::map<std::int64_t, std::string>& wins() const { return wins_; }

  // When all is calm again.
  void check() { check(*open_()); }
  void check(Registry& calm) {
    Registry* const registry = &calm;
    const Result<Record> newest = registry->get(name_);
    ASSERT_TRUE(newest.ok()) << newest.error().message;
    std::map<std::string, std::int64_t> history;
    for (std::int64_t version = 1; version <= newest->version; ++version) {
      const auto value = registry->at(name_, version);
      ASSERT_TRUE(value.ok()) << value.error().message;
      ASSERT_TRUE(value->has_value()) << "version " << version << " is gone";
      EXPECT_TRUE(history.emplace(**value, version).second)
          << "'" << **value << "' was written twice";
      if (version == newest->version) {
        EXPECT_EQ(**value, newest->value);
      }
    }
    EXPECT_FALSE(registry->at(name_, newest->version + 1)->has_value());
    for (const auto& [version, value] : wins_) {
      EXPECT_EQ(history[value], version) << "'" << value << "' had won and is lost";
    }
    for (const std::string& value : losses_) {
      EXPECT_FALSE(history.contains(value)) << "'" << value << "' had lost and is there";
    }
    EXPECT_GE(newest->version, static_cast<std::int64_t>(wins_.size()));
    // Only calls that ended with an error are in the history besides those that won.
    EXPECT_LE(newest->version, static_cast<std::int64_t>(wins_.size()) + errors_);
  }

 private:
  void note(const Error& error) {
    ++errors_;
    const std::lock_guard lock(mutex_);
    last_error_ = error.message;
  }
  void lost(const std::string& value) {
    const std::lock_guard lock(mutex_);
    losses_.push_back(value);
  }

  const Open open_;
  const std::string name_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> committed_{0};
  std::atomic<std::int64_t> won_{0};
  std::atomic<std::int64_t> errors_{0};
  std::mutex mutex_;
  std::map<std::int64_t, std::string> wins_;
  std::vector<std::string> losses_;
  std::string last_error_;
};

}  // namespace rubato::elastic
