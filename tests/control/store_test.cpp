#include "control/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "control/random_events.h"
#include "control/sqlite.h"
#include "control/state_folder.h"
#include "control/store_schema.h"
#include "control/temporary_folder.h"
#include "control/whole_state.h"

namespace rubato::control {
namespace {

using nlohmann::json;

Event submission(JobNumber number, const std::string& tenant = "red") {
  return {.at = 1,
          .type = "submitted",
          .job = number,
          .tenant = tenant,
          .body = {{"document", {{"run", {"train", std::to_string(number)}}}}}};
}

std::unique_ptr<Store> opened(const std::string& folder) {
  auto store = Store::open(folder);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return store.ok() ? std::move(*store) : nullptr;
}

Status append_one(Store& store, Event event) { return store.append({&event, 1}); }

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777U;
}

TEST(Store, IsPrivate) {
  const TemporaryFolder folder;
  const std::string state = folder / "a/b";
  const auto store = opened(state);
  ASSERT_TRUE(append_one(*store, submission(1)).ok());
  EXPECT_EQ(mode_of(state), 0700U);
  for (const char* file : {"/rubato.db", "/rubato.db-wal", "/rubato.db-shm", "/rubato.lock"}) {
    EXPECT_EQ(mode_of(state + file), 0600U) << file;
  }
}

TEST(Store, AForeignFolderIsRefusedAndLeftAlone) {
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_TRUE(write_file(folder / "thesis.tex", "x").ok());
  const auto store = Store::open(folder.path());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("not the daemon's"), std::string::npos);
  EXPECT_EQ(mode_of(folder.path()), 0755U);
  EXPECT_EQ(list_directory(folder.path())->size(), 1U);
}

TEST(Store, OneDaemonAtATime) {
  const TemporaryFolder folder;
  auto store = opened(folder.path());
  const auto second = Store::open(folder.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message,
            fmt::format("{}: another rubatod (process {}) is using this folder", folder.path(),
                        ::getpid()));
  store.reset();
  EXPECT_TRUE(Store::open(folder.path()).ok());
}

// The child has the lock's file open until it executes its program.
TEST(Store, AChildThatADeadDaemonLeftBehindDoesNotKeepTheNextOneOut) {
  const TemporaryFolder folder;
  std::array<int, 2> leash{};
  ASSERT_EQ(::pipe(leash.data()), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    ::close(leash[1]);
    const auto lock = FolderLock::take(folder.path());
    if (::fork() == 0) {
      char none = 0;
      while (::read(leash[0], &none, 1) > 0) {
      }
    }
    _exit(lock.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(daemon, &status, 0);
  ASSERT_EQ(status, 0);
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // while the next one waits
    ::close(leash[1]);
  });
  EXPECT_TRUE(FolderLock::take(folder.path()).ok());
  ending.join();
  ::close(leash[0]);
}

TEST(Store, AppendIsAllOrNothing) {
  const TemporaryFolder folder;
  const auto store = opened(folder.path());
  std::vector<Event> events{submission(1), submission(2), submission(2)};
  EXPECT_FALSE(store->append(events).ok());
  EXPECT_EQ(store->state().last_seq, 0);
  EXPECT_TRUE(store->state().jobs.empty());
  EXPECT_TRUE(store->read_events(0, 10, 0, "")->empty());
  events.pop_back();
  ASSERT_TRUE(store->append(events).ok());
  EXPECT_EQ(events[1].seq, 2);
  EXPECT_EQ(store->state().jobs.size(), 2U);
  EXPECT_TRUE(store->append({}).ok());
}

