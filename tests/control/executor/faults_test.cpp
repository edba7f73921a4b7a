// Processes that die and programs that misbehave.
#include <sys/wait.h>

#include "control/executor/executor_fixture.h"
#include "control/start_supervisor.h"
#include "control/supervise.h"
#include "elastic/memory/shared_memory.h"
#include "test_paths.h"

namespace rubato::control {
namespace {

class ExecutorFaults : public ExecutorTest {
 protected:
  static JobDocument script(const std::string& text) {
    JobDocument document;
    document.name = "script";
    document.program = elastic::ProgramKind::kRuntime;
    document.run = {"/bin/sh", "-c", text};
    document.max_devices = 4;
    return document;
  }
  // A toy job whose workers read from a file how to misbehave; see toy_program.h.
  JobDocument faulty_toy(int steps) const {
    JobDocument document = toy(steps);
    document.env["TOY_FAULT_FILE"] = root_ + "/fault";
    document.checkpoint_every_s = 0.2;
    return document;
  }
  void set_fault(const std::string& what) const {
    ASSERT_TRUE(write_file(root_ + "/fault", what).ok());  // replaced atomically
  }
  std::string failure(JobNumber job) const {
    const std::vector<Notice> all = told(job, Notice::Kind::kFailed);
    return all.empty() ? "" : all.back().body.value("message", "");
  }
  bool has_failed(JobNumber job) const { return was_told(job, Notice::Kind::kFailed); }
};

TEST_F(ExecutorFaults, AKilledWorkerIsReplaced) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 3);
  ASSERT_TRUE(until([&] { return step(1) > 10 && workers(1) == 3; }));
  const pid_t victim = workers_of(1).back().pid;
  kill(victim, SIGKILL);
  ASSERT_TRUE(until([&] { return !live_process(victim) && workers_of(1).size() == 3; }));
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
  EXPECT_FALSE(was_told(1, Notice::Kind::kRestarted));
}

TEST_F(ExecutorFaults, AKilledSupervisorIsStartedAgain) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 3);
  ASSERT_TRUE(until([&] { return step(1) > 10; }));
  const pid_t victim = supervisor_pid(1);
  kill(victim, SIGKILL);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kRestarted); }));
  ASSERT_TRUE(finish(1));
  EXPECT_NE(supervisor_pid(1), victim);
  EXPECT_EQ(hash(1), expected);
  // The steps it cost are told, although nobody survived who knew them.
  std::int64_t redone = -1;
  for (const Notice& notice : told(1, Notice::Kind::kEvent)) {
    if (notice.body.value("cause", "") == "restart") redone = notice.body.value("steps_redone", -1);
  }
  EXPECT_GT(redone, 10) << told();
}

// A killed daemon may have started a supervisor that begins when another one is already running, or
// after the job was stopped and another job got its devices.
TEST_F(ExecutorFaults, ASupervisorThatComesLateDoesNothing) {
  start_executor();
  const JobDocument document = toy(1000);
  const std::string expected = undisturbed(document);
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return step(1) > 10; }));
  const auto come_late = [&] {
    const Result<pid_t> late = start_supervisor(options_.supervisor, executor_->job_folder(1));
    ASSERT_TRUE(late.ok()) << late.error().message;
    int status = 0;
    waitpid(*late, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kSupervisedAlready);
    EXPECT_FALSE(signal_supervisor(executor_->job_folder(7), 0));
  };
  const pid_t supervisor = supervisor_pid(1);
  come_late();
  EXPECT_EQ(supervisor_pid(1), supervisor);
  EXPECT_EQ(supervisors(root_).size(), 1u);
  want(1, 0);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  come_late();
  EXPECT_TRUE(supervisors(root_).empty());
  want(1, 2);
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
}

TEST_F(ExecutorFaults, ASupervisorThatIsKilledAgainAndAgainIsGivenUp) {
  options_.most_restarts = 2;
  options_.restart_after_s = 0.01;
  start_executor();
  set_fault("slow -1 100000");  // never completes a step
  want(1, faulty_toy(100), 2);
  std::set<pid_t> victims;
  ASSERT_TRUE(until([&] {
    const pid_t pid = supervisor_pid(1);
    if (!workers_of(1).empty() && victims.insert(pid).second) kill(pid, SIGKILL);
    return has_failed(1);
  }));
  EXPECT_EQ(victims.size(), 3u);
  EXPECT_EQ(told(1, Notice::Kind::kRestarted).size(), 2u);
  EXPECT_NE(failure(1).find("died 3 times without progress"), std::string::npos) << failure(1);
  EXPECT_EQ(executor_->held(), 0);
}

TEST_F(ExecutorFaults, ASupervisorThatDoesNotExistFailsTheJob) {
  options_.supervisor = root_ + "/no-such-program";
  options_.most_restarts = 1;
  start_executor();
  want(1, toy(100), 2);
  ASSERT_TRUE(until([&] { return has_failed(1); }));
  EXPECT_NE(failure(1).find("no-such-program"), std::string::npos) << failure(1);
  EXPECT_EQ(executor_->held(), 0);
}

