// Real adaptive jobs: the batch follows the workers, each sample is used once per epoch, and the
// result is a function of the schedule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/json_text.h"
#include "elastic/job/checkpoint.h"
#include "elastic/job/ledger.h"
#include "elastic/node_runner.h"
#include "elastic/runtime_fixture.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

class Adaptive : public RuntimeTest {
 protected:
  // 3 samples per worker and step, 100 samples per epoch; `steps` counts steps of the first batch.
  std::vector<std::string> adaptive(int workers, int steps, std::vector<std::string> more = {},
                                    int most_workers = 6) const {
    std::vector<std::string> all{"--mode",        "adaptive",
                                 "--workers",     std::to_string(workers),
                                 "--max-workers", std::to_string(most_workers),
                                 "--batch-range", "2..40",
                                 "--ledger",      root_ + "/ledger"};
    all.insert(all.end(), more.begin(), more.end());
    return with_program(std::move(all), steps);
  }
  // Exit code of `rubato replay`: 0 if the bits are the same.
  static int replay(const RunningJob& job) {
    return std::system(fmt::format("'{}' replay '{}' >'{}/replay.log' 2>&1",
                                   test_paths::program("rubato"), job.folder().path(),
                                   job.folder().path())
                           .c_str());
  }
  void expect_exact(RunningJob& job, std::int64_t samples) const {
    EXPECT_EQ(replay(job), 0) << *read_file(job.folder().path() + "/replay.log");
    const Result<LedgerSummary> ledger = check_ledger(root_ + "/ledger", 100);
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
    EXPECT_EQ(ledger->steps, job.result().value("steps", 0));
    EXPECT_EQ(ledger->epochs_complete, samples / 100);
  }
};

// The nodes share no memory; each computes the state of the data, and hears of the rest.
TEST_F(Adaptive, NodesComeGoAndAreLost) {
  auto job = start("job", adaptive(2, 1500));
  const auto workers_on = [&](const char* node) { return members_on(job->view(), node).size(); };
  ASSERT_TRUE(job->until([&] { return job->step() > 2; })) << job->logs();
  RunningNode second(test_paths::program("rubato"), job->folder().path(), "second", 2);
  ASSERT_TRUE(job->until([&] { return workers_on("second") == 2; })) << second.log();
  EXPECT_GT(job->view().batch, 6);
  RunningNode third(test_paths::program("rubato"), job->folder().path(), "third", 1);
  ASSERT_TRUE(job->until([&] { return workers_on("third") == 1; })) << third.log();
  const std::int64_t joined = job->step();
  ASSERT_TRUE(job->until([&] { return job->step() > joined + 5; })) << job->logs();
  second.kill_all();
  ASSERT_TRUE(job->until([&] { return workers_on("second") == 0; })) << job->logs();
  third.leave();
  ASSERT_EQ(finish(*job), 0) << job->logs() << second.log() << third.log();
  EXPECT_EQ(replay(*job), 0) << *read_file(job->folder().path() + "/replay.log");
  const Result<LedgerSummary> ledger = check_ledger(root_ + "/ledger", 100);
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;  // each sample once
}

TEST_F(Adaptive, TheSameScheduleGivesTheSameBits) {
  std::string first;
  for (const char* name : {"a", "b"}) {
    auto job = start(name, adaptive(3, 60));
    ASSERT_EQ(finish(*job), 0) << job->logs();
    EXPECT_EQ(job->result().value("steps", 0), 60);
    EXPECT_EQ(job->result().value("batch", 0), 9);
    expect_exact(*job, 500);
    if (first.empty()) first = job->hash();
    EXPECT_EQ(job->hash(), first);
    std::filesystem::remove(root_ + "/ledger");
  }
}

