// Real jobs of real processes, each disturbed in one way: the bits of the result never change.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "elastic/job/checkpoint.h"
#include "elastic/job/ledger.h"
#include "elastic/runtime_fixture.h"
#include "test_paths.h"

namespace rubato::elastic {
namespace {

using Runtime = RuntimeTest;

TEST_F(Runtime, AnyNumberOfWorkersGivesTheSameBits) {
  const std::string one = undisturbed(1, 7, 30);
  ASSERT_EQ(one.size(), 64u);
  for (const int workers : {2, 3, 5, 7}) EXPECT_EQ(undisturbed(workers, 7, 30), one) << workers;
}

// Neither the place of the state, nor late results, nor a change of workers changes a bit.
TEST_F(Runtime, AProgramOnADeviceGivesTheSameBits) {
  const std::string expected = undisturbed(1, 4, 1000);
  std::vector<std::string> arguments = toy(1, 4, 1000, {"--checkpoint-steps", "7"});
  arguments.insert(arguments.end(), {"--device", "1"});
  auto job = start("job", arguments);
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 2; }));
  ASSERT_TRUE(job->until([&] { return job->view().members.size() == 2; })) << job->logs();
  const std::int64_t joined = job->step();
  ASSERT_TRUE(job->until([&] { return job->step() > joined + 10; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 1; }));
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

TEST_F(Runtime, GrowsAndShrinksWithoutRepeatingAStep) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start("job", toy(1, 4, 1000, {"--ledger", root_ + "/ledger"}));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 4; }));
  ASSERT_TRUE(job->until([&] { return job->view().members.size() == 4; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 2; }));
  ASSERT_TRUE(job->until([&] { return job->view().members.size() == 2; })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_EQ(view_event(*job, "join").value("steps_redone", -1), 0);
  EXPECT_EQ(view_event(*job, "leave").value("steps_redone", -1), 0);
  const Result<LedgerSummary> ledger = check_ledger(root_ + "/ledger", 100);
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;
  EXPECT_EQ(ledger->steps, 1000);
}

TEST_F(Runtime, AWorkerIsReplaced) {
  const std::string expected = undisturbed(2, 4, 1000);
  auto job = start("job", toy(2, 4, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  const int replaced = job->view().leader;
  ASSERT_TRUE(job->change([&](Target& t) { t.migrate = {replaced}; }));
  ASSERT_TRUE(job->until([&] { return job->view().find(replaced) == nullptr; })) << job->logs();
  EXPECT_EQ(job->view().members.size(), 2u);
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_FALSE(view_event(*job, "migrate").is_null());
}

TEST_F(Runtime, AKilledFollowerCostsOneStep) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start("job", toy(3, 4, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  const View view = job->view();
  ASSERT_EQ(view.members.size(), 3u);
  for (const Member& member : view.members) {
    if (member.address.id == view.leader) continue;
    kill(static_cast<pid_t>(member.address.pid), SIGKILL);
    break;
  }
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  const nlohmann::json event = view_event(*job, "failure");
  ASSERT_FALSE(event.is_null()) << job->logs();
  EXPECT_GE(event.value("steps_redone", -1), 0) << event;
  EXPECT_LE(event.value("steps_redone", -1), 1) << event;
}

TEST_F(Runtime, AKilledLeaderIsSucceeded) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start("job", toy(3, 4, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
  const View view = job->view();
  kill(static_cast<pid_t>(view.find(view.leader)->address.pid), SIGKILL);
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  EXPECT_FALSE(view_event(*job, "failure").is_null());
}

TEST_F(Runtime, AStoppedWorkerIsExcludedAndNeverComesBack) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start("job", toy(2, 4, 1000, {"--failure-timeout", "2"}));
  View view;
  ASSERT_TRUE(job->until([&] {
    view = job->view();  // a worker that a busy machine made silent has a successor
    return view.members.size() == 2 && job->step() > 10;
  })) << job->logs();
  const Member& other = view.members[view.members[0].address.id == view.leader ? 1 : 0];
  const auto pid = static_cast<pid_t>(other.address.pid);
  kill(pid, SIGSTOP);
  ASSERT_TRUE(job->until([&] { return job->view().find(other.address.id) == nullptr; }))
      << job->logs();
  kill(pid, SIGCONT);
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
}

TEST_F(Runtime, AJobWhoseWorkersAreAllKilledGoesOnFromItsCheckpoint) {
  const std::string expected = undisturbed(1, 4, 1000);
  auto job = start("job", toy(2, 4, 1000, {"--checkpoint-steps", "25", "--ledger", root_ + "/l"}));
  ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 25; })) << job->logs();
  for (const Member& member : job->view().members) {
    kill(static_cast<pid_t>(member.address.pid), SIGKILL);
  }
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), expected) << job->logs();
  const nlohmann::json event = view_event(*job, "restart");
  ASSERT_FALSE(event.is_null()) << job->logs();
  EXPECT_GE(event.value("step", 0), 25);
  const Result<LedgerSummary> ledger = check_ledger(root_ + "/l", 100);
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;
}

