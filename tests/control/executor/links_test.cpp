// Jobs that start after others, and arrays: a controller with real programs. Every program notes
// its run in a file, so that what ran, in which order and how often is known.
#include <algorithm>
#include <map>
#include <random>

#include "control/dependencies.h"
#include "control/executor/controller_fixture.h"

namespace rubato::control {
namespace {

using Json = nlohmann::json;

class LinkedJobs : public ControlledTest {
 protected:
  void SetUp() override {
    ControlledTest::SetUp();
    start();
  }

  // A shell script that first notes its name and index.
  Json script(const std::string& name, const std::string& text) const {
    return {{"name", name},
            {"mode", "opaque"},
            {"grace", 1},
            {"run",
             {"/bin/sh", "-c",
              fmt::format("echo {}$RUBATO_ARRAY_INDEX >>{}/runs; {}", name, root_, text)}}};
  }
  // Waits until somebody writes the file `go`.
  std::string until_go() const {
    return fmt::format("until test -e {}/go; do sleep 0.05; done", root_);
  }
  void go() { ASSERT_TRUE(write_file(root_ + "/go", "").ok()); }

  Result<JobRecord> try_submit(const Json& fields, const std::string& key = "",
                               const Caller& caller = kAdmin) {
    const Result<JobDocument> document = parse_job_json(fields);
    if (!document.ok()) return document.error();
    return controller_->submit(caller, *document, key);
  }
  JobNumber submit(Json fields, const Json& after = nullptr) {
    if (!after.is_null()) fields["after"] = after;
    const Result<JobRecord> record = try_submit(fields);
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record.ok() ? record->number : 0;
  }
  bool ends(JobNumber number, Phase phase) {
    return wait([&] { return ended(job(number).phase); }) && job(number).phase == phase;
  }
  std::vector<std::string> runs() const {
    const Result<std::string> text = read_file(root_ + "/runs");
    std::vector<std::string> lines;
    if (!text.ok()) return lines;
    for (const std::string_view line : split(*text, '\n')) {
      if (!line.empty()) lines.emplace_back(line);
    }
    return lines;
  }
};

TEST_F(LinkedJobs, AJobStartsAfterAnotherHasFinished) {
  const JobNumber first = submit(script("first", until_go()));
  const JobNumber second = submit(script("second", "true"), "first");
  const JobNumber third = submit(script("third", "true"), {"second", job_name_of(first)});
  // Others are not blocked by those who wait, although devices are free.
  const JobNumber other = submit(script("other", "true"));
  ASSERT_TRUE(ends(other, Phase::kFinished));
  EXPECT_EQ(job(second).phase, Phase::kQueued);
  ASSERT_TRUE(wait([&] { return job(second).reason == "waits-for-jobs"; }));
  EXPECT_EQ(text(second), "waits for j1 to finish");
  EXPECT_EQ(code(second), "waits-for-jobs");
  EXPECT_EQ(why(second)["blockers"][0]["name"], "first");
  EXPECT_EQ(text(third), "waits for j1 to finish and j2 to finish");
  start();  // a daemon that starts again knows it all
  EXPECT_EQ(text(third), "waits for j1 to finish and j2 to finish");
  go();
  ASSERT_TRUE(ends(third, Phase::kFinished)) << text(third);
  std::vector<std::string> all = runs();
  std::erase(all, "other");
  EXPECT_EQ(all, (std::vector<std::string>{"first", "second", "third"}));
  ASSERT_EQ(events(third, "unblocked").size(), 2u);
  EXPECT_EQ(events(second, "unblocked")[0], (Json{{"by", "j1"}, {"outcome", "finished"}}));
}

TEST_F(LinkedJobs, TheConditionDecidesAndWhatCanNeverStartIsCancelled) {
  const JobNumber bad = submit(script("bad", until_go() + "; exit 3"));
  const JobNumber good = submit(script("good", "true"), "bad");
  const JobNumber chained = submit(script("chained", "true"), "good");
  const JobNumber mended = submit(script("mended", "true"), {{"job", "bad"}, {"when", "failed"}});
  const JobNumber tidy = submit(script("tidy", "true"), {{"job", "bad"}, {"when", "ended"}});
  const JobNumber last = submit(script("last", "true"), {{"job", "good"}, {"when", "ended"}});
  go();
  ASSERT_TRUE(ends(bad, Phase::kFailed));
  ASSERT_TRUE(ends(good, Phase::kCancelled));
  ASSERT_TRUE(ends(chained, Phase::kCancelled));
  for (const JobNumber number : {mended, tidy, last}) {
    ASSERT_TRUE(ends(number, Phase::kFinished)) << number << text(number);
  }
  EXPECT_EQ(job(good).message, "j1 failed, and this job was to start after j1 had finished");
  EXPECT_EQ(job(chained).message,
            "j2 was cancelled, and this job was to start after j2 had finished");
  EXPECT_EQ(text(good), "has ended (cancelled): " + job(good).message);
  const std::vector<std::string> all = runs();
  for (const char* name : {"good", "chained"}) {
    EXPECT_EQ(std::count(all.begin(), all.end(), name), 0) << name;
  }
  // What has happened already counts in the same way.
  EXPECT_TRUE(ends(submit(script("late", "true"), "bad"), Phase::kCancelled));
  EXPECT_TRUE(ends(submit(script("later", "true"), {{"job", "bad"}, {"when", "failed"}}),
                   Phase::kFinished));
}

TEST_F(LinkedJobs, OnlyJobsThatTheSubmitterSeesCanBeNamed) {
  ASSERT_TRUE(controller_->set_tenant(kAdmin, "red", {}).ok());
  ASSERT_TRUE(controller_->set_tenant(kAdmin, "blue", {}).ok());
  const Caller red{.tenant = "red", .admin = false};
  const Caller blue{.tenant = "blue", .admin = false};
  ASSERT_TRUE(try_submit(script("first", until_go()), "", red).ok());
  Json second = script("second", "true");
  for (const char* name : {"first", "j1", "j99", "nothing"}) {
    second["after"] = name;
    const Result<JobRecord> refused = try_submit(second, "", blue);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().message, fmt::format("/after: there is no job {}", name));
  }
  second["after"] = "first";
  const Result<JobRecord> own = try_submit(second, "", red);
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(text(own->number), "waits for j1 to finish");
  second["after"] = {"first", "j1"};
  EXPECT_EQ(try_submit(second, "", red).error().message, "/after: j1 is named twice");
}

TEST_F(LinkedJobs, WhoWaitsCanBePausedCancelledAndPlanned) {
  const JobNumber first = submit(script("first", until_go()));
  const JobNumber second = submit(script("second", "true"), "first");
  const JobNumber third = submit(script("third", "true"), "second");
  const JobNumber fourth = submit(script("fourth", "true"), "first");
  ASSERT_TRUE(controller_->pause(kAdmin, second).ok());
  ASSERT_TRUE(controller_->cancel(kAdmin, fourth).ok());
  Json planned = script("planned", "true");
  planned["after"] = "first";
  const auto plan = controller_->plan(kAdmin, *parse_job_json(planned), [] { return false; });
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*plan)["placed"], false);
  EXPECT_EQ((*plan)["reason"], "waits-for-jobs");
  EXPECT_EQ((*plan)["text"], "waits for j1 to finish");
  EXPECT_GT((*plan)["start_in_s"].get<double>(), 1) << *plan;
  go();
  ASSERT_TRUE(ends(first, Phase::kFinished));
  EXPECT_EQ(job(second).phase, Phase::kPaused);
  EXPECT_TRUE(job(second).waits_for.empty()) << "released while it was paused";
  ASSERT_TRUE(controller_->resume(kAdmin, second).ok());
  ASSERT_TRUE(ends(third, Phase::kFinished));
}