TEST_F(Adaptive, TheBatchFollowsTheWorkers) {
  auto job = start("job", adaptive(1, 3000));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 4; }));
  ASSERT_TRUE(job->until([&] { return job->view().members.size() == 4; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 2; }));
  ASSERT_TRUE(job->until([&] { return job->view().members.size() == 2; })) << job->logs();
  EXPECT_EQ(job->view().logical_workers(), 2);
  ASSERT_EQ(finish(*job), 0) << job->logs();
  // The three join together if they become ready at about the same time.
  std::set<int> sizes;
  for (const nlohmann::json& event : events_of(*job, "view")) {
    const int workers = event.value("workers", 0);
    sizes.insert(workers);
    EXPECT_EQ(event.value("batch", 0), 3 * workers) << event;
    EXPECT_EQ(event.value("logical_workers", 0), workers) << event;
    EXPECT_EQ(event.value("steps_redone", -1), 0) << event;
  }
  EXPECT_TRUE(sizes.contains(1) && sizes.contains(4) && sizes.contains(2)) << job->logs();
  expect_exact(*job, 8824);  // 88 epochs of 34 steps and 8 steps of 3
}

TEST_F(Adaptive, ABatchIsChangedWithoutTheWorkers) {
  auto job = start("job", adaptive(2, 3000));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.batch = 25; }));
  ASSERT_TRUE(job->until([&] { return job->view().batch == 25; })) << job->logs();
  ASSERT_TRUE(job->until([&] { return job->step() > job->view().first_step + 3; }));
  ASSERT_TRUE(job->change([](Target& t) { t.batch = 0; }));
  ASSERT_TRUE(job->until([&] { return job->view().batch == 6; })) << job->logs();
  ASSERT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(view_event(*job, "batch").value("batch", 0), 25);
  EXPECT_EQ(view_event(*job, "batch").value("workers", 0), 2);
  EXPECT_EQ(view_event(*job, "batch").value("steps_redone", -1), 0);
  expect_exact(*job, 17648);  // 176 epochs of 17 steps and 8 steps of 6
}

TEST_F(Adaptive, AKilledWorkerCostsOneStepAndNoSample) {
  auto job = start("job", adaptive(3, 1200));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  const View view = job->view();
  kill(static_cast<pid_t>(view.find(view.leader)->address.pid), SIGKILL);
  ASSERT_EQ(finish(*job), 0) << job->logs();
  const nlohmann::json event = view_event(*job, "failure");
  ASSERT_FALSE(event.is_null()) << job->logs();
  EXPECT_EQ(event.value("batch", 0), 6);
  EXPECT_GE(event.value("steps_redone", -1), 0) << event;
  EXPECT_LE(event.value("steps_redone", -1), 1) << event;
  expect_exact(*job, 10000);
}

TEST_F(Adaptive, ARestartedJobGoesOnInTheDataWhereItWas) {
  auto job = start("job", adaptive(3, 1200, {"--checkpoint-steps", "25"}));
  ASSERT_TRUE(job->until([&] { return job->step() > 60; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.batch = 14; }));
  ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 100; })) << job->logs();
  for (const Member& member : job->view().members) {
    kill(static_cast<pid_t>(member.address.pid), SIGKILL);
  }
  ASSERT_EQ(finish(*job), 0) << job->logs();
  const nlohmann::json event = view_event(*job, "restart");
  ASSERT_FALSE(event.is_null()) << job->logs();
  EXPECT_GE(event.value("step", 0), 100);
  EXPECT_EQ(event.value("batch", 0), 14);
  expect_exact(*job, 10000);
}

TEST_F(Adaptive, AStoppedJobContinuesWithOtherLimits) {
  {
    auto job = start("job", adaptive(5, 704));
    ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
    ASSERT_TRUE(job->change([](Target& t) { t.stop = true; }));
    EXPECT_EQ(job->wait(), 0) << job->logs();
  }
  auto other = start("job", toy(5, 5, 704));  // refused as a consistent job
  EXPECT_EQ(other->wait(), 1);
  EXPECT_NE(other->logs().find("holds an adaptive job"), std::string::npos) << other->logs();
  auto again = start("job", adaptive(2, 704, {}, 2));
  EXPECT_EQ(finish(*again), 0) << again->logs();
  EXPECT_EQ(view_event(*again, "restart").value("batch", 0), 6);
  expect_exact(*again, 10060);  // 15 per step: the first batch keeps its meaning
}