// It began again at step 0, and removed the checkpoints that it passed.
TEST_F(Runtime, AJobIsContinuedWithMoreStepsAndRefusedWithFewerThanItHas) {
  const std::vector<std::string> often{"--checkpoint-steps", "10"};
  const std::string expected = undisturbed(1, 2, 1500);
  auto job = start("job", toy(1, 2, 1000, often));
  ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 20; })) << job->logs();
  job.reset();  // killed
  auto fewer = start("job", toy(1, 2, 10, often));
  EXPECT_NE(fewer->wait(), 0) << fewer->logs();
  EXPECT_NE(fewer->logs().find("steps are trained already, but only 10 are asked for"),
            std::string::npos)
      << fewer->logs();
  EXPECT_GE(fewer->checkpoint(), 20);
  auto more = start("job", toy(1, 2, 1500, often));
  EXPECT_EQ(finish(*more), 0) << more->logs();
  EXPECT_EQ(more->hash(), expected) << more->logs();
  std::int64_t first = 0;
  for (const nlohmann::json& event : events_of(*more, "started")) {
    if (event.value("total_steps", 0) == 1500) first = event.value("step", -1);
  }
  EXPECT_GE(first, 20) << more->logs();
}

TEST_F(Runtime, CheckpointsOfAnotherTrainingAreNotReplaced) {
  auto job = start("job", toy(1, 2, 1000, {"--checkpoint-steps", "10"}));
  ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 20; })) << job->logs();
  job.reset();  // killed
  std::vector<std::string> changed = toy(1, 2, 1000, {"--checkpoint-steps", "10"});
  changed.insert(changed.end(), {"--batch", "4"});
  auto other = start("job", changed);
  EXPECT_NE(other->wait(), 0) << other->logs();
  EXPECT_NE(other->logs().find("it belongs to another job or shape"), std::string::npos)
      << other->logs();
  EXPECT_GE(other->checkpoint(), 20);
}

TEST_F(Runtime, ACheckpointThatFailsIsToldWhileTheJobRuns) {
  std::filesystem::create_directories(root_ + "/job/checkpoints/checkpoint-000000000010.rubato/x");
  auto job = start("job", toy(1, 2, 1000, {"--checkpoint-steps", "5"}));
  ASSERT_TRUE(job->until([&] { return !events_of(*job, "error").empty(); })) << job->logs();
  ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 20; })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  const auto errors = events_of(*job, "error");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].value("message", "").find("checkpoint-000000000010.rubato"),
            std::string::npos)
      << errors[0];
}

// The event said what entering the view took, not that everybody then waited for the newcomer.
TEST_F(Runtime, TheStallOfAViewIncludesWaitingInItsFirstStep) {
  set_fault("hang 1 1");  // the newcomer, in its first step
  auto job = start("job", faulty_toy(1, 2, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.workers = 2; }));
  View view;
  ASSERT_TRUE(job->until([&] {
    view = job->view();
    return view.members.size() == 2;
  })) << job->logs();
  const Result<Board> board = Board::open(view.board);
  ASSERT_TRUE(board.ok());
  const auto survivor = static_cast<std::size_t>(view.position(0));
  ASSERT_TRUE(job->until([&] {
    return board->block(view.number).rows[survivor].arrived >= view.first_step;
  })) << job->logs();
  const auto waits = std::chrono::steady_clock::now();
  constexpr auto kHang = std::chrono::milliseconds(200);
  ASSERT_TRUE(job->until([&] { return std::chrono::steady_clock::now() - waits > kHang; }));
  set_fault("");
  ASSERT_TRUE(job->until([&] { return !view_event(*job, "join").is_null(); })) << job->logs();
  EXPECT_GE(view_event(*job, "join").value("stall_ms", 0.0), kHang.count()) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
}

