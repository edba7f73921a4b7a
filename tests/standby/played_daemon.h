// A daemon of a shared log without jobs, in the test's process: it stands by, leads, appends, and
// can die or stand still at any point.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/standby/leadership.h"
#include "control/standby/shared_registry.h"
#include "control/standby/standby.h"
#include "control/store.h"

namespace rubato::control {

// Where daemons are, by URL, as they fetch stores from each other.
using Stores = std::map<std::string, std::string>;  // URL: state folder

class PlayedDaemon {
 public:
  struct Options {
    std::string name;
    std::string folder;
    elastic::RegistryUrl place;
    SharedLog::Timing timing{};
    std::chrono::milliseconds patience{200};
    std::chrono::milliseconds beat{3'600'000};  // it gives signs of life by appending only
    std::size_t most_commits = 20'000;
  };
  PlayedDaemon(Options options, Stores& stores) : options_(std::move(options)), stores_(stores) {}
  ~PlayedDaemon() { die(); }

  std::string url() const { return "http://" + options_.name; }
  bool runs() const { return standby_ != nullptr || store_ != nullptr; }
  bool leads() const { return store_ != nullptr; }
  bool must_begin_anew() const { return ended_; }
  Store& store() { return *store_; }
  Leadership& leadership() { return *leadership_; }
  std::shared_ptr<Leadership> shared_leadership() { return leadership_; }
  const Standby::Now& now() const { return now_; }

  void start() {
    auto made = Standby::make(
        log(), {.folder = options_.folder,
                .url = url(),
                .tokens = "tokens",
                .patience = options_.patience,
                .fetch = [this](const std::string& url, const std::string& file) -> Status {
                  const auto from = stores_.find(url);
                  if (from != stores_.end()) {
                    return Store::copy(from->second, file);
                  }
                  return Error{ErrorCode::kIo, "nobody answers at " + url};
                }});
    ASSERT_TRUE(made.ok()) << made.error().message;
    standby_ = std::move(*made);
    ended_ = false;
  }
  // As by kill -9.
  void die() {
    stores_.erase(url());
    standby_.reset();
    store_.reset();
    leadership_.reset();
  }
  // A standby's next step. True: it leads from now on.
  bool turn() {
    now_ = standby_->turn();
    if (!now_.leads) return false;
    leadership_ = standby_->lead(log(), {.beat = options_.beat,
                                         .patience = options_.patience,
                                         .most_commits = options_.most_commits,
                                         .ended = [this](const std::string&) { ended_ = true; }});
    standby_.reset();
    witness_.inner = leadership_.get();
    witness_.dies = false;
    auto store = Store::open(options_.folder, &witness_);
    EXPECT_TRUE(store.ok()) << store.error().message;
    store_ = std::move(*store);
    stores_[url()] = options_.folder;
    return true;
  }
  Status append(std::vector<Event> events) { return store_->append(events); }
  // The next append gets into the shared log, and then the daemon dies.
  void will_die() { witness_.dies = true; }
  bool has_died() const { return witness_.died; }

  std::shared_ptr<SharedLog> log() const {
    return std::make_shared<SharedLog>(options_.place, options_.timing);
  }

 private:
  struct DyingWitness final : Witness {
    Leadership* inner = nullptr;
    bool dies = false;
    bool died = false;
    Status witness(std::span<const Event> events, std::span<const std::string> bodies) override {
      Status done = inner->witness(events, bodies);
      died = done.ok() && dies;
      return died ? Error{ErrorCode::kIo, "it has died"} : done;
    }
    void broken(const Error& error) override { inner->broken(error); }
  };

  const Options options_;
  Stores& stores_;
  std::atomic<bool> ended_{false};
  std::unique_ptr<Standby> standby_;
  std::shared_ptr<Leadership> leadership_;
  DyingWitness witness_;
  std::unique_ptr<Store> store_;
  Standby::Now now_;
};

}  // namespace rubato::control
