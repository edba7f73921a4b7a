// What the controller asks of the executor, with real processes: start, grow, shrink, stop,
// resume, exchange devices, cancel.
#include "control/executor/executor_fixture.h"

namespace rubato::control {
namespace {

using Executor = ExecutorTest;

TEST_F(Executor, RunsAJobAndSaysHowFarItIs) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 2);
  nlohmann::json body = nlohmann::json::object();
  ASSERT_TRUE(until([&] {
    const std::vector<Notice> progress = told(1, Notice::Kind::kProgress);
    if (!progress.empty()) body = progress.back().body;
    return body.value("workers", 0) == 2 && body.contains("step_s") && body.contains("loss") &&
           body.value("epochs", 0) > 1;
  }));
  EXPECT_EQ(body.value("total_steps", 0), 1000);
  EXPECT_EQ(body.value("logical_workers", 0), 4);
  EXPECT_EQ(body.value("batch", 0), 12);
  EXPECT_GT(body.value("step_s", 0.0), 0.039);  // two mini-batches of 20 ms, one after the other
  ASSERT_TRUE(finish(1));
  ASSERT_TRUE(until([&] { return executor_->held() == 0; }));
  EXPECT_EQ(hash(1), expected);
  EXPECT_EQ(expected.size(), 64u);
  const std::vector<Notice> held = told(1, Notice::Kind::kHeld);
  ASSERT_GE(held.size(), 2u);
  EXPECT_EQ(held.front().devices, 2);
  EXPECT_EQ(held.back().devices, 0);
  bool seen_view = false;
  for (const Notice& notice : told(1, Notice::Kind::kEvent)) {
    seen_view = seen_view || notice.body.value("type", "") == "view";
  }
  EXPECT_TRUE(seen_view);
}

TEST_F(Executor, GrowsAndShrinksWithoutRepeatingAStep) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 1);
  ASSERT_TRUE(until([&] { return step(1) > 10; }));
  want(1, 4);
  ASSERT_TRUE(until([&] { return workers(1) == 4; }));
  want(1, 2);
  ASSERT_TRUE(until([&] { return workers(1) == 2 && executor_->held() == 2; }));
  EXPECT_EQ(workers_of(1).size(), 2u);
  want(1, 3);
  ASSERT_TRUE(until([&] { return workers(1) == 3; }));
  ASSERT_TRUE(finish(1));
  ASSERT_TRUE(until([&] { return executor_->held() == 0; }));
  EXPECT_EQ(hash(1), expected);
  for (const Notice& notice : told(1, Notice::Kind::kEvent)) {
    if (notice.body.value("type", "") != "view") continue;
    if (notice.body.value("cause", "") == "failure") continue;  // not planned
    EXPECT_EQ(notice.body.value("steps_redone", -1), 0) << notice.body;
  }
  EXPECT_FALSE(was_told(1, Notice::Kind::kRestarted));
}

TEST_F(Executor, StopsAndContinuesWithTheSameBits) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 3);
  ASSERT_TRUE(until([&] { return step(1) > 30; }));
  want(1, 0);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  EXPECT_EQ(executor_->held(), 0);
  EXPECT_TRUE(workers_of(1).empty());
  const std::int64_t before = step(1);
  notices_.clear();
  want(1, 2);
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
  for (const Notice& notice : told(1, Notice::Kind::kProgress)) {
    EXPECT_GE(notice.body.value("step", std::int64_t{0}), before);
  }
  EXPECT_FALSE(was_told(1, Notice::Kind::kRestarted));
}

TEST_F(Executor, AJobThatIsStoppedBeforeItsFirstStepStopsWithoutSignals) {
  options_.term_after_s = 10'000;
  start_executor();
  const JobDocument document = toy(100, 4, 1);
  const std::string expected = undisturbed(document);
  for (int i = 0; i < 3; ++i) {
    notices_.clear();
    want(1, document, 4);
    ASSERT_TRUE(until([&] { return devices_on(executor_->held(1)) == 4; }));
    want(1, 0);
    ASSERT_TRUE(until([&] {
      return was_told(1, Notice::Kind::kStopped) || was_told(1, Notice::Kind::kFinished);
    }));
  }
  if (!finished(1)) {
    want(1, 1);
    ASSERT_TRUE(until([&] { return finished(1); }));
  }
  EXPECT_EQ(hash(1), expected);
}