// The step went back to 0, "steps redone 0", and no event said that a worker was lost.
TEST_F(Runtime, TheLossOfTheOnlyWorkerIsToldWithTheStepsThatItCosts) {
  auto job = start("job", toy(1, 4, 1000, {"--checkpoint-steps", "100000"}));
  std::int64_t reached = 0;
  ASSERT_TRUE(job->until([&] { return (reached = job->step()) > 20; })) << job->logs();
  const Member only = job->view().members.front();
  kill(static_cast<pid_t>(only.address.pid), SIGKILL);
  ASSERT_TRUE(job->until([&] { return !view_event(*job, "restart").is_null(); })) << job->logs();
  const nlohmann::json restart = view_event(*job, "restart");
  EXPECT_EQ(restart.value("step", -1), 0) << restart;
  EXPECT_GE(restart.value("steps_redone", -1), reached) << restart;
  const auto lost = events_of(*job, "lost");
  ASSERT_EQ(lost.size(), 1u) << job->logs();
  EXPECT_EQ(lost[0].value("worker", -1), only.address.id);
  EXPECT_EQ(lost[0].value("reason", ""), "killed by signal 9");
  EXPECT_EQ(finish(*job), 0) << job->logs();
}

// The log had the loss of logical worker 0, the result the mean of all of them.
TEST_F(Runtime, TheLossOfTheLastLogLineIsTheOneOfTheResult) {
  auto job = start("job", toy(2, 4, 30));
  EXPECT_EQ(finish(*job), 0) << job->logs();
  const std::string line =
      fmt::format("step 30/30 loss {:.5f} ", job->result().value("final_loss", 0.0));
  EXPECT_NE(job->logs().find(line), std::string::npos) << line << "\n" << job->logs();
}

TEST_F(Runtime, AStoppedJobContinues) {
  const std::string expected = undisturbed(1, 4, 1000);
  {
    auto job = start("job", toy(2, 4, 1000));
    ASSERT_TRUE(job->until([&] { return job->step() > 10; })) << job->logs();
    ASSERT_TRUE(job->change([](Target& t) { t.stop = true; }));
    EXPECT_EQ(job->wait(), 0) << job->logs();
    EXPECT_EQ(job->hash(), "");
  }
  auto again = start("job", toy(3, 4, 1000));
  EXPECT_EQ(finish(*again), 0) << again->logs();
  EXPECT_EQ(again->hash(), expected) << again->logs();
  EXPECT_EQ(view_event(*again, "restart").value("steps_redone", -1), 0);
}