// Prefetched samples are those of the next step, and prefetching changes nothing.
TEST_F(Adaptive, PrefetchTellsTheNextSamples) {
  const auto run = [&](const std::string& name, const std::string& prefetch,
                       const std::vector<std::string>& arguments) {
    if (!prefetch.empty()) setenv("TOY_PREFETCH", prefetch.c_str(), 1);
    auto job = start(name, arguments);
    EXPECT_EQ(job->wait(), 0) << job->logs();
    unsetenv("TOY_PREFETCH");
    return job;
  };
  const std::vector<std::string> consistent = toy(2, 2, 40, {"--ledger", root_ + "/ledger"});
  for (const auto& arguments : {adaptive(2, 40), consistent}) {
    const std::string kind = arguments == consistent ? "consistent" : "adaptive";
    const std::string told = root_ + "/told-" + kind;
    const std::string expected = run(kind + "-without", "", arguments)->hash();
    EXPECT_EQ(run(kind + "-with", told, arguments)->hash(), expected);
    const auto failing = run(kind + "-failing", "throw", arguments);
    EXPECT_EQ(failing->hash(), expected);
    EXPECT_NE(failing->logs().find("prefetch failed: nothing can be read"), std::string::npos);
    std::set<nlohmann::json> used;
    std::ifstream ledger(root_ + "/ledger");
    for (std::string line; std::getline(ledger, line);) {
      const nlohmann::json step = parse_json_or_throw(line);
      if (step["step"] > 0) used.insert(step["samples"].begin(), step["samples"].end());
    }
    int lines = 0;
    std::ifstream file(told);
    for (std::string line; std::getline(file, line); ++lines) {
      EXPECT_TRUE(used.contains(parse_json_or_throw(line))) << kind << ": " << line;
    }
    EXPECT_GT(lines, 0);
  }
}

TEST_F(Adaptive, AFirstBatchOutsideOfTheRangeIsRefused) {
  auto job = start("job", {"--mode", "adaptive", "--workers", "2", "--batch-range", "64..128", "--",
                           test_paths::program("toy_train")});
  EXPECT_EQ(job->wait(), 1);
  EXPECT_NE(job->logs().find("6 samples (3 on each of 2 workers), outside the batch range 64..128"),
            std::string::npos)
      << job->logs();
}

// A checkpoint whose data state makes no sense although its checksums are correct.
TEST_F(Adaptive, AStrangeDataStateIsRefused) {
  auto job = start("job", adaptive(2, 100000, {"--checkpoint-steps", "10"}));
  ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 10; })) << job->logs();
  kill(job->pid(), SIGKILL);
  job->wait();
  const CheckpointFolder folder =
      std::move(*CheckpointFolder::open(job->folder().checkpoint_folder(), 100));
  const std::int64_t newest = folder.steps()->back();
  std::string description;
  {
    // The description is in the file; take it from there.
    const std::string text =
        *read_file(fmt::format("{}/{}", job->folder().checkpoint_folder(),
                               list_directory(job->folder().checkpoint_folder())->back()));
    const std::size_t begin = text.find("adaptive gradient_floats");
    ASSERT_NE(begin, std::string::npos);
    const std::size_t last = text.find("total_samples=", begin) + 14;
    description = text.substr(begin, text.find_first_not_of("0123456789", last) - begin);
  }
  Result<CheckpointFolder::Found> found = folder.load_newest(description);
  ASSERT_TRUE(found.ok() && found->newest) << description;
  CheckpointParts parts{.step = newest + 1, .description = description};
  std::vector<std::byte> garbage(80, std::byte{0x5a});
  for (std::size_t i = 0; i < found->newest->parts.size(); ++i) {
    parts.parts.emplace_back(i == 1 ? garbage : found->newest->parts[i]);
  }
  ASSERT_TRUE(folder.write(parts).ok());
  auto again = start("job", adaptive(2, 100000, {"--checkpoint-steps", "10"}));
  EXPECT_EQ(again->wait(), 1);
  EXPECT_NE(again->logs().find("data state"), std::string::npos) << again->logs();
}

}  // namespace
}  // namespace rubato::elastic
