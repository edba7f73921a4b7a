// Jobs of different unix users. The users need no names: any number will do. Needs root.
#include "control/isolation.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "control/controller.h"
#include "control/executor/executor_fixture.h"
#include "control/supervise.h"

namespace rubato::control {
namespace {

constexpr uid_t kAlice = 64'001;
constexpr uid_t kBob = 64'002;

std::string read_as(uid_t user, const std::string& path) {
  const AsUser rights(user, user, {user});
  const Result<std::string> text = read_file(path);
  return text.ok() ? *text : "refused";
}

class IsolatedJobs : public ExecutorTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    ExecutorTest::SetUp();
    ASSERT_EQ(chmod(root_.c_str(), 0711), 0);
    options_.isolation.users = true;
    ASSERT_TRUE(write_private_file(root_ + "/admin.token", "secret").ok());
  }
  void TearDown() override {
    if (!IsSkipped()) ExecutorTest::TearDown();
  }
  JobDocument of(uid_t user, JobDocument document) const {
    document.user = std::to_string(user);
    return document;
  }
  // A toy job that first runs this command of the shell; $STATE is the state folder.
  JobDocument saying(uid_t user, const std::string& command) const {
    JobDocument document = of(user, toy(3));
    document.env["STATE"] = root_;
    document.run.insert(document.run.begin(), {"/bin/sh", "-c", command + "; exec \"$0\" \"$@\""});
    return document;
  }
  std::string log(JobNumber job) const {
    const std::vector<std::string> files = executor_->log_files(job);
    const Result<std::string> text = read_file(files.empty() ? "" : files.front());
    return text.ok() ? *text : "";
  }
};

TEST_F(IsolatedJobs, RunAsTheirUsersAndReadNothingOfOthers) {
  start_executor();
  const JobDocument document = toy(200);
  want(1, of(kAlice, document), 2);
  ASSERT_TRUE(until([&] { return step(1) > 5; }));
  for (const LiveProcess& worker : workers_of(1)) {
    struct stat process {};
    ASSERT_EQ(stat(fmt::format("/proc/{}", worker.pid).c_str(), &process), 0);
    EXPECT_EQ(process.st_uid, kAlice);
  }
  struct stat folder {};
  ASSERT_EQ(stat(executor_->job_folder(1).c_str(), &folder), 0);
  EXPECT_EQ(folder.st_uid, kAlice);
  EXPECT_EQ(folder.st_mode & 0777U, 0700U);
  want(2,
       saying(kBob,
              "id -u; cat $STATE/admin.token $STATE/jobs/1/supervise.json "
              "$STATE/jobs/1/logs/worker-0.log; ls $STATE $STATE/jobs $STATE/jobs/1; "
              "kill -9 $(cat $STATE/alice.pid); touch $STATE/x $STATE/jobs/x"),
       1);
  ASSERT_TRUE(write_file(root_ + "/alice.pid", std::to_string(supervisor_pid(1))).ok());
  ASSERT_TRUE(until([&] { return finished(2); }));
  const std::string said = log(2);
  EXPECT_TRUE(said.starts_with("64002\n")) << said;
  EXPECT_EQ(said.find("secret"), std::string::npos) << said;
  EXPECT_EQ(said.find("settings"), std::string::npos) << said;
  EXPECT_FALSE(is_file(root_ + "/x") || is_file(root_ + "/jobs/x"));
  ASSERT_TRUE(finish(1));
  want(3, of(kBob, document), 1);
  ASSERT_TRUE(until([&] { return finished(3); }));
  EXPECT_EQ(hash(3), hash(1)) << "the user does not decide bits";
  EXPECT_FALSE(was_told(1, Notice::Kind::kRestarted));
}