// The first worker waited for the second and would have waited forever.
TEST_F(Runtime, AJobThatIsBeingFoundedCanBeStopped) {
  const std::string gate = root_ + "/gate";
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  std::vector<std::string> arguments = toy(2, 4, 1000);
  const auto program = std::find(arguments.begin(), arguments.end(), "--") + 1;
  arguments.insert(
      program,
      {"/bin/sh", "-c", "test $RUBATO_WORKER = 0 || read line <" + gate + "; exec \"$@\"", "sh"});
  auto job = start("job", arguments);
  ASSERT_TRUE(job->until([&] { return !job->view().empty(); })) << job->logs();
  ASSERT_TRUE(job->change([](Target& t) { t.stop = true; }));
  ASSERT_TRUE(job->until([&] { return job->view().empty(); })) << job->logs();
  // The launcher may have ended the process that waits there; a pipe opened read-write needs no
  // reader.
  const int both = open(gate.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(both, 0);
  EXPECT_EQ(write(both, "go\n", 3), 3);
  EXPECT_EQ(job->wait(), 0) << job->logs();
  close(both);
}

TEST_F(Runtime, ALaunchedJobThatWasKilledContinues) {
  const std::string expected = undisturbed(1, 4, 1000);
  std::size_t members = 0;
  {
    auto job = start("job", toy(2, 4, 1000, {"--checkpoint-steps", "10"}));
    ASSERT_TRUE(job->until([&] { return job->checkpoint() >= 30; })) << job->logs();
    members = job->view().members.size();
    kill(job->pid(), SIGKILL);
    job->wait();
  }
  auto again = start("job", toy(2, 4, 1000, {"--checkpoint-steps", "10"}));
  EXPECT_EQ(finish(*again), 0) << again->logs();
  EXPECT_EQ(again->hash(), expected) << again->logs();
  EXPECT_EQ(events_of(*again, "lost").size(), members) << again->logs();
}

TEST_F(Runtime, AWorkerOfAnotherEnvironmentIsRefusedByName) {
  setenv("TOY_TRAIT", "first", 1);
  auto job = start("job", toy(1, 4, 1000));
  ASSERT_TRUE(job->until([&] { return job->step() > 5; })) << job->logs();
  // A newcomer with another fingerprint, started by hand in the same folder.
  const pid_t stranger = fork();
  if (stranger == 0) {
    setenv("TOY_TRAIT", "second", 1);
    setenv("RUBATO_JOB_DIR", job->folder().path().c_str(), 1);
    setenv("RUBATO_WORKER", "1000", 1);
    const std::string toy_program = test_paths::program("toy_train");
    execl(toy_program.c_str(), toy_program.c_str(), "--steps", "1000", "--compute-us", "20000",
          nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(stranger, &status, 0);
  unsetenv("TOY_TRAIT");
  EXPECT_EQ(WEXITSTATUS(status), 3);
  bool named = false;
  for (const nlohmann::json& event : job->events()) {
    named = named || event.value("reason", "").find("arithmetic is 'second' there and 'first'") !=
                         std::string::npos;
  }
  EXPECT_TRUE(named) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
}

TEST_F(Runtime, AProgramThatFailsEndsTheJobWithItsLastWords) {
  auto job = start("job", {"--workers", "2", "--mode", "consistent", "--", "/bin/sh", "-c",
                           "echo no such data; exit 5"});
  EXPECT_EQ(job->wait(), 1);
  EXPECT_NE(job->logs().find("the last one: no such data"), std::string::npos) << job->logs();
}

// It was started again for ever.
TEST_F(Runtime, AProgramThatIsNoneRunsOnceAndItsExitCodeCounts) {
  const std::string count = "echo run >>" + root_ + "/runs; ";
  auto good = start("good", {"--workers", "3", "--", "/bin/sh", "-c", count + "exit 0"});
  EXPECT_EQ(good->wait(), 0) << good->logs();
  EXPECT_EQ(good->result().value("exit_code", -1), 0);
  EXPECT_NE(good->logs().find("it is not a Rubato program"), std::string::npos) << good->logs();
  auto bad = start("bad", {"--workers", "3", "--", "/bin/sh", "-c", count + "echo oh; kill -9 $$"});
  EXPECT_EQ(bad->wait(), 1);
  EXPECT_NE(bad->logs().find("the job failed: the program was killed by signal 9 (Killed); the end "
                             "of its log:\n  oh\nit is not a Rubato program"),
            std::string::npos)
      << bad->logs();
  const Result<std::string> runs = read_file(root_ + "/runs");
  EXPECT_EQ(runs.ok() ? *runs : "", "run\nrun\n");
}

TEST_F(Runtime, NothingIsLeftBehind) {
  auto job = start("job", toy(2, 4, 20));
  EXPECT_EQ(finish(*job), 0) << job->logs();
  const Result<JobSettings> settings = job->folder().read_settings();
  ASSERT_TRUE(settings.ok());
  const Result<std::vector<std::string>> shared = list_directory("/dev/shm");
  ASSERT_TRUE(shared.ok());
  for (const std::string& name : *shared) {
    EXPECT_EQ(name.find(settings->token), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace rubato::elastic