TEST_F(LinkedJobs, AnArrayRunsEveryIndexOnceAndNotMoreAtATimeThanItsLimit) {
  Json sweep = script("sweep", until_go() + "; echo $RUBATO_ARRAY_SIZE");
  sweep["array"] = "3-8%2";
  const Result<JobRecord> first = try_submit(sweep, "once");
  ASSERT_TRUE(first.ok()) << first.error().message;
  const Result<JobRecord> again = try_submit(sweep, "once");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->number, first->number) << "the key is of the whole array";
  ASSERT_EQ(controller_->find_all(kAdmin, "sweep")->size(), 6u);
  EXPECT_EQ(*controller_->find_job(kAdmin, "sweep[5]"), 3);
  EXPECT_EQ(*controller_->find_job(kAdmin, "j1[5]"), 3);
  EXPECT_EQ(controller_->find_job(kAdmin, "sweep").error().message,
            "'sweep' is an array of 6 jobs, j1 to j6; name one of them: sweep[INDEX]");
  const JobNumber after = submit(script("after", "true"), "sweep");
  ASSERT_TRUE(wait([&] { return runs().size() == 2; }));
  ASSERT_TRUE(wait([&] { return job(6).reason == "array-limit"; }));
  EXPECT_EQ(text(6), "waits for its turn: of the 6 jobs of sweep, 2 may run at the same time");
  const auto running = [&] {
    int count = 0;
    for (JobNumber number = 1; number <= 6; ++number) count += job(number).granted > 0 ? 1 : 0;
    return count;
  };
  start();
  ASSERT_TRUE(wait([&] { return job(6).reason == "array-limit"; })) << "after a restart";
  EXPECT_EQ(running(), 2);
  // A cancelled or paused one lets the next one run.
  ASSERT_TRUE(controller_->cancel(kAdmin, 1).ok());
  ASSERT_TRUE(wait([&] { return runs().size() == 3; }));
  ASSERT_TRUE(controller_->pause(kAdmin, 2).ok());
  ASSERT_TRUE(wait([&] { return runs().size() == 4; }));
  EXPECT_EQ(running(), 2);
  EXPECT_EQ(job(after).phase, Phase::kCancelled) << "not all can finish any more";
  const JobNumber tidy = submit(script("tidy", "true"), {{"job", "sweep"}, {"when", "ended"}});
  EXPECT_EQ(job(tidy).waits_for.size(), 5u);
  go();
  ASSERT_TRUE(ends(6, Phase::kFinished));
  ASSERT_TRUE(controller_->resume(kAdmin, 2).ok());
  ASSERT_TRUE(ends(tidy, Phase::kFinished)) << text(tidy);
  std::vector<std::string> all = runs();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::string>{"sweep3", "sweep4", "sweep4", "sweep5", "sweep6",
                                           "sweep7", "sweep8", "tidy"}))
      << "index 4 was paused and started over";
}