TEST(Store, ReadsEventsByNumberJobAndTenant) {
  const TemporaryFolder folder;
  const auto store = opened(folder.path());
  for (JobNumber job = 1; job <= 6; ++job) {
    ASSERT_TRUE(append_one(*store, submission(job, job % 2 == 0 ? "red" : "blue")).ok());
  }
  const auto numbers = [&](std::int64_t after, int limit, JobNumber job, const char* tenant) {
    std::vector<std::int64_t> seqs;
    const auto events = store->read_events(after, limit, job, tenant);
    EXPECT_TRUE(events.ok());
    for (const Event& event : *events) seqs.push_back(event.seq);
    return seqs;
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(numbers(0, 100, 0, ""), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(numbers(2, 2, 0, ""), (Numbers{3, 4}));
  EXPECT_EQ(numbers(0, 100, 0, "red"), (Numbers{2, 4, 6}));
  EXPECT_EQ(numbers(2, 1, 0, "red"), (Numbers{4}));
  EXPECT_EQ(numbers(0, 100, 3, ""), (Numbers{3}));
  EXPECT_EQ(numbers(0, 100, 3, "blue"), (Numbers{3}));
  EXPECT_EQ(numbers(0, 100, 3, "red"), (Numbers{}));
  EXPECT_EQ(numbers(0, 0, 0, ""), (Numbers{}));
}

TEST(Store, WhatJsonCannotSayIsNullAtOnce) {
  const TemporaryFolder folder;
  const auto store = opened(folder.path());
  ASSERT_TRUE(append_one(*store, submission(1)).ok());
  Event diverged{.at = 2,
                 .type = "progress",
                 .job = 1,
                 .tenant = "red",
                 .body = {{"loss", std::numeric_limits<double>::quiet_NaN()}}};
  ASSERT_TRUE(append_one(*store, diverged).ok());
  EXPECT_TRUE(store->state().jobs.at(1).progress["loss"].is_null());
  EXPECT_EQ(to_json(*Store::replay(folder.path())), to_json(store->state()));

  Event odd{.at = 2, .type = "progress", .job = 1, .tenant = "red", .body = {{"x", "\xff"}}};
  EXPECT_FALSE(append_one(*store, odd).ok());
  odd.body = {{"x", std::string(2 << 20, 'x')}};
  EXPECT_FALSE(append_one(*store, odd).ok());
  odd.body = json::object();
  json* deepest = &odd.body["x"];
  for (int i = 0; i < 1000; ++i) deepest = &(*deepest)["x"];
  EXPECT_FALSE(append_one(*store, odd).ok());
  EXPECT_EQ(store->state().last_seq, 2);
}

// State, views and replay agree for random histories in random groups with daemon restarts.
TEST(Store, ReopensToTheSameState) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const TemporaryFolder folder;
    RandomEvents events(seed);
    Random random(seed + 1'000'000);
    auto store = opened(folder.path());
    for (int i = 0; i < 150; ++i) {
      std::vector<Event> group(static_cast<std::size_t>(random.between(1, 4)));
      for (Event& event : group) event = events.next(store->state());
      const json before = to_json(store->state());
      const Status status = store->append(group);
      if (!status.ok()) {
        ASSERT_EQ(to_json(store->state()), before);
      }
      if (random.chance(0.05)) {
        const json live = to_json(whole_state(*store));
        const auto replayed = Store::replay(folder.path());
        ASSERT_TRUE(replayed.ok()) << replayed.error().message;
        ASSERT_EQ(to_json(*replayed), live);
        store.reset();
        store = opened(folder.path());
        ASSERT_EQ(to_json(whole_state(*store)), live);
        for (const auto& [number, job] : store->state().jobs) ASSERT_FALSE(at_rest(job));
        for (const auto& [key, use] : replayed->keys) {
          ASSERT_EQ(**store->jobs().stored_key(key.first, key.second), use) << key.second;
        }
      }
    }
    EXPECT_GT(store->state().last_seq, 30);
  }
}