TEST_F(IsolatedJobs, AreStoppedResumedAndAdopted) {
  start_executor();
  want(1, of(kAlice, toy(1000)), 2);
  ASSERT_TRUE(until([&] { return step(1) > 5; }));
  restart_executor();
  EXPECT_EQ(devices_on(executor_->held(1)), 2);
  want(1, 0);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  want(1, 1);
  ASSERT_TRUE(finish(1));
}

// Links in place of its files lead the daemon to nothing that its user cannot read or write.
TEST_F(IsolatedJobs, CannotFoolTheDaemonWithLinks) {
  ASSERT_TRUE(write_private_file(root_ + "/events", "{\"type\":\"hello\",\"secret\":1}\n").ok());
  start_executor();
  JobDocument document = saying(
      kAlice,
      "cd $RUBATO_JOB_DIR; for f in events.jsonl status.json; do rm -f $f; ln -s $STATE/events $f; "
      "done; rm logs/worker-0.log; ln -s $STATE/admin.token logs/worker-0.log; exec sleep 10000");
  want(1, document, 1);
  ASSERT_TRUE(
      until([&] { return std::filesystem::is_symlink(options_.folder + "/1/logs/worker-0.log"); }));
  for (int i = 0; i < 20; ++i) look();
  executor_->cancel(1);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
  for (const Notice& notice : told(1, Notice::Kind::kEvent)) {
    EXPECT_FALSE(notice.body.contains("secret"));
  }
  EXPECT_EQ(*read_file(root_ + "/events"), "{\"type\":\"hello\",\"secret\":1}\n");
}

// The file that names the supervisor is the job's. It may name anybody.
TEST_F(IsolatedJobs, CannotMakeTheDaemonKillOthers) {
  start_executor();
  want(1, of(kAlice, toy(1'000'000)), 1);
  ASSERT_TRUE(until([&] { return step(1) > 5; }));
  const pid_t victim = fork();
  if (victim == 0) {
    for (;;) pause();
  }
  const std::string lock = executor_->job_folder(1) + "/supervisor.lock";
  const Result<std::string> real = read_file(lock);
  const auto name = [&](const std::string& text) {
    const int file = open(lock.c_str(), O_WRONLY | O_TRUNC);  // the same file: its lock stays
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
  };
  name(fmt::format("{} {}\n", victim, identify(victim)->started));
  EXPECT_FALSE(signal_supervisor(executor_->job_folder(1), SIGKILL));
  kill_supervised(executor_->job_folder(1));
  EXPECT_EQ(waitpid(victim, nullptr, WNOHANG), 0) << "it was killed";
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  name(*real);
  executor_->cancel(1);
  ASSERT_TRUE(until([&] { return was_told(1, Notice::Kind::kStopped); }));
}

TEST_F(IsolatedJobs, NeedAUserAndNeverRoot) {
  start_executor();
  EXPECT_FALSE(executor_->want(1, toy(3), here(1), 0).ok());
  EXPECT_FALSE(executor_->want(1, of(0, toy(3)), here(1), 0).ok());
  EXPECT_FALSE(find_unix_user("root").ok());
  EXPECT_FALSE(find_unix_user("no-such-user").ok());
  want(1, of(kAlice, toy(3)), 1);
  ASSERT_TRUE(until([&] { return finished(1); }));
  const Status other = executor_->want(1, of(kBob, toy(3)), here(1), 0);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("belongs to user 64001"), std::string::npos);
}

