// Series, points of jobs and who had which devices: what is kept, for how long, and how finely.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/file.h"
#include "control/series_store.h"
#include "control/session.h"
#include "control/store.h"
#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

using nlohmann::json;

constexpr double kNoon = 1'800'000'000;  // a multiple of all steps

class SeriesTest : public ::testing::Test {
 protected:
  SeriesTest() { open(); }
  void open(const std::string& log = "log", std::int64_t last_seq = 1000) {
    store_.reset();
    auto store = SeriesStore::open(folder_.path(), log, last_seq);
    ASSERT_TRUE(store.ok()) << store.error().message;
    store_ = std::move(*store);
  }
  void add(double at, double allocated, const std::vector<JobPoint>& points = {}) {
    ClusterSample sample{.at = at};
    sample.values[2] = allocated;
    ASSERT_TRUE(store_->add({&sample, 1}, points).ok());
  }
  Series read(const SeriesQuery& query) {
    const auto series = store_->read(query);
    EXPECT_TRUE(series.ok());
    return series.ok() ? *series : Series{};
  }
  void note(Event event) {
    event.seq = ++seq_;
    ASSERT_TRUE(store_->note({&event, 1}).ok());
  }
  void hold(double at, JobNumber job, int devices) {
    json nodes = json::array();
    if (devices > 0) nodes = {{{"node", "n1"}, {"device_type", "cpu"}, {"devices", devices}}};
    note({.at = at, .type = "held", .job = job, .body = {{"devices", devices}, {"nodes", nodes}}});
  }
  DevicesThen devices(double at) {
    const auto then = store_->devices(at);
    EXPECT_TRUE(then.ok());
    return then.ok() ? *then : DevicesThen{};
  }

  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> store_;
  std::int64_t seq_ = 0;
};

TEST_F(SeriesTest, PeriodsAreMeansOfTheirSamples) {
  for (int i = 0; i < 10; ++i) add(kNoon + i, i < 5 ? 2 : 4);
  const Series fine = read({.from = kNoon, .to = kNoon + 9, .step = 5});
  EXPECT_EQ(fine.step, 5);
  EXPECT_EQ(fine.at, (std::vector<double>{kNoon, kNoon + 5}));
  EXPECT_EQ(fine.columns[2], (std::vector<double>{2, 4}));
  const Series coarse = read({.from = kNoon, .to = kNoon + 9, .step = 60});
  EXPECT_EQ(coarse.step, 60);
  EXPECT_EQ(coarse.columns[2], std::vector<double>{3});
}