TEST(Store, ReadersBesideTheWriter) {
  const TemporaryFolder folder;
  const auto store = opened(folder.path());
  std::atomic<bool> done{false};
  std::vector<std::thread> readers(3);
  for (std::thread& reader : readers) {
    reader = std::thread([&] {
      std::int64_t last = 0;
      while (!done.load()) {
        const auto events = store->read_events(last, 100, 0, "");
        ASSERT_TRUE(events.ok()) << events.error().message;
        for (const Event& event : *events) ASSERT_EQ(event.seq, ++last);
        const ReadLock lock(store->state_lock());
        ASSERT_GE(store->state().last_seq, 0);
      }
    });
  }
  for (JobNumber job = 1; job <= 300; ++job) {
    ASSERT_TRUE(append_one(*store, submission(job)).ok());
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

void execute(const std::string& path, const std::string& sql) {
  auto database = Database::open(path);
  ASSERT_TRUE(database.ok()) << database.error().message;
  const Status status = database->execute(sql);
  ASSERT_TRUE(status.ok()) << status.error().message;
}

// A database as version 1 wrote it, with empty views.
TEST(Store, MigratesAVersion1Database) {
  const TemporaryFolder folder;
  const std::string path = folder / "rubato.db";
  ASSERT_TRUE(write_file(path, "").ok());
  execute(path, R"sql(
PRAGMA journal_mode = WAL;
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema_version', 1), ('view_seq', 0);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL, job INTEGER NOT NULL,
  tenant TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX events_by_job ON events (job);
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, phase TEXT NOT NULL, document TEXT NOT NULL,
  record TEXT NOT NULL);
CREATE TABLE tenants (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reservations (number INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE profiles (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO events VALUES
  (1, 5.5, 'submitted', 1, 'red', '{"document":{"run":["train"]}}'),
  (2, 6.5, 'granted', 1, 'red', '{"devices":2,"reason":"started"}');
)sql");
  {
    const auto store = opened(folder.path());
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->state().jobs.at(1).granted, 2);
    EXPECT_EQ(store->read_events(0, 9, 0, "red")->size(), 2U);
    ASSERT_TRUE(append_one(*store, submission(2)).ok());
  }
  auto database = Database::open(path);
  EXPECT_EQ(*schema_version(*database, path), current_schema_version());
  EXPECT_FALSE(database->execute("DELETE FROM events WHERE seq = 1").ok());
  EXPECT_FALSE(database->execute("UPDATE events SET at = 0 WHERE seq = 1").ok());
}

TEST(Store, ANewerOrForeignDatabaseIsRefusedUnchanged) {
  const TemporaryFolder folder;
  const std::string path = folder / "rubato.db";
  opened(folder.path()).reset();
  execute(path, "UPDATE meta SET value = 99 WHERE name = 'schema_version'");
  std::string before = *read_file(path);
  auto store = Store::open(folder.path());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("written by a newer rubatod"), std::string::npos)
      << store.error().message;
  EXPECT_EQ(*read_file(path), before);
  EXPECT_FALSE(Store::replay(folder.path()).ok());

  const TemporaryFolder other;
  ASSERT_TRUE(write_file(other / "rubato.db", "").ok());
  execute(other / "rubato.db", "CREATE TABLE recipes (name)");
  before = *read_file(other / "rubato.db");
  store = Store::open(other.path());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("not one of rubatod"), std::string::npos);
  EXPECT_EQ(*read_file(other / "rubato.db"), before);
}

TEST(Store, ViewsThatAreBehindAreMadeAnew) {
  const TemporaryFolder folder;
  json live;
  {
    const auto store = opened(folder.path());
    for (JobNumber job = 1; job <= 5; ++job) {
      ASSERT_TRUE(append_one(*store, submission(job)).ok());
    }
    live = to_json(store->state());
  }
  for (const char* damage :
       {"DELETE FROM jobs WHERE number = 2; UPDATE meta SET value = 3 WHERE name = 'view_seq'",
        "UPDATE jobs SET record = '{' WHERE number = 4"}) {
    execute(folder / "rubato.db", damage);
    EXPECT_EQ(to_json(opened(folder.path())->state()), live) << damage;
  }
}

TEST(Store, ReplayOfNothing) {
  const TemporaryFolder folder;
  const auto state = Store::replay(folder.path());
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace rubato::control
