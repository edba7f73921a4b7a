// What has ended costs nothing and loses nothing: jobs at rest, folded logs, archived folders,
// removed jobs, keys; and a process that dies at each point in between.
#include "control/retention.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/random.h"
#include "control/folder_removal.h"
#include "control/job_owner.h"
#include "control/random_events.h"
#include "control/sqlite.h"
#include "control/store.h"
#include "control/temporary_folder.h"
#include "control/whole_state.h"

namespace rubato::control {
namespace {

using nlohmann::json;

std::unique_ptr<Store> opened_store(const std::string& folder) {
  auto store = Store::open(folder);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return store.ok() ? std::move(*store) : nullptr;
}

Event about_job(double at, const char* type, JobNumber job, json body = json::object()) {
  return {.at = at, .type = type, .job = job, .tenant = "red", .body = std::move(body)};
}

std::string uid_of(JobNumber job) { return fmt::format("uid{}", job); }

// A job that is submitted at `at` and has finished 5 s later.
std::vector<Event> life_of(JobNumber job, double at) {
  return {about_job(at, "submitted", job,
                    {{"document", {{"run", {"train"}}, {"name", fmt::format("name{}", job % 3)}}},
                     {"key", fmt::format("key{}", job)},
                     {"uid", uid_of(job)}}),
          about_job(at + 1, "granted", job, {{"devices", 1}, {"reason", "started"}}),
          about_job(at + 2, "held", job, {{"devices", 1}}),
          about_job(at + 3, "learned", job,
                    {{"key", fmt::format("program{}", job % 2)}, {"profile", {{"at", at}}}}),
          about_job(at + 4, "finished", job, {{"result", {{"steps", job}}}}),
          about_job(at + 5, "held", job, {{"devices", 0}})};
}

void live(Store& store, JobNumber first, JobNumber last) {
  for (JobNumber job = first; job <= last; ++job) {
    std::vector<Event> events = life_of(job, 1000.0 * static_cast<double>(job));
    const Status status = store.append(events);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
}

void let_go_of_all(Store& store) {
  const std::set<JobNumber> rested = store.rested();
  for (const JobNumber job : rested) store.let_go(job);
}

std::string difference(const std::string& folder) {
  const auto checked = Store::check(folder);
  return checked.ok() ? checked->difference : checked.error().message;
}

TEST(Retention, Limits) {
  EXPECT_EQ(*parse_keep_limit("all"), KeepLimit{});
  EXPECT_EQ(*parse_keep_limit("30d"), (KeepLimit{.age_s = 30 * 86'400}));
  EXPECT_EQ(*parse_keep_limit("1000"), (KeepLimit{.count = 1000}));
  EXPECT_EQ(*parse_keep_limit("12h, 7"), (KeepLimit{.age_s = 12 * 3600, .count = 7}));
  for (const char* wrong : {"", "0", "-1", "x", "1d,2d", "1,2", "all,1", "1d,"}) {
    EXPECT_FALSE(parse_keep_limit(wrong).ok()) << wrong;
  }
}

TEST(Retention, AJobAtRestIsNotInMemoryAndStillThere) {
  const TemporaryFolder folder;
  auto store = opened_store(folder.path());
  live(*store, 1, 5);
  std::vector<Event> active{about_job(9000, "submitted", 6, {{"document", {{"run", {"train"}}}}})};
  ASSERT_TRUE(store->append(active).ok());
  EXPECT_EQ(store->rested().size(), 5U);
  EXPECT_EQ(store->state().jobs.size(), 6U) << "until its owner lets go";
  let_go_of_all(*store);
  EXPECT_EQ(store->state().jobs.size(), 1U);
  EXPECT_TRUE(store->state().keys.empty());
  EXPECT_EQ(store->state().ended_jobs.at(Phase::kFinished), 5);
  EXPECT_EQ(to_json(whole_state(*store)), to_json(*Store::replay(folder.path())));
  JobReader& jobs = store->jobs();
  EXPECT_EQ((*jobs.stored_job(3))->result["steps"], 3);
  EXPECT_FALSE(jobs.stored_job(7)->has_value());
  EXPECT_EQ((*jobs.stored_key("red", "key2"))->job, 2);
  EXPECT_FALSE(jobs.stored_key("blue", "key2")->has_value());
  EXPECT_EQ(*jobs.newest_named("name1", ""), 4);
  EXPECT_EQ(*jobs.newest_named("name1", "red"), 4);
  EXPECT_EQ(*jobs.newest_named("name1", "blue"), 0);
  // A late line about it is recorded, and what is not possible is still refused.
  std::vector<Event> late{about_job(9001, "view", 2, {{"events_offset", 77}})};
  ASSERT_TRUE(store->append(late).ok());
  EXPECT_EQ((*jobs.stored_job(2))->progress["events_offset"], 77);
  std::vector<Event> again{about_job(9002, "finished", 2, {{"result", json::object()}})};
  EXPECT_FALSE(store->append(again).ok());
  let_go_of_all(*store);
  store.reset();
  store = opened_store(folder.path());
  EXPECT_EQ(store->state().jobs.size(), 1U);
  EXPECT_EQ(difference(folder.path() + "/x"), folder.path() + "/x/rubato.db: no such file");
  store.reset();
  EXPECT_EQ(difference(folder.path()), "");
}

// scripts/bench-history measures a million; here only that nothing of them stays.
TEST(Retention, AHistoryOfThousandsLeavesNothingInMemory) {
  const TemporaryFolder folder;
  auto store = opened_store(folder.path());
  constexpr JobNumber kMany = 1000;
  constexpr JobNumber kTogether = 100;
  for (JobNumber first = 1; first <= kMany; first += kTogether) {
    std::vector<Event> events;
    for (JobNumber job = first; job < first + kTogether; ++job) {
      for (Event& event : life_of(job, 1e5 + static_cast<double>(job))) {
        events.push_back(std::move(event));
      }
    }
    ASSERT_TRUE(store->append(events).ok());
    let_go_of_all(*store);
    ASSERT_TRUE(store->state().jobs.empty());
    ASSERT_TRUE(store->state().keys.empty());
  }
  EXPECT_EQ(store->state().profiles.size(), 2U);
  EXPECT_EQ(store->jobs().list({.newest_first = true, .limit = 50})->size(), 50U);
  store.reset();
  store = opened_store(folder.path());
  EXPECT_TRUE(store->state().jobs.empty()) << "a start reads none of them";
  EXPECT_EQ(store->state().ended_jobs.at(Phase::kFinished), kMany);
  const Retention rule{.folders = {.count = 10}, .events = {.count = 100}};
  for (bool more = true; more;) {
    more = *store->prune(rule, 0, 200);
    const auto removals = store->removals(0, 1000);
    for (const Removal& removal : *removals) {
      ASSERT_TRUE(store->removal_done(removal.job).ok());
      more = true;
    }
  }
  EXPECT_EQ(store->read_events(0, 10'000, 0, "")->size(), 100U);
  EXPECT_EQ(store->jobs().list({.limit = 10'000})->size(), static_cast<std::size_t>(kMany));
  EXPECT_FALSE(*store->jobs().keeps_folder(kMany - 10));
  EXPECT_TRUE(*store->jobs().keeps_folder(kMany - 9));
  store.reset();
  EXPECT_EQ(difference(folder.path()), "");
}

TEST(Retention, ListsArePaged) {
  const TemporaryFolder folder;
  const auto store = opened_store(folder.path());
  live(*store, 1, 9);
  let_go_of_all(*store);
  const auto numbers = [&](const JobQuery& query) {
    std::vector<JobNumber> found;
    const auto jobs = store->jobs().list(query);
    EXPECT_TRUE(jobs.ok());
    for (const JobRecord& job : *jobs) found.push_back(job.number);
    return found;
  };
  using Numbers = std::vector<JobNumber>;
  EXPECT_EQ(numbers({.after = 2, .limit = 3}), (Numbers{3, 4, 5}));
  EXPECT_EQ(numbers({.newest_first = true, .limit = 3}), (Numbers{9, 8, 7}));
  EXPECT_EQ(numbers({.before = 7, .newest_first = true, .limit = 2}), (Numbers{6, 5}));
  EXPECT_EQ(numbers({.submitted_before = 4000, .newest_first = true, .limit = 9}),
            (Numbers{3, 2, 1}));
  EXPECT_EQ(numbers({.submitted_before = 4000.5, .limit = 9}), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(numbers({.submitted_before = 10, .limit = 9}), (Numbers{}));
  EXPECT_EQ(numbers({.tenant = "red", .before = 3, .limit = 9}), (Numbers{1, 2}));
  EXPECT_EQ(numbers({.tenant = "blue", .limit = 9}), (Numbers{}));
}

TEST(Retention, AKeyIsValidForAWeek) {
  const TemporaryFolder folder;
  const auto store = opened_store(folder.path());
  live(*store, 1, 1);
  let_go_of_all(*store);
  const auto submit = [&](JobNumber job, double at) {
    std::vector<Event> events{
        about_job(at, "submitted", job, {{"document", {{"run", {"train"}}}}, {"key", "key1"}})};
    return store->append(events).ok();
  };
  EXPECT_FALSE(submit(2, 1000 + kKeyLasts - 1));
  EXPECT_TRUE(submit(2, 1000 + kKeyLasts));
  EXPECT_EQ((*store->jobs().stored_key("red", "key1"))->job, 2);
  EXPECT_FALSE(submit(3, 1000 + kKeyLasts + 5));
  EXPECT_TRUE(Store::replay(folder.path()).ok());
  const auto pruned = store->prune({}, 1000 + 3 * kKeyLasts, 10);
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_FALSE(store->jobs().stored_key("red", "key1")->has_value());
}

TEST(Retention, ARemovedJobIsGoneAndItsNumberIsNotUsedAgain) {
  const TemporaryFolder folder;
  auto store = opened_store(folder.path());
  live(*store, 1, 3);
  let_go_of_all(*store);
  const auto remove = [&](JobNumber job, const char* phase) {
    std::vector<Event> events{
        about_job(9000, "removed", job, {{"phase", phase}, {"device_s", 3.0}})};
    return store->append(events);
  };
  EXPECT_FALSE(remove(3, "failed").ok()) << "it finished";
  ASSERT_TRUE(remove(3, "finished").ok());
  EXPECT_FALSE(remove(3, "finished").ok()) << "it is gone";
  EXPECT_FALSE(store->jobs().stored_job(3)->has_value());
  EXPECT_EQ(store->state().ended_jobs.at(Phase::kFinished), 2);
  EXPECT_EQ(store->state().next_job, 4);
  const auto removals = store->removals(0, 9);
  ASSERT_EQ(removals->size(), 1U);
  EXPECT_EQ(removals->front().uid, uid_of(3));
  ASSERT_TRUE(store->removal_done(3).ok());
  EXPECT_TRUE(store->removals(0, 9)->empty());
  std::vector<Event> running = life_of(4, 9100);
  running.resize(3);
  ASSERT_TRUE(store->append(running).ok());
  EXPECT_FALSE(remove(4, "queued").ok()) << "it runs";
  store.reset();
  EXPECT_EQ(difference(folder.path()), "");
  // Its history can be folded away, before and after.
  store = opened_store(folder.path());
  const Retention rule{.events = {.count = 1}};
  while (*store->prune(rule, 9999, 1)) {
  }
  ASSERT_TRUE(remove(2, "finished").ok());
  store.reset();
  EXPECT_EQ(difference(folder.path()), "");
}

// Random histories, folded and let go of in random portions, are the same as those that were not.
TEST(Retention, AFoldedLogGivesTheSameState) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const TemporaryFolder folder;
    RandomEvents events(seed);
    Random random(seed + 2'000'000);
    State reference;
    auto store = opened_store(folder.path());
    for (int i = 0; i < 200; ++i) {
      std::vector<Event> group(static_cast<std::size_t>(random.between(1, 3)));
      for (Event& event : group) event = events.next(reference);
      State next = reference;
      bool fits = true;
      for (Event event : group) {
        event.seq = next.last_seq + 1;
        fits = fits && next.apply(event).ok();
      }
      ASSERT_EQ(store->append(group).ok(), fits);
      if (fits) reference = std::move(next);
      if (random.chance(0.2)) let_go_of_all(*store);
      if (random.chance(0.2)) {
        const Retention rule{.folders = {.count = random.between(1, 20)},
                             .events = {.count = random.between(1, 60)}};
        const auto pruned = store->prune(rule, 0, random.between(1, 5));
        ASSERT_TRUE(pruned.ok()) << pruned.error().message;
      }
      if (random.chance(0.05)) {
        store.reset();
        ASSERT_EQ(difference(folder.path()), "");
        store = opened_store(folder.path());
      }
      if (random.chance(0.1)) {
        ASSERT_EQ(to_json(whole_state(*store)), to_json(reference));
      }
    }
    EXPECT_LT(store->read_events(0, 1000, 0, "")->size(), reference.last_seq);
    // The tables can be made anew from what is left.
    const json before = to_json(whole_state(*store));
    store.reset();
    {
      auto database = Database::open(folder / "rubato.db");
      ASSERT_TRUE(database->execute("UPDATE meta SET value = 0 WHERE name = 'view_seq'").ok());
    }
    store = opened_store(folder.path());
    EXPECT_EQ(to_json(whole_state(*store)), before);
  }
}

TEST(Retention, EventsThatAreNotFoldedCannotBeDeleted) {
  const TemporaryFolder folder;
  auto store = opened_store(folder.path());
  live(*store, 1, 4);
  const Retention rule{.events = {.age_s = 1000}};
  while (*store->prune(rule, 3500, 1)) {
  }
  const auto left = store->read_events(0, 100, 0, "");
  ASSERT_FALSE(left->empty());
  EXPECT_GE(left->front().at, 2500) << "older ones are folded";
  EXPECT_EQ(store->state().last_seq, 24);
  store.reset();
  auto database = Database::open(folder / "rubato.db");
  EXPECT_FALSE(database->execute("DELETE FROM events WHERE seq = 20").ok());
  EXPECT_FALSE(database->execute("DELETE FROM events").ok());
}

// --- Folders ------------------------------------------------------------------------------------

std::string make_job_folder(const std::string& jobs, JobNumber job, int files) {
  std::string folder = fmt::format("{}/{}", jobs, job);
  EXPECT_TRUE(claim_folder(folder, {.store = "s", .job = uid_of(job)}).ok());
  EXPECT_TRUE(make_directories(folder + "/logs/deep").ok());
  for (int i = 0; i < files; ++i) {
    EXPECT_TRUE(write_file(fmt::format("{}/logs/deep/{}", folder, i), "x").ok());
  }
  return folder;
}

TEST(FolderRemoval, RemovesInPortionsAndGoesOn) {
  const TemporaryFolder root;
  const std::string folder = make_job_folder(root.path(), 7, 20);
  int portions = 1;
  for (;; ++portions) {
    const auto gone = remove_some(root.path(), {.job = 7, .uid = uid_of(7)}, 3);
    ASSERT_TRUE(gone.ok()) << gone.error().message;
    EXPECT_FALSE(is_directory(folder)) << "nobody sees half a folder";
    if (*gone) break;
  }
  EXPECT_GT(portions, 5);
  EXPECT_TRUE(list_directory(root.path())->empty());
  // One that nobody knows any more is found by its name.
  make_job_folder(root.path(), 8, 20);
  make_job_folder(root.path(), 9, 1);
  EXPECT_FALSE(*remove_some(root.path(), {.job = 8, .uid = uid_of(8)}, 3));
  EXPECT_EQ(half_removed(root.path()), std::vector<std::int64_t>{8});
  EXPECT_TRUE(*remove_some(root.path(), {.job = 7, .uid = uid_of(7)}, 3)) << "once more";
  EXPECT_TRUE(*remove_some(root.path(), {.job = 8}, 1000));
  EXPECT_TRUE(is_directory(root / "9"));
}

TEST(FolderRemoval, FollowsNoLinkAndRemovesNothingOfOthers) {
  const TemporaryFolder root;
  const TemporaryFolder elsewhere;
  ASSERT_TRUE(write_file(elsewhere / "precious", "x").ok());
  const std::string folder = make_job_folder(root / "jobs", 1, 2);
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), (folder + "/link").c_str()), 0);
  ASSERT_EQ(::symlink((elsewhere / "precious").c_str(), (folder + "/logs/link").c_str()), 0);
  ASSERT_EQ(::link((elsewhere / "precious").c_str(), (folder + "/hard").c_str()), 0);
  const auto wrong = remove_some(root / "jobs", {.job = 1, .uid = "another"}, 1000);
  ASSERT_FALSE(wrong.ok());
  EXPECT_TRUE(is_directory(folder));
  EXPECT_TRUE(*remove_some(root / "jobs", {.job = 1, .uid = uid_of(1)}, 1000));
  EXPECT_FALSE(is_directory(folder));
  EXPECT_EQ(*read_file(elsewhere / "precious"), "x");
}

TEST(FolderRemoval, AnyDepthAndNoRights) {
  const TemporaryFolder root;
  const std::string folder = make_job_folder(root.path(), 1, 1);
  // A chain that is longer than any path may be.
  int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(::mkdirat(at, "deeper", 0700), 0);
    const int next = ::openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::close(at);
    at = next;
  }
  ::close(at);
  ASSERT_EQ(::chmod((folder + "/logs/deep").c_str(), 0), 0);
  ASSERT_EQ(::chmod((folder + "/logs").c_str(), 0500), 0);
  for (int portions = 0;; ++portions) {
    ASSERT_LT(portions, 1000);
    const auto gone = remove_some(root.path(), {.job = 1, .uid = uid_of(1)}, 100);
    ASSERT_TRUE(gone.ok()) << gone.error().message;
    if (*gone) break;
  }
  EXPECT_TRUE(list_directory(root.path())->empty());
}

// --- A process that dies ------------------------------------------------------------------------

constexpr JobNumber kJobs = 6;
constexpr int kKeptFolders = 2;
const Retention kRule{.folders = {.count = kKeptFolders}, .events = {.count = 10}};

// Does what the live loop does, one thing at a time, and says before each whether to go on.
void keep_house(const std::string& folder, const std::function<bool()>& goes_on) {
  auto store = opened_store(folder);
  for (bool more = true; more;) {
    if (!goes_on()) return;
    const auto pruned = store->prune(kRule, 0, 1);
    if (!pruned.ok()) return;
    const auto removals = store->removals(0, 100);
    more = *pruned || !removals->empty();
    for (const Removal& removal : *removals) {
      if (!goes_on()) return;
      const auto gone = remove_some(folder + "/jobs", removal, 2);
      ASSERT_TRUE(gone.ok()) << gone.error().message;
      if (!goes_on()) return;
      if (*gone) {
        ASSERT_TRUE(store->removal_done(removal.job).ok());
      }
    }
  }
}

void make_history(const std::string& folder) {
  auto store = opened_store(folder);
  live(*store, 1, kJobs);
  for (JobNumber job = 1; job <= kJobs; ++job) make_job_folder(folder + "/jobs", job, 3);
}

// Nothing is lost and nothing is there twice, whatever is done so far.
void check_history(const std::string& folder) {
  ASSERT_EQ(difference(folder), "");
  const auto store = opened_store(folder);
  EXPECT_EQ(store->jobs().list({.limit = 100})->size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(store->state().ended_jobs.at(Phase::kFinished), kJobs);
  std::set<JobNumber> waiting;
  const auto removals = store->removals(0, 100);
  for (const Removal& removal : *removals) waiting.insert(removal.job);
  for (JobNumber job = 1; job <= kJobs; ++job) {
    const std::string of_job = fmt::format("{}/jobs/{}", folder, job);
    const bool kept = *store->jobs().keeps_folder(job);
    const bool whole = list_directory(of_job + "/logs/deep").ok() &&
                       list_directory(of_job + "/logs/deep")->size() == 3;
    EXPECT_TRUE(!kept || whole) << job << " lost its folder";
    EXPECT_TRUE(kept || waiting.contains(job) || !is_directory(of_job)) << job << " is forgotten";
    EXPECT_EQ(job > kJobs - kKeptFolders && !kept, false) << job << " is too new";
  }
}

void finish_history(const std::string& folder) {
  keep_house(folder, [] { return true; });
  check_history(folder);
  EXPECT_EQ(list_directory(folder + "/jobs")->size(), static_cast<std::size_t>(kKeptFolders));
  EXPECT_LE(opened_store(folder)->read_events(0, 1000, 0, "")->size(), 10U);
}

TEST(Retention, KilledAtEachPointItGoesOn) {
  for (int point = 1;; ++point) {
    SCOPED_TRACE(fmt::format("killed before thing {}", point));
    const TemporaryFolder folder;
    make_history(folder.path());
    const pid_t child = ::fork();
    if (child == 0) {
      int left = point;
      keep_house(folder.path(), [&] {
        if (--left == 0) ::kill(::getpid(), SIGKILL);
        return true;
      });
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    check_history(folder.path());
    finish_history(folder.path());
    if (HasFailure()) return;
    if (WIFEXITED(status)) {
      EXPECT_GT(point, 20) << "so many points there are";
      break;
    }
  }
}

TEST(Retention, KilledAtAnyMomentItGoesOn) {
  int killed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const TemporaryFolder folder;
    make_history(folder.path());
    Random random(seed);
    const pid_t child = ::fork();
    if (child == 0) {
      keep_house(folder.path(), [] { return true; });
      ::_exit(0);
    }
    ::usleep(random.below(40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) ? 1 : 0;
    check_history(folder.path());
    finish_history(folder.path());
    if (HasFailure()) return;
  }
  RecordProperty("killed", killed);
}

}  // namespace
}  // namespace rubato::control