TEST_F(Executor, TwoJobsExchangeDevices) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 3);
  want(2, document, 1);
  ASSERT_TRUE(until([&] { return workers(1) == 3 && workers(2) == 1; }));
  want(2, 3);  // asks first and waits for the other job
  want(1, 1);
  ASSERT_TRUE(until([&] { return workers(1) == 1 && workers(2) == 3; }));
  want(1, 3);
  want(2, 1);
  ASSERT_TRUE(until([&] { return workers(1) == 3 && workers(2) == 1; }));
  ASSERT_TRUE(finish(1) && finish(2));
  EXPECT_EQ(hash(1), expected);
  EXPECT_EQ(hash(2), expected);
}

TEST_F(Executor, ACancelledJobIsGoneWithoutAResult) {
  start_executor();
  want(1, toy(100000), 2);
  ASSERT_TRUE(until([&] { return step(1) > 10; }));
  executor_->cancel(1);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped) && executor_->held() == 0; }));
  EXPECT_TRUE(workers_of(1).empty());
  EXPECT_FALSE(finished(1));
  EXPECT_TRUE(is_directory(executor_->job_folder(1)));
}

TEST_F(Executor, RefusesWhatTheMachineDoesNotHave) {
  start_executor();
  EXPECT_FALSE(executor_->want(1, toy(10, 8), here(5), 0).ok());
  EXPECT_FALSE(executor_->want(1, toy(10, 2), here(3), 0).ok());  // two logical workers
  EXPECT_FALSE(executor_->want(1, JobDocument{}, here(1), 0).ok());
  EXPECT_TRUE(executor_->want(1, toy(10), here(0), 0).ok());
  EXPECT_TRUE(executor_->poll().empty());
}

// The machine is the only node.
TEST_F(Executor, RefusesDevicesOfOtherNodes) {
  options_.machine.name = "here";
  start_executor();
  ASSERT_EQ(executor_->nodes().size(), 1U);
  EXPECT_EQ(executor_->nodes()[0], node_of(options_.machine));
  const Status refused = executor_->want(1, toy(10), {{"there", "toy", 1}}, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "job 1: devices of node there requested, but this is here");
  EXPECT_EQ(executor_->named_today(unnamed_placement(2)), here(2));
  options_.machine.name = "a name with blanks";
  EXPECT_FALSE(LocalExecutor::make(options_).ok());
}

TEST_F(Executor, AnAdoptedJobGoesOnUndisturbed) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return step(1) > 10; }));
  const pid_t supervisor = supervisor_pid(1);
  EXPECT_GT(records_[1].progress.value("events_offset", 0), 0);
  restart_executor();
  EXPECT_EQ(devices_on(executor_->held(1)), 2);
  const std::int64_t before = step(1);
  ASSERT_TRUE(until([&] { return step(1) > before; }));
  EXPECT_EQ(told(1, Notice::Kind::kProgress).back().body.value("total_steps", 0), 1000);
  want(1, 4);
  ASSERT_TRUE(until([&] { return workers(1) == 4; }));
  EXPECT_EQ(supervisor_pid(1), supervisor);
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
  std::int64_t offset = 0;
  for (const Notice& notice : told(1, Notice::Kind::kEvent)) {  // no line comes twice
    EXPECT_GT(notice.body.value("events_offset", std::int64_t{0}), offset) << notice.body;
    offset = notice.body.value("events_offset", std::int64_t{0});
  }
  EXPECT_FALSE(was_told(1, Notice::Kind::kRestarted));
}

}  // namespace
}  // namespace rubato::control
