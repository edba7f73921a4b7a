// Programs that do not use the runtime, and programs that fail before they join their job: how
// often they run, and how their jobs end. Every program notes its runs in a file.
#include <fcntl.h>
#include <sys/stat.h>

#include "control/executor/executor_fixture.h"

namespace rubato::control {
namespace {

using elastic::ProgramKind;

class OrdinaryPrograms : public ExecutorTest {
 protected:
  std::string runs_file(const std::string& name) const { return root_ + "/runs-" + name; }
  // A shell script that first adds a line to its file: the number of its try.
  JobDocument script(const std::string& name, const std::string& text,
                     ProgramKind program = ProgramKind::kOpaque) const {
    JobDocument document;
    document.name = name;
    document.program = program;
    document.mode =
        program == ProgramKind::kOpaque ? ElasticMode::kRigid : ElasticMode::kConsistent;
    document.run = {"/bin/sh", "-c",
                    fmt::format("echo \"$RUBATO_TRY\" >>{}; {}", runs_file(name), text)};
    document.max_devices = 4;
    return document;
  }
  int runs(const std::string& name) const {
    const Result<std::string> text = read_file(runs_file(name));
    return text.ok() ? static_cast<int>(std::count(text->begin(), text->end(), '\n')) : 0;
  }
  std::string tries(const std::string& name) const {
    const Result<std::string> text = read_file(runs_file(name));
    return text.ok() ? *text : "";
  }
  std::string file(const std::string& name) const { return root_ + "/" + name; }
  std::string text_of(const std::string& path) const {
    const Result<std::string> text = read_file(path);
    return text.ok() ? *text : "";
  }
  bool over(JobNumber job) const { return finished(job) || was_told(job, Notice::Kind::kFailed); }
  std::string failure(JobNumber job) const {
    const std::vector<Notice> all = told(job, Notice::Kind::kFailed);
    return all.empty() ? "" : all.back().body.value("message", "");
  }
  nlohmann::json result(JobNumber job) const {
    const std::vector<Notice> all = told(job, Notice::Kind::kFinished);
    return all.empty() ? nlohmann::json::object() : all.back().body;
  }
  bool has(const std::string& text, const std::string& part) const {
    return text.find(part) != std::string::npos;
  }
  void wait_without_daemon(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_TRUE(condition());
  }
};

TEST_F(OrdinaryPrograms, RunOnceAndTheirExitCodeCounts) {
  start_executor();
  want(1, script("good", "exit 0"), 1);
  want(2, script("bad", "echo one; echo two; exit 3"), 1);
  want(3, script("killed", "kill -9 $$"), 1);
  ASSERT_TRUE(until([&] { return over(1) && over(2) && over(3) && executor_->held() == 0; }));
  for (const char* name : {"good", "bad", "killed"}) EXPECT_EQ(runs(name), 1) << name;
  EXPECT_EQ(result(1).value("exit_code", -1), 0);
  EXPECT_EQ(result(1).value("tries", 0), 1);
  EXPECT_EQ(result(1).value("mode", ""), "opaque");
  EXPECT_TRUE(result(1).contains("run_s"));
  EXPECT_FALSE(result(1).contains("hint"));
  EXPECT_EQ(failure(2), "the program ended with code 3; the end of its log:\n  one\n  two");
  EXPECT_EQ(failure(3), "the program was killed by signal 9 (Killed)");
}

TEST_F(OrdinaryPrograms, AreTriedAgainAsOftenAsTheirOwnerSays) {
  options_.restart_after_s = 0.02;
  start_executor();
  JobDocument never = script("never", "exit 5");
  never.retries = 3;
  JobDocument third = script("third", "test $RUBATO_TRY = 3");
  third.retries = 3;
  want(1, never, 1);
  want(2, third, 1);
  ASSERT_TRUE(until([&] { return over(1) && over(2); }));
  EXPECT_EQ(tries("never"), "1\n2\n3\n4\n");
  EXPECT_EQ(failure(1), "the program ended with code 5 (try 4 of 4)");
  EXPECT_EQ(tries("third"), "1\n2\n3\n");
  EXPECT_EQ(result(2).value("tries", 0), 3);
  EXPECT_EQ(executor_->log_files(1).size(), 4u);
}

TEST_F(OrdinaryPrograms, HaveTheirDevicesInTheEnvironmentOfOneProcess) {
  start_executor();
  JobDocument document =
      script("env", "env >" + file("environment") + "; read line <" + file("gate"));
  document.env["RUBATO_JOB_ID"] = "mine";
  ASSERT_EQ(mkfifo(file("gate").c_str(), 0600), 0);
  document.min_devices = document.max_devices = 2;
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return runs("env") == 1 && devices_on(executor_->held(1)) == 2; }));
  for (int i = 0; i < 20; ++i) look();
  EXPECT_EQ(workers_of(1).size(), 1u);
  restart_executor();  // knows its devices
  EXPECT_EQ(devices_on(executor_->held(1)), 2);
  ASSERT_TRUE(until([&] { return has(text_of(file("environment")), "RUBATO_TRY"); }));
  const int fd = open(file("gate").c_str(), O_WRONLY);
  ASSERT_EQ(write(fd, "\n", 1), 1);
  close(fd);
  ASSERT_TRUE(until([&] { return over(1) && executor_->held() == 0; }));
  const std::string environment = "\n" + text_of(file("environment"));
  for (const std::string& line :
       {std::string("RUBATO_JOB_ID=j1"), std::string("RUBATO_JOB_NAME=env"),
        "RUBATO_JOB_DIR=" + executor_->job_folder(1), std::string("RUBATO_DEVICES=2"),
        std::string("RUBATO_TRY=1"), std::string("CUDA_VISIBLE_DEVICES=A,B")}) {
    EXPECT_TRUE(has(environment, "\n" + line + "\n")) << line << " is not in" << environment;
  }
  EXPECT_FALSE(has(environment, "\nRUBATO_WORKER="));
  EXPECT_FALSE(has(environment, "\nOMP_NUM_THREADS="));
  EXPECT_TRUE(finished(1));
}

