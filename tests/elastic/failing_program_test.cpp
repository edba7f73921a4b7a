// Training programs that throw, exit or crash in the middle of a step.
#include <gtest/gtest.h>

#include "elastic/runtime_fixture.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

using FailingProgram = RuntimeTest;

TEST_F(FailingProgram, ThatThrowsOnOneWorkerDoesNotTakeTheOthersDown) {
  const std::string expected = undisturbed(1, 4, 1000);
  set_fault("");
  auto job = start("job", faulty_toy(3, 4, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  set_fault("throw 1 0");
  ASSERT_TRUE(job->until([&] {
    const View view = job->view();
    return view.find(1) == nullptr && view.members.size() == 3;
  })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  const auto failed = events_of(*job, "failed");
  ASSERT_EQ(failed.size(), 1u) << job->logs();
  EXPECT_EQ(failed[0].value("worker", -1), 1);
  EXPECT_NE(failed[0].value("reason", "").find("no loss for this mini-batch"), std::string::npos);
}

TEST_F(FailingProgram, ThatThrowsAtOneStepEndsTheJobAfterAFewAttempts) {
  set_fault("throw -1 40");
  auto job = start("job", faulty_toy(2, 4, 300, {"--checkpoint-steps", "10"}));
  EXPECT_EQ(job->wait(), 1) << job->logs();
  EXPECT_NE(job->logs().find("the training program failed: no loss for this mini-batch"),
            std::string::npos)
      << job->logs();
  EXPECT_NE(job->logs().find("step 40, logical worker"), std::string::npos) << job->logs();
  const Result<std::string> launcher = read_file(job->folder().path() + "/launcher.log");
  ASSERT_TRUE(launcher.ok());
  EXPECT_NE(launcher->find("rubato: the job failed: "), std::string::npos) << *launcher;
  EXPECT_NE(launcher->find("without progress; the last one: rubato: step 40"), std::string::npos)
      << *launcher;
  EXPECT_LE(events_of(*job, "failed").size(), 8u);
}

// It said "5 failures in a row" after three: every restart counted as another one.
TEST_F(FailingProgram, IsSaidToHaveFailedAsOftenAsItsEventsShow) {
  set_fault("throw -1 10");
  auto job = start("job", faulty_toy(1, 4, 300));
  EXPECT_EQ(job->wait(), 1) << job->logs();
  const std::size_t failed = events_of(*job, "failed").size();
  EXPECT_GE(failed, 5u);
  EXPECT_NE(job->logs().find(fmt::format("{} failures in a row without progress", failed)),
            std::string::npos)
      << job->logs();
}

TEST_F(FailingProgram, ThatDoesNotExistFailsTheJobAtOnceByItsPath) {
  auto job = start("job", {"--workers", "2", "--", "./no-such-program"});
  EXPECT_EQ(job->wait(), 1);
  EXPECT_NE(job->logs().find("no-such-program: No such file or directory"), std::string::npos)
      << job->logs();
  EXPECT_TRUE(events_of(*job, "failed").empty()) << job->logs();
}

TEST_F(FailingProgram, ThatEndsDuringAStepEndsTheJobAfterAFewAttempts) {
  set_fault("exit -1 20");
  auto job = start("job", faulty_toy(2, 4, 300));
  EXPECT_EQ(job->wait(), 1) << job->logs();
  EXPECT_NE(job->logs().find("ended with code 9"), std::string::npos) << job->logs();
}

// All but the first worker fail immediately and repeatedly while the first one trains.
TEST_F(FailingProgram, OfNewcomersLeavesAHealthyJobAlone) {
  const std::string expected = undisturbed(1, 4, 1000);
  const std::string script =
      "[ $RUBATO_WORKER = 0 ] || { echo no disk; exit 5; }; exec \"$0\" --steps 1000 "
      "--compute-us 20000";
  auto job = start("job", {"--workers", "1", "--logical", "4", "--", "/bin/sh", "-c", script,
                           test_paths::program("toy_train")});
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 2; }));
  ASSERT_TRUE(job->until([&] { return events_of(*job, "failed").size() >= 3; })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_LE(events_of(*job, "failed").size(), 12u);  // with pauses between them
  EXPECT_EQ(events_of(*job, "failed")[0].value("reason", ""),
            "no disk (worker 1 ended with code 5)");
}

}  // namespace
}  // namespace rubato::elastic