TEST_F(IsolatedJobs, ATenantsUserOrTheSubmitterRunsThem) {
  const Caller admin{.tenant = "", .admin = true};
  auto made = Controller::start({.folder = root_ + "/state",
                                 .supervisor = options_.supervisor,
                                 .machine = {.devices = 2},
                                 .isolation = {.users = true}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  Controller& controller = **made;
  ASSERT_TRUE(controller.reserve(admin, 2, 3600).ok());  // no job starts
  ASSERT_TRUE(controller.set_tenant(admin, "vision", {}).ok());
  JobDocument document = toy(3);
  document.max_devices = document.logical_workers = 2;
  const Caller token{.tenant = "vision"};
  const Result<JobRecord> homeless = controller.submit(token, document, "");
  ASSERT_FALSE(homeless.ok());
  EXPECT_NE(homeless.error().message.find("rubato tenants set vision --user"), std::string::npos);
  ASSERT_TRUE(controller.set_tenant(admin, "vision", {.user = "64001"}).ok());
  ASSERT_TRUE(controller.set_tenant(admin, "vision", {.weight = 2}).ok());  // keeps the user
  ASSERT_TRUE(controller.set_tenant(admin, "speech", {}).ok());
  EXPECT_FALSE(controller.set_tenant(admin, "speech", {.user = "64001"}).ok()) << "taken";
  EXPECT_FALSE(controller.set_tenant(admin, "speech", {.user = "0"}).ok());
  EXPECT_FALSE(controller.set_tenant(token, "vision", {.user = "64002"}).ok());
  const Result<JobRecord> accepted = controller.submit(token, document, "");
  ASSERT_TRUE(accepted.ok()) << accepted.error().message;
  EXPECT_EQ(accepted->document.user, "64001");
  const std::optional<Caller> local = controller.local_caller(kAlice);
  ASSERT_TRUE(local.has_value());
  EXPECT_EQ(local->tenant, "vision");
  EXPECT_FALSE(local->admin);
  EXPECT_FALSE(controller.local_caller(kBob).has_value());
  EXPECT_TRUE(controller.local_caller(0)->admin);
  document.user = "64002";
  EXPECT_FALSE(controller.submit(*local, document, "").ok());
  EXPECT_TRUE(controller.submit(admin, document, "").ok()) << "an administrator may";
  // What bob cannot see is not there for him: the error does not tell more.
  ASSERT_TRUE(write_private_file(root_ + "/tool", "").ok());
  ASSERT_EQ(chmod((root_ + "/tool").c_str(), 0700), 0);
  document.run = {root_ + "/tool"};
  EXPECT_FALSE(controller.submit(admin, document, "").ok());
  document.memory_bytes = 1 << 30;
  const Result<JobRecord> limited = controller.submit(admin, document, "");
  ASSERT_FALSE(limited.ok());
  EXPECT_NE(limited.error().message.find("memory: this daemon cannot limit it"), std::string::npos);
  made->reset();
  EXPECT_EQ(read_as(kAlice, root_ + "/state/rubato.db"), "refused");
  EXPECT_EQ(read_as(kAlice, root_ + "/state/admin.token"), "refused");
}

TEST_F(IsolatedJobs, RightsAreOfOneThreadAndNest) {
  const std::string file = root_ + "/admin.token";
  const AsUser rights(kAlice, kAlice, {kAlice});
  EXPECT_FALSE(read_file(file).ok());
  bool other_thread = false;
  std::thread([&] { other_thread = read_file(file).ok(); }).join();
  // A new thread starts with the rights of its creator; one that exists keeps its own.
  EXPECT_FALSE(other_thread);
  {
    const AsUser itself = AsUser::daemon();
    EXPECT_TRUE(read_file(file).ok());
  }
  EXPECT_FALSE(read_file(file).ok());
}

TEST(IsolationChoice, RootMustSayWhoRunsJobs) {
  const Result<Isolation> chosen = choose_isolation("");
  if (geteuid() != 0) {
    ASSERT_TRUE(chosen.ok());
    EXPECT_FALSE(chosen->users);
    EXPECT_FALSE(choose_isolation("user").ok());
    return;
  }
  ASSERT_FALSE(chosen.ok());
  EXPECT_NE(chosen.error().message.find("--isolation user"), std::string::npos);
  EXPECT_TRUE(choose_isolation("none").ok());
  EXPECT_TRUE(choose_isolation("user")->users);
  EXPECT_FALSE(choose_isolation("perhaps").ok());
}

}  // namespace
}  // namespace rubato::control