TEST_F(SeriesTest, WhatIsOldIsKeptMoreCoarsely) {
  for (int minute = 0; minute < 5 * 60; ++minute) add(kNoon + minute * 60, minute);
  const double end = kNoon + 299 * 60;
  EXPECT_EQ(read({.from = end - 600, .to = end, .step = 5}).step, 5);
  const Series day = read({.from = kNoon, .to = end, .step = 5});
  EXPECT_EQ(day.step, 60) << "samples of 5 s go after two hours";
  EXPECT_EQ(day.at.size(), 300U);
  EXPECT_EQ(read({.from = end - 3 * 86'400, .to = end}).step % 600, 0);
}

TEST_F(SeriesTest, AJobHasABoundedNumberOfPoints) {
  for (int second = 0; second < 3000; ++second) {
    add(kNoon + second, 1, {{.job = 7, .at = kNoon + second, .step = second, .held = 2}});
  }
  const auto points = store_->points(7);
  ASSERT_TRUE(points.ok());
  EXPECT_LE(points->size(), static_cast<std::size_t>(SeriesStore::kMostPoints));
  EXPECT_GE(points->size(), static_cast<std::size_t>(SeriesStore::kMostPoints) / 3);
  EXPECT_EQ(points->front().step, 0) << "it covers the whole time";
  EXPECT_GT(points->back().step, 2900);
  EXPECT_TRUE(store_->points(8)->empty());
}

TEST_F(SeriesTest, PointsGoOnAfterARestart) {
  JobPoint point{.job = 1, .at = kNoon, .step = 3, .loss = 0.5, .metrics = {{"accuracy", 0.9}}};
  add(kNoon, 1, {point});
  open();
  point.at += 100;
  add(kNoon + 100, 1, {point});
  const auto points = store_->points(1);
  ASSERT_EQ(points->size(), 2U);
  EXPECT_EQ(points->front().metrics["accuracy"], 0.9);
}

TEST_F(SeriesTest, DevicesOfAnyTime) {
  note({.at = kNoon,
        .type = "started",
        .body = {{"nodes", {{{"node", "n1"}, {"device_type", "cpu"}, {"devices", 4}}}}}});
  hold(kNoon + 10, 1, 4);
  hold(kNoon + 20, 1, 2);
  hold(kNoon + 21, 2, 2);
  hold(kNoon + 30, 1, 0);
  EXPECT_TRUE(devices(kNoon + 5).spans.empty());
  EXPECT_EQ(devices(kNoon + 5).nodes.size(), 1U);
  const DevicesThen full = devices(kNoon + 15);
  ASSERT_EQ(full.spans.size(), 1U);
  EXPECT_EQ(devices_on(full.spans[0].nodes), 4);
  EXPECT_EQ(full.spans[0].since, kNoon + 10);
  EXPECT_EQ(full.spans[0].until, kNoon + 20);
  EXPECT_EQ(devices(kNoon + 25).spans.size(), 2U);
  const DevicesThen last = devices(kNoon + 99);
  ASSERT_EQ(last.spans.size(), 1U);
  EXPECT_EQ(last.spans[0].job, 2);
  EXPECT_EQ(last.spans[0].until, 0);
}

TEST_F(SeriesTest, ReservationsOfAnyTime) {
  const auto reserve = [&](double at, int number, int devices) {
    note({.at = at,
          .type = "reserved",
          .body = {{"number", number}, {"devices", devices}, {"until", at + 3600}}});
  };
  reserve(kNoon + 10, 1, 2);
  reserve(kNoon + 20, 2, 1);
  note({.at = kNoon + 30, .type = "released", .body = {{"number", 1}}});
  EXPECT_TRUE(devices(kNoon + 5).reservations.empty());
  EXPECT_EQ(devices(kNoon + 25).reservations.size(), 2U);
  const DevicesThen last = devices(kNoon + 30);
  ASSERT_EQ(last.reservations.size(), 1U);
  EXPECT_EQ(last.reservations[0].number, 2);
  EXPECT_EQ(last.reservations[0].devices, 1);
  EXPECT_EQ(last.reservations[0].from, kNoon + 20);
  EXPECT_EQ(last.reservations[0].until, kNoon + 3620);
}

TEST_F(SeriesTest, AnotherLogOrAnOlderCopyBeginsAnew) {
  hold(kNoon, 1, 2);
  open();
  EXPECT_EQ(store_->seen(), 1);
  EXPECT_EQ(devices(kNoon + 1).spans.size(), 1U);
  open("log", 0);
  EXPECT_EQ(store_->seen(), 0);
  EXPECT_TRUE(devices(kNoon + 1).spans.empty());
  seq_ = 0;
  hold(kNoon, 1, 2);
  open("another log");
  EXPECT_TRUE(devices(kNoon + 1).spans.empty());
}

// Version 1 had no reservations, version 2 nothing of what drivers tell.
TEST_F(SeriesTest, AFileOfAnEarlierVersionIsBroughtUpToDate) {
  add(kNoon, 3);
  hold(kNoon, 1, 2);
  const auto make_older = [&](const std::string& sql) {
    store_.reset();
    auto database = Database::open(folder_ / "series.db");
    ASSERT_TRUE(database.ok());
    const Status made = database->execute(
        "ALTER TABLE series DROP COLUMN utilisation; ALTER TABLE series DROP COLUMN memory;" + sql);
    ASSERT_TRUE(made.ok()) << made.error().message;
  };
  make_older("PRAGMA user_version = 2");
  open();
  EXPECT_EQ(store_->seen(), 1);
  EXPECT_EQ(devices(kNoon + 1).spans.size(), 1U);
  make_older("DROP TABLE reservations; PRAGMA user_version = 1");
  open();
  const Series series = read({.from = kNoon, .to = kNoon + 9});
  EXPECT_EQ(series.columns[2], std::vector<double>{3});
  EXPECT_FALSE(to_json(series).contains("utilisation"));
  EXPECT_EQ(store_->seen(), 0) << "the events come again";
  seq_ = 0;
  hold(kNoon, 1, 2);
  EXPECT_EQ(devices(kNoon + 1).spans.size(), 1U);
}

TEST_F(SeriesTest, ADamagedFileBeginsAnew) {
  add(kNoon, 1);
  store_.reset();
  std::remove((folder_ / "series.db-wal").c_str());
  ASSERT_TRUE(write_file(folder_ / "series.db", "no database, " + std::string(5000, 'x')).ok());
  open();
  EXPECT_TRUE(read({.from = kNoon, .to = kNoon + 9}).at.empty());
  add(kNoon, 1);
  EXPECT_EQ(read({.from = kNoon, .to = kNoon + 9}).at.size(), 1U);
}

TEST(Session, IsWhatTheDaemonSignedAndNothingElse) {
  const std::string text =
      signed_session({.tenant = "vi.sion", .admin = false, .expires_at = 2000}, "v1", "key");
  const auto claimed = claimed_session(text);
  ASSERT_TRUE(claimed.has_value());
  EXPECT_EQ(claimed->tenant, "vi.sion");
  EXPECT_FALSE(claimed->admin);
  EXPECT_EQ(claimed->expires_at, 2000);
  EXPECT_TRUE(is_signed(text, "v1", "key"));
  EXPECT_FALSE(is_signed(text, "v2", "key")) << "its token was replaced";
  EXPECT_FALSE(is_signed(text, "v1", "other"));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string altered = text;
    altered[i] = altered[i] == '1' ? '2' : '1';
    EXPECT_FALSE(is_signed(altered, "v1", "key")) << altered;
  }
  for (const char* wrong :
       {"", ".", "...", "a.b.c.d", "1.admin", "1.admin.zz.00", "-1.admin..00"}) {
    EXPECT_FALSE(claimed_session(wrong).has_value()) << wrong;
    EXPECT_FALSE(is_signed(wrong, "v1", "key")) << wrong;
  }
}

// --- Searches in the event log (store_event_search.cpp)
class EventSearchTest : public ::testing::Test {
 protected:
  EventSearchTest() {
    auto store = Store::open(folder_.path());
    EXPECT_TRUE(store.ok());
    store_ = std::move(*store);
    for (int i = 1; i <= 10; ++i) {
      Event event{.at = i * 10.0,
                  .type = i % 2 == 1 ? "warning" : "supply",
                  .body = i % 2 == 1 ? json{{"message", "m"}} : json{{"text", "t"}, {"until", 1}}};
      EXPECT_TRUE(store_->append({&event, 1}).ok());
    }
  }
  std::vector<std::int64_t> find(const EventQuery& query) {
    const auto page = store_->find_events(query);
    EXPECT_TRUE(page.ok());
    std::vector<std::int64_t> found;
    for (const Event& event : page->events) found.push_back(event.seq);
    next_ = page->next;
    return found;
  }
  using Numbers = std::vector<std::int64_t>;

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  std::optional<std::int64_t> next_;
};

TEST_F(EventSearchTest, ByTime) {
  EXPECT_EQ(find({.since = 35, .until = 70}), (Numbers{4, 5, 6}));
  EXPECT_EQ(find({.since = 40, .until = 71}), (Numbers{4, 5, 6, 7}));
  EXPECT_TRUE(find({.since = 101}).empty());
  EXPECT_EQ(find({.until = 11}), Numbers{1});
  EXPECT_TRUE(find({.until = 10}).empty());
}

TEST_F(EventSearchTest, ByType) {
  EXPECT_EQ(find({.types = {"warning"}}), (Numbers{1, 3, 5, 7, 9}));
  EXPECT_EQ(find({.types = {"warning"}, .limit = 2}), (Numbers{1, 3}));
  EXPECT_EQ(find({.after = *next_, .types = {"warning"}, .limit = 9}), (Numbers{5, 7, 9}));
  EXPECT_FALSE(next_.has_value());
}

TEST_F(EventSearchTest, NewestFirst) {
  EXPECT_EQ(find({.newest_first = true, .limit = 3}), (Numbers{10, 9, 8}));
  EXPECT_EQ(find({.before = *next_, .newest_first = true, .limit = 3}), (Numbers{7, 6, 5}));
  EXPECT_EQ(find({.before = 5, .types = {"supply"}, .newest_first = true}), (Numbers{4, 2}));
  EXPECT_TRUE(find({.tenant = "red"}).empty());
  EXPECT_TRUE(find({.job = 3}).empty());
}

}  // namespace
}  // namespace rubato::control