// It ran 344 times in 8 s.
TEST_F(OrdinaryPrograms, WithoutAModeRunOnceOnAnyNumberOfDevicesAndSayWhy) {
  start_executor();
  want(1, script("good", "exit 0", ProgramKind::kUnknown), 3);
  ASSERT_TRUE(until([&] { return over(1); }));
  want(2, script("bad", "echo no data; exit 4", ProgramKind::kUnknown), 3);
  ASSERT_TRUE(until([&] { return over(2); }));
  want(3, script("killed", "kill -9 $$", ProgramKind::kUnknown), 3);
  ASSERT_TRUE(until([&] { return over(3) && executor_->held() == 0; }));
  for (const char* name : {"good", "bad", "killed"}) EXPECT_EQ(runs(name), 1) << name;
  EXPECT_EQ(result(1).value("exit_code", -1), 0);
  EXPECT_TRUE(has(result(1).value("hint", ""), "not a Rubato program")) << result(1);
  EXPECT_TRUE(has(failure(2), "ended with code 4; the end of its log:\n  no data\n")) << failure(2);
  EXPECT_TRUE(has(failure(2), "mode: opaque")) << failure(2);
  EXPECT_TRUE(has(failure(3), "killed by signal 9 (Killed); it is not a")) << failure(3);
  for (const JobNumber job : {1, 2, 3}) {
    int warnings = 0;
    for (const Notice& notice : told(job, Notice::Kind::kEvent)) {
      warnings += notice.body.value("type", "") == "warning" ? 1 : 0;
    }
    EXPECT_EQ(warnings, 1) << job;
  }
}

TEST_F(OrdinaryPrograms, WithoutAModeARubatoProgramHasItsWorkers) {
  start_executor();
  const std::string expected = undisturbed(toy(600));
  JobDocument document = toy(600);
  document.program = ProgramKind::kUnknown;
  want(1, document, 3);
  ASSERT_TRUE(until([&] { return workers(1) == 3; }));
  const pid_t supervisor = supervisor_pid(1);
  kill(supervisor, SIGKILL);  // what it is, is known
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kRestarted); }));
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
}