TEST_F(LinkedJobs, AnArrayCountsAgainstTheQueueAndIsCancelledAsAWhole) {
  ASSERT_TRUE(controller_->set_tenant(kAdmin, "red", {.max_queued = 5}).ok());
  const Caller red{.tenant = "red", .admin = false};
  Json sweep = script("sweep", until_go());
  sweep["array"] = "0-5";
  sweep["labels"] = {{"team", "vision"}};
  const Result<JobRecord> refused = try_submit(sweep, "k", red);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "tenant red may have 5 jobs waiting at the same time, and 0 do; these are 6 more; wait "
            "for one to start, or cancel one");
  EXPECT_TRUE(controller_->jobs(red, false, 0, 100).empty()) << "all or none";
  sweep["array"] = "0-4";
  ASSERT_TRUE(try_submit(sweep, "k", red).ok());
  ASSERT_TRUE(try_submit(script("other", until_go())).ok());
  ASSERT_TRUE(wait([&] { return controller_->cluster(kAdmin)["held"] == 4; }));
  EXPECT_EQ(controller_->jobs(red, true, 0, 100, {.labels = {{"team", "vision"}}}).size(), 5u);
  EXPECT_TRUE(controller_->jobs(red, true, 0, 100, {.labels = {{"team", "audio"}}}).empty());
  const auto none = controller_->cancel_all({.tenant = "blue", .admin = false}, {.name = "*"});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty()) << "jobs of others";
  const auto cancelled = controller_->cancel_all(red, {.labels = {{"team", "vision"}}});
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->size(), 5u);
  EXPECT_TRUE(controller_->jobs(red, true, 0, 100).empty());
  EXPECT_EQ(job(6).phase == Phase::kCancelled, false) << "it is somebody else's";
}

// Small random graphs of real programs, with a daemon that starts again in between.
TEST_F(LinkedJobs, RandomGraphsRunEachProgramAsItsConditionsSay) {
  const auto seed =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  std::vector<bool> succeeds;
  std::vector<std::vector<std::pair<JobNumber, When>>> awaits;
  constexpr int kJobs = 14;
  for (int i = 0; i < kJobs; ++i) {
    succeeds.push_back(pick(3) > 0);
    awaits.emplace_back();
    Json after = Json::array();
    for (JobNumber other = 1; other <= i; ++other) {
      if (pick(i) >= 2) continue;
      const auto when = static_cast<When>(pick(3));
      awaits.back().emplace_back(other, when);
      after.push_back({{"job", job_name_of(other)}, {"when", std::string(to_string(when))}});
    }
    const std::string name = fmt::format("n{}", i + 1);
    ASSERT_EQ(submit(script(name, succeeds.back() ? "true" : "false"), after), i + 1);
    if (pick(4) == 0) start();
  }
  const auto all_over = [&] { return controller_->jobs(kAdmin, true, 0, 100).empty(); };
  for (int i = 0; i < 3 && !all_over(); ++i) start();
  ASSERT_TRUE(wait(all_over));
  std::map<JobNumber, Phase> expected;
  const std::vector<std::string> all = runs();
  for (JobNumber number = 1; number <= kJobs; ++number) {
    const auto i = static_cast<std::size_t>(number - 1);
    bool starts = true;
    for (const auto& [other, when] : awaits[i]) {
      starts = starts && verdict(when, expected.at(other)) == Verdict::kMet;
    }
    expected[number] = !starts       ? Phase::kCancelled
                       : succeeds[i] ? Phase::kFinished
                                     : Phase::kFailed;
    EXPECT_EQ(to_string(job(number).phase), to_string(expected[number])) << "j" << number;
    EXPECT_EQ(std::count(all.begin(), all.end(), fmt::format("n{}", number)), starts ? 1 : 0)
        << "j" << number;
  }
}

}  // namespace
}  // namespace rubato::control