TEST_F(ExecutorFaults, AProgramThatDoesNotExistFailsTheJobByName) {
  start_executor();
  JobDocument document = toy(100);
  document.run = {"/no/such/program"};
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return has_failed(1); }));
  EXPECT_NE(failure(1).find("cannot start /no/such/program"), std::string::npos) << failure(1);
  document.run = {"/bin/true"};
  document.dir = "/no/such/folder";
  want(2, document, 2);
  ASSERT_TRUE(until([&] { return has_failed(2); }));
  EXPECT_NE(failure(2).find("cannot run in /no/such/folder"), std::string::npos) << failure(2);
  EXPECT_EQ(executor_->held(), 0);
}

// It was started five times before.
TEST_F(ExecutorFaults, AProgramThatVanishesFailsTheJobAtOnceByName) {
  start_executor();
  JobDocument document = toy(1000);
  const std::string program = root_ + "/program";
  std::filesystem::copy_file(document.run[0], program);
  document.run[0] = program;
  want(1, document, 1);
  ASSERT_TRUE(until([&] { return step(1) > 10; }));
  want(1, 0);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  const std::size_t logs = executor_->log_files(1).size();
  std::filesystem::remove(program);
  want(1, 1);
  ASSERT_TRUE(until([&] { return has_failed(1); }));
  EXPECT_NE(failure(1).find("cannot start " + program), std::string::npos) << failure(1);
  EXPECT_EQ(executor_->log_files(1).size(), logs);  // no worker was tried
}

TEST_F(ExecutorFaults, AProgramThatCrashesFailsTheJobWithItsLastWords) {
  start_executor();
  want(1, script("echo 'no data today'; exit 3"), 1);
  want(2, script("printf 'gar\\377\\200bage'; kill -SEGV $$"), 1);
  set_fault("throw -1 40");
  want(3, faulty_toy(300), 2);
  ASSERT_TRUE(until([&] { return has_failed(1) && has_failed(2) && has_failed(3); }));
  EXPECT_NE(failure(1).find("no data today (worker"), std::string::npos) << failure(1);
  EXPECT_NE(failure(2).find("bage (worker"), std::string::npos) << failure(2);
  EXPECT_NE(failure(2).find("crashed: "), std::string::npos) << failure(2);
  EXPECT_NE(failure(3).find("without progress; the last one: rubato: step 40"), std::string::npos)
      << failure(3);
  EXPECT_EQ(executor_->held(), 0);
  for (const JobNumber job : {1, 2, 3}) EXPECT_FALSE(was_told(job, Notice::Kind::kRestarted));
}

TEST_F(ExecutorFaults, AProgramThatHangsIsStoppedBySignalsAndContinues) {
  options_.term_after_s = 0.3;
  options_.kill_after_s = 0.3;
  start_executor();
  const JobDocument document = faulty_toy(1000);
  set_fault("");
  const std::string expected = undisturbed(document);
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return step(1) > 30; }));
  set_fault("slow -1 100000");  // 200 s per mini-batch
  want(1, 0);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  EXPECT_TRUE(workers_of(1).empty());
  set_fault("");
  want(1, 3);
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
}

TEST_F(ExecutorFaults, AProgramThatHangsGivesItsDevicesBack) {
  options_.term_after_s = 0.3;
  options_.kill_after_s = 0.3;
  start_executor();
  const JobDocument document = faulty_toy(1000);
  set_fault("");
  const std::string expected = undisturbed(document);
  want(1, document, 4);
  ASSERT_TRUE(until([&] { return step(1) > 30 && workers(1) == 4; }));
  set_fault("slow -1 100000");
  want(1, 1);
  ASSERT_TRUE(until([&] { return devices_on(executor_->held(1)) == 1; }));
  EXPECT_EQ(workers_of(1).size(), 1u);
  kill(workers_of(1).front().pid, SIGKILL);
  set_fault("");
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
}

TEST_F(ExecutorFaults, AProgramThatIgnoresSignalsAndNeverTrainsIsStopped) {
  options_.term_after_s = 0.3;
  options_.kill_after_s = 0.3;
  start_executor();
  want(1, script("trap '' TERM INT HUP; while :; do sleep 0.1; done"), 2);
  ASSERT_TRUE(until([&] { return workers_of(1).size() == 2; }));
  want(1, 0);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  EXPECT_TRUE(live_processes(root_).empty());
}