TEST_F(OrdinaryPrograms, ARubatoProgramInAnOpaqueJobIsAJobOfItsOwn) {
  start_executor();
  JobDocument document = toy(20, 4, 1);
  document.logical_workers = 0;
  document.program = ProgramKind::kOpaque;
  document.mode = ElasticMode::kRigid;
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return over(1); }));
  EXPECT_EQ(result(1).value("exit_code", -1), 0) << failure(1);
  EXPECT_TRUE(has(text_of(executor_->log_files(1).front()), "state_sha256"));
}

TEST_F(OrdinaryPrograms, RunOnceAlsoIfTheDaemonDiesMeanwhile) {
  start_executor();
  const std::string go = file("go");
  const std::string wait = "while ! test -e " + go + "; do sleep 0.01; done; ";
  want(1, script("good", wait + "exit 0"), 1);
  want(2, script("bad", wait + "exit 2"), 1);
  want(3, script("plain", wait + "exit 0", ProgramKind::kUnknown), 2);
  ASSERT_TRUE(until([&] { return runs("good") + runs("bad") + runs("plain") == 3; }));
  restart_executor();
  ASSERT_TRUE(until([&] { return executor_->held() == 4; }));
  executor_.reset();
  ASSERT_TRUE(write_file(go, "").ok());
  wait_without_daemon([&] { return supervisors(root_).empty(); });  // they end without a daemon
  restart_executor();
  ASSERT_TRUE(until([&] { return over(1) && over(2) && over(3) && executor_->held() == 0; }));
  restart_executor();
  for (int i = 0; i < 20; ++i) look();
  for (const char* name : {"good", "bad", "plain"}) EXPECT_EQ(runs(name), 1) << name;
  EXPECT_TRUE(finished(1) && finished(3));
  EXPECT_EQ(failure(2), "the program ended with code 2");
}

TEST_F(OrdinaryPrograms, WhoseSupervisorIsKilledRunAgainOnlyIfTheirOwnerSaysSo) {
  start_executor();
  JobDocument once = script("once", "exec sleep 1000");
  JobDocument twice = script("twice", "test $RUBATO_TRY = 2 || exec sleep 1000");
  twice.retries = 1;
  want(1, once, 1);
  want(2, twice, 1);
  want(3, script("plain", "exec sleep 1000", ProgramKind::kUnknown), 2);
  ASSERT_TRUE(until([&] { return runs("once") + runs("twice") + runs("plain") == 3; }));
  for (const JobNumber job : {1, 2, 3}) kill(supervisor_pid(job), SIGKILL);
  ASSERT_TRUE(until([&] { return over(1) && over(2) && over(3); }));
  EXPECT_EQ(runs("once"), 1);
  EXPECT_EQ(runs("plain"), 1);
  EXPECT_EQ(tries("twice"), "1\n2\n");
  EXPECT_TRUE(has(failure(1), "its supervisor was killed")) << failure(1);
  EXPECT_TRUE(has(failure(3), "its supervisor was killed")) << failure(3);
  EXPECT_EQ(result(2).value("tries", 0), 2) << failure(2);
}

TEST_F(OrdinaryPrograms, AreAskedToStopAndRunAgainWithoutLosingATry) {
  start_executor();
  const std::string stopped = file("stopped");
  for (const ProgramKind kind : {ProgramKind::kOpaque, ProgramKind::kUnknown}) {
    const std::string name = kind == ProgramKind::kOpaque ? "opaque" : "plain";
    const JobNumber job = kind == ProgramKind::kOpaque ? 1 : 2;
    std::filesystem::remove(stopped);
    // A shell obeys a trap when its command has ended, so the commands are short.
    want(job,
         script(name,
                fmt::format("trap 'echo saved >{0}; exit 0' TERM; test -e {0} && exit 0; "
                            "echo ready >{0}.ready; while :; do sleep 0.01; done",
                            stopped),
                kind),
         2);
    ASSERT_TRUE(until([&] { return is_file(stopped + ".ready"); }));
    want(job, 0);
    ASSERT_TRUE(until([&] { return was_told(job, Notice::Kind::kStopped); }));
    EXPECT_EQ(text_of(stopped), "saved\n");
    EXPECT_EQ(executor_->held(), 0);
    EXPECT_FALSE(over(job));
    restart_executor();
    want(job, 2);
    ASSERT_TRUE(until([&] { return over(job); }));
    EXPECT_EQ(runs(name), 2);
    EXPECT_EQ(result(job).value("tries", 0), 1) << failure(job);
    std::filesystem::remove(stopped + ".ready");
  }
  EXPECT_EQ(tries("opaque"), "1\n1\n");
}

