// Processes that hide, and what jobs inherit from the daemon. The tests know the hidden processes
// by the ids that they wrote, not by anything that the executor looks for.
#include <cstdlib>

#include "control/executor/executor_fixture.h"
#include "control/start_supervisor.h"

namespace rubato::control {
namespace {

class Escapes : public ExecutorTest {
 protected:
  // A toy job each of whose workers first leaves a hidden process behind.
  JobDocument escaping(int steps) const {
    JobDocument document = toy(steps);
    document.run.insert(document.run.begin(),
                        {"/bin/sh", "-c", "\"$0\" \"$1.$RUBATO_WORKER\" && shift && exec \"$@\"",
                         test_paths::program("test_escape"), root_ + "/pid"});
    return document;
  }
  pid_t hidden(int worker) const {
    const Result<std::string> text = read_file(fmt::format("{}/pid.{}", root_, worker));
    return text.ok() ? static_cast<pid_t>(parse_int(trim(*text)).value_or(0)) : 0;
  }
  static bool lives(pid_t pid) {
    const std::optional<ProcessStat> stat = read_process_stat(pid);
    return stat && stat->state != 'Z';
  }
  // A running job with two hidden processes.
  void start_job() {
    start_executor();
    want(1, escaping(1'000'000), 2);
    ASSERT_TRUE(until([&] { return step(1) > 5 && hidden(0) > 0 && hidden(1) > 0; }));
    ASSERT_TRUE(lives(hidden(0)) && lives(hidden(1)));
    EXPECT_FALSE(live_process(hidden(0))) << "its environment is empty";
  }
  void expect_nothing_lives() {
    EXPECT_FALSE(lives(hidden(0)));
    EXPECT_FALSE(lives(hidden(1)));
    EXPECT_EQ(executor_->held(), 0);
  }
};

TEST_F(Escapes, AreEndedByCancel) {
  start_job();
  executor_->cancel(1);
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  expect_nothing_lives();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  RecordProperty("seconds", fmt::format("{:.3f}", took.count()));
}

TEST_F(Escapes, AreEndedWhenTheJobFinishes) {
  start_executor();
  want(1, escaping(60), 2);
  ASSERT_TRUE(finish(1));
  ASSERT_GT(hidden(0), 0);
  EXPECT_FALSE(lives(hidden(0)));
}

// The daemon has to do it: the supervisor does not react.
TEST_F(Escapes, AreEndedWithASupervisorThatHangs) {
  options_.term_after_s = 0.1;
  options_.kill_after_s = 0.1;
  start_job();
  ASSERT_EQ(kill(supervisor_pid(1), SIGSTOP), 0);
  executor_->cancel(1);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  expect_nothing_lives();
}

// It has no variable of the job and lost its ancestors, but keeps the lock of the job's processes.
TEST_F(Escapes, AProcessThatKeepsTheLockIsEndedAfterItsSupervisorDied) {
  options_.kill_after_s = 0.1;
  start_executor();
  JobDocument document = toy(1'000'000);
  document.run.insert(document.run.begin(),
                      {"/bin/sh", "-c",
                       "env -i setsid sh -c 'echo $$ >\"$0\".new; mv \"$0\".new \"$0\"; exec sleep "
                       "10000' \"$0.$RUBATO_WORKER\" & exec \"$@\"",
                       root_ + "/pid"});
  want(1, document, 1);
  ASSERT_TRUE(until([&] { return step(1) > 5 && hidden(0) > 0; }));
  const pid_t left = hidden(0);
  kill(supervisor_pid(1), SIGKILL);
  executor_->cancel(1);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  EXPECT_FALSE(lives(left));
}

TEST(JobEnvironment, IsAnAllowList) {
  const std::vector<std::string> daemon = {
      "PATH=/bin", "HOME=/root",          "AWS_SECRET_KEY=1", "LC_ALL=C",
      "TZ=UTC",    "CUDA_DEVICE_ORDER=x", "PATHOLOGICAL=1",   "RUBATO_STATE=/s"};
  EXPECT_EQ(job_environment(daemon, std::nullopt),
            (std::vector<std::string>{"PATH=/bin", "HOME=/root", "LC_ALL=C", "TZ=UTC",
                                      "CUDA_DEVICE_ORDER=x"}));
  const UnixUser alice{.name = "alice", .uid = 7, .gid = 7, .home = "/home/alice"};
  EXPECT_EQ(job_environment({"PATH=/bin", "HOME=/root", "USER=root"}, alice),
            (std::vector<std::string>{"PATH=/bin", "HOME=/home/alice", "USER=alice",
                                      "LOGNAME=alice", "SHELL=/bin/sh"}));
}

TEST_F(Escapes, AJobSeesNoSecretOfTheDaemonAndTheSecretsItNames) {
  setenv("DAEMONS_SECRET", "hunter2", 1);
  ASSERT_TRUE(write_file(root_ + "/token", "s3cr3t\n").ok());
  start_executor();
  JobDocument document = toy(3);
  document.env["PLAIN"] = "plain";
  document.env_from["TOKEN"] = "file:" + root_ + "/token";
  document.run.insert(document.run.begin(), {"/bin/sh", "-c", "env; exec \"$0\" \"$@\""});
  want(1, document, 1);
  ASSERT_TRUE(finish(1));
  unsetenv("DAEMONS_SECRET");
  const Result<std::string> log = read_file(executor_->log_files(1).front());
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->find("hunter2"), std::string::npos) << *log;
  EXPECT_NE(log->find("PLAIN=plain\n"), std::string::npos) << *log;
  EXPECT_NE(log->find("TOKEN=s3cr3t\n"), std::string::npos) << *log;
  EXPECT_EQ(compact_json(to_json(document)).find("s3cr3t"), std::string::npos);
}

}  // namespace
}  // namespace rubato::control