TEST_F(ExecutorFaults, AProgramThatPrintsEndlesslyDoesNotFillTheDisk) {
  options_.log_bytes = 1 << 20;
  options_.log_files = 2;
  start_executor();
  want(1, script("while :; do echo $RUBATO_WORKER 0123456789012345678901234567890123456789; done"),
       1);
  ASSERT_TRUE(until([&] { return executor_->log_files(1).size() == 3; }));
  for (int i = 0; i < 50; ++i) {
    look();
    std::uintmax_t bytes = 0;
    const std::vector<std::string> now = executor_->log_files(1);
    EXPECT_LE(now.size(), 3u);
    for (const std::string& file : now) {
      std::error_code error;
      const std::uintmax_t size = std::filesystem::file_size(file, error);
      if (!error) bytes += size;
    }
    EXPECT_LT(bytes, 64u << 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // During a rotation there is briefly one file fewer.
  std::vector<std::string> files;
  ASSERT_TRUE(until([&] {
    files = executor_->log_files(1);
    return files.size() == 3;
  }));
  EXPECT_TRUE(files[0].ends_with("/logs/worker-0.log.2"));
  EXPECT_TRUE(files[2].ends_with("/logs/worker-0.log"));
  executor_->cancel(1);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
}

TEST_F(ExecutorFaults, WhatAProgramHasStartedEndsWithIt) {
  options_.kill_after_s = 0.3;
  start_executor();
  JobDocument document =
      script("sleep 1000 & setsid sleep 1000 & exec \"$0\" --steps 100 --compute-us 1000");
  document.run.emplace_back(test_paths::program("toy_train"));
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return finished(1); }));
  EXPECT_TRUE(live_processes(root_).empty());
}

#if defined(__SANITIZE_THREAD__)  // its programs need all addresses
constexpr std::int64_t kMemoryLimit = 0;
#elif defined(__SANITIZE_ADDRESS__)  // reserves 20 TiB of them
constexpr std::int64_t kMemoryLimit = std::int64_t{64} << 40;
#else
constexpr std::int64_t kMemoryLimit = std::int64_t{2} << 30;
#endif

TEST_F(ExecutorFaults, WorkersHaveTheirLimitsEnvironmentAndDirectory) {
  options_.worker_files = 123;
  options_.worker_memory_bytes = kMemoryLimit;
  start_executor();
  JobDocument document = script(
      "echo core $(ulimit -c) files $(ulimit -n) memory $(ulimit -v) in $(pwd) word $WORD; exec "
      "\"$0\" --steps 3");
  document.run.emplace_back(test_paths::program("toy_train"));
  document.env["WORD"] = "two words";
  want(1, document, 1);
  ASSERT_TRUE(until([&] { return finished(1); }));
  const Result<std::string> log = read_file(executor_->log_files(1).front());
  ASSERT_TRUE(log.ok());
  const std::string memory =
      kMemoryLimit > 0 ? fmt::format("{}", kMemoryLimit / 1024) : "unlimited";
  EXPECT_NE(log->find(fmt::format("core 0 files 123 memory {} in {}/work word two words", memory,
                                  executor_->job_folder(1))),
            std::string::npos)
      << *log;
}

TEST_F(ExecutorFaults, AfterAPowerFailureAJobContinuesFromItsCheckpoint) {
  start_executor();
  JobDocument document = toy(1000);
  document.checkpoint_every_s = 0.1;
  const std::string expected = undisturbed(document);
  const elastic::JobFolder folder(options_.folder + "/1");
  want(1, document, 2);
  ASSERT_TRUE(until([&] { return elastic::newest_checkpoint(folder) > 20; }));
  const std::int64_t kept = elastic::newest_checkpoint(folder);
  // After the power failure nothing runs, shared memory is gone and small files written last are
  // empty.
  executor_.reset();
  const Result<elastic::JobSettings> settings = folder.read_settings();
  ASSERT_TRUE(settings.ok());
  for (const pid_t pid : supervisors(root_)) kill(pid, SIGKILL);
  for (const auto deadline = std::chrono::steady_clock::now() + kPatience;
       !live_processes(root_).empty() && std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  elastic::remove_segments("rubato." + settings->token + ".");
  auto registry = elastic::FileRegistry::open(folder.registry_folder());
  ASSERT_TRUE(registry.ok());
  const Result<elastic::Record> view = (*registry)->get(elastic::kViewRecord);
  ASSERT_TRUE(view.ok());
  for (const std::string& file :
       {fmt::format("{}/view.{}", folder.registry_folder(), view->version), folder.status_file(),
        folder.settings_file(), folder.secret_file(), folder.path() + "/supervise.json"}) {
    ASSERT_EQ(truncate(file.c_str(), 0), 0) << file;
  }
  restart_executor();
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kRestarted); }));
  notices_.clear();
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kProgress); }));
  EXPECT_GE(told(1, Notice::Kind::kProgress).front().body.value("step", std::int64_t{0}), kept);
  ASSERT_TRUE(finish(1));
  EXPECT_EQ(hash(1), expected);
}

TEST_F(ExecutorFaults, ProcessesOfAnEndedJobAreEnded) {
  start_executor();
  want(1, toy(100000), 2);
  ASSERT_TRUE(until([&] { return step(1) > 5; }));
  records_[1].phase = Phase::kCancelled;  // recorded but not carried out when the daemon died
  records_[1].granted = 0;
  restart_executor();
  EXPECT_EQ(devices_on(executor_->held(1)), 2);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  EXPECT_TRUE(live_processes(root_).empty());
}

}  // namespace
}  // namespace rubato::control