TEST_F(OrdinaryPrograms, ThatDoNotStopAreKilledAfterTheirGrace) {
  options_.term_after_s = 0.1;
  options_.kill_after_s = 0.1;
  start_executor();
  JobDocument deaf = script("deaf", "trap '' TERM; while :; do sleep 0.05; done");
  deaf.grace_s = 0.2;
  // Longer than the daemon's own patience: the grace counts.
  JobDocument slow = script("slow", fmt::format("trap 'sleep 1; echo saved >{}; exit 1' TERM; "
                                                "echo ready >{}; while :; do sleep 0.01; done",
                                                file("saved"), file("ready")));
  slow.grace_s = 1000;
  want(1, deaf, 1);
  want(2, slow, 1);
  ASSERT_TRUE(until([&] { return runs("deaf") == 1 && is_file(file("ready")); }));
  want(1, 0);
  executor_->cancel(2);
  ASSERT_TRUE(until(
      [&] { return was_told(1, Notice::Kind::kStopped) && was_told(2, Notice::Kind::kStopped); }));
  EXPECT_EQ(text_of(file("saved")), "saved\n");
  EXPECT_TRUE(live_processes(root_).empty());
}

// A worker that was killed, or ended with 0, before its job had a view was started again for ever.
TEST_F(OrdinaryPrograms, ARubatoProgramThatFailsBeforeItJoinsIsStartedAFewTimes) {
  options_.restart_after_s = 0.01;
  start_executor();
  want(1, script("good", "echo first; echo last; exit 0", ProgramKind::kRuntime), 1);
  want(2, script("killed", "kill -9 $$", ProgramKind::kRuntime), 1);
  want(3, script("excluded", "exit 4", ProgramKind::kRuntime), 2);
  ASSERT_TRUE(until([&] { return over(1) && over(2) && over(3) && executor_->held() == 0; }));
  EXPECT_EQ(runs("good"), 5);
  EXPECT_EQ(runs("killed"), 5);
  EXPECT_LE(runs("excluded"), 6);  // two, then one at a time
  EXPECT_TRUE(has(failure(1),
                  "5 failures in a row without progress; the last one: last (worker 4 "
                  "ended with code 0 before it joined the job); the end of its log:\n"
                  "  first\n  last"))
      << failure(1);
  EXPECT_TRUE(has(failure(2), "killed by signal 9 before it joined the job)")) << failure(2);
  EXPECT_TRUE(has(failure(3), "ended with code 4 before it joined the job)")) << failure(3);
  for (const JobNumber job : {1, 2, 3}) EXPECT_FALSE(was_told(job, Notice::Kind::kRestarted));
}

// It speaks to the runtime and then fails: no ordinary program.
TEST_F(OrdinaryPrograms, ARubatoProgramWithoutAModeThatFailsAfterItsFirstWordIsStartedAFewTimes) {
  options_.restart_after_s = 0.01;
  start_executor();
  want(1, script("spoken", "touch $RUBATO_JOB_DIR/hello; exit 0", ProgramKind::kUnknown), 1);
  ASSERT_TRUE(until([&] { return over(1); }));
  EXPECT_EQ(runs("spoken"), 5);
  EXPECT_TRUE(has(failure(1), "before it joined the job")) << failure(1);
}

}  // namespace
}  // namespace rubato::control
