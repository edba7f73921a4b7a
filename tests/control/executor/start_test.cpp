// The daemon always starts: with fewer devices, with others, after somebody set the clock, and with
// another database than the job folders belong to. A controller with real jobs.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "control/executor/controller_fixture.h"

namespace rubato::control {
namespace {

namespace fs = std::filesystem;

class StartTest : public ControlledTest {
 protected:
  // Starts the daemon (again). Its jobs keep running in between.
  void start(int devices, const std::string& type = "toy") {
    ControlledTest::start({.type = type, .devices = devices});
  }

  JobNumber submit(const std::string& devices, std::int64_t steps = 1'000'000,
                   const nlohmann::json& more = nlohmann::json::object()) {
    nlohmann::json json = to_json(toy(static_cast<int>(steps)));
    json["devices"] = devices;
    json.erase("logical_workers");
    json.update(more);
    const Result<JobDocument> parsed = parse_job_json(json);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    const Result<JobRecord> record = controller_->submit(kAdmin, *parsed, "");
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record.ok() ? record->number : 0;
  }
  bool holds(JobNumber number, int devices) {
    return wait([&] { return job(number).held == devices && job(number).granted == devices; });
  }
  std::vector<Event> events() const { return *controller_->events(kAdmin, 0, 0, 100'000, 0); }
  int count(const std::string& type) const {
    int found = 0;
    for (const Event& event : events()) found += event.type == type ? 1 : 0;
    return found;
  }
};

// It did not start at all, and nobody could cancel the job.
TEST_F(StartTest, AJobThatNoLongerFitsWaitsAndRunsWhenDevicesAreBack) {
  start(4);
  const JobNumber rigid = submit("3");
  const JobNumber elastic = submit("1..4");
  ASSERT_TRUE(holds(rigid, 3));
  start(2);
  ASSERT_TRUE(wait([&] { return job(rigid).held == 0 && job(rigid).granted == 0; }));
  EXPECT_EQ(job(rigid).phase, Phase::kQueued);
  EXPECT_EQ(why(rigid)["text"], "needs 3 devices, this machine has 2 since its restart");
  EXPECT_EQ(why(rigid)["code"], "does-not-fit");
  ASSERT_TRUE(wait([&] { return job(rigid).reason == "does-not-fit"; })) << "shown by queue";
  // Its neighbour gets what there is.
  ASSERT_TRUE(holds(elastic, 2));
  // Commands about it work.
  EXPECT_TRUE(controller_->change(kAdmin, rigid, {{"priority", 5}}).ok());
  EXPECT_FALSE(controller_->scale(kAdmin, rigid, 3).ok());
  ASSERT_TRUE(controller_->pause(kAdmin, rigid).ok());
  ASSERT_TRUE(controller_->resume(kAdmin, rigid).ok()) << "durable and waiting";
  EXPECT_EQ(job(rigid).phase, Phase::kQueued);
  const JobNumber other = submit("2");
  ASSERT_TRUE(controller_->cancel(kAdmin, other).ok());
  start(2);
  EXPECT_EQ(why(rigid)["code"], "does-not-fit") << "after one more start";
  ASSERT_TRUE(controller_->cancel(kAdmin, elastic).ok());
  start(4);
  ASSERT_TRUE(holds(rigid, 3)) << why(rigid)["text"];
}

TEST_F(StartTest, ARunningJobLeavesDevicesThatAreGone) {
  start(4);
  const JobNumber elastic = submit("1..4", 1'000'000);
  ASSERT_TRUE(holds(elastic, 4));
  start(2);
  ASSERT_TRUE(holds(elastic, 2));
  for (const LiveProcess& worker : live_workers(root_)) {
    EXPECT_TRUE(worker.device.empty() || worker.device == "0" || worker.device == "1")
        << worker.device;
  }
  EXPECT_EQ(job(elastic).phase, Phase::kRunning);
  ASSERT_TRUE(controller_->cancel(kAdmin, elastic).ok());
  ASSERT_TRUE(wait([&] { return job(elastic).held == 0; }));
  EXPECT_EQ(job(elastic).phase, Phase::kCancelled);
}

TEST_F(StartTest, AJobOfAnotherDeviceTypeWaits) {
  start(2, "a100");
  const JobNumber typed = submit("1", 1'000'000, {{"device_type", "a100"}});
  ASSERT_TRUE(holds(typed, 1));
  start(2, "toy");
  ASSERT_TRUE(wait([&] { return job(typed).held == 0; }));
  EXPECT_EQ(why(typed)["text"],
            "needs devices of type 'a100', this machine has 'toy' since its restart");
  start(2, "a100");
  ASSERT_TRUE(holds(typed, 1));
}

// A clock set back stopped all decisions and made device time negative.
TEST_F(StartTest, AClockThatIsSetChangesNothing) {
  std::atomic<double> step = 0;
  time_.wall = [real = computer_time().wall, &step] { return real() + step; };
  start(2);
  const JobNumber first = submit("1");
  ASSERT_TRUE(holds(first, 1));
  double last = 0;
  for (const double change : {-3600.0, 3600.0, -3600.0}) {
    step = step + change;
    const JobNumber next = submit("1");
    ASSERT_TRUE(holds(next, 1)) << "decisions go on after a step of " << change;
    ASSERT_TRUE(controller_->cancel(kAdmin, next).ok());
    ASSERT_TRUE(wait([&] { return job(next).held == 0; }));
    EXPECT_GE(job(next).device_s, 0);
    EXPECT_LT(job(next).device_s, 1800);
    EXPECT_GE(job(first).device_s, last);
    EXPECT_LT(job(first).device_s, 1800);
    EXPECT_EQ(job(first).stalled_since, 0);
    last = job(first).device_s;
  }
  // A start after the clock was set back.
  start(2);
  const JobNumber after = submit("1");
  ASSERT_TRUE(holds(after, 1));
  double before = 0;
  for (const Event& event : events()) {
    EXPECT_GE(event.at, before) << event.type << " " << event.seq;
    before = event.at;
  }
  time_ = computer_time();
  controller_.reset();
}

// A clock that was set forward while no daemon ran ended jobs with a time limit.
TEST_F(StartTest, ATimeLimitIsCountedByAClockThatNobodySets) {
  constexpr double kDay = 86'400;
  std::atomic<double> step = 0;
  std::atomic<double> passed = 0;
  time_.wall = [real = computer_time().wall, &step] { return real() + step; };
  time_.elapsed = [real = computer_time().elapsed, &passed] { return real() + passed; };
  start(2);
  const JobNumber limited = submit("1", 1'000'000, {{"time_limit", "12h"}});
  ASSERT_TRUE(holds(limited, 1));
  for (const double change : {kDay, -3 * kDay, 30 * kDay}) {
    step = step + change;
    start(2);
    // Somebody looked at it, so that its limit was checked by the new daemon.
    const std::int64_t turns = controller_->metrics().turns;
    ASSERT_TRUE(wait([&] { return controller_->metrics().turns > turns + 50; }));
    EXPECT_EQ(job(limited).phase, Phase::kRunning) << "a step of " << change << " s";
    EXPECT_LT(job(limited).held_s, kDay / 4);
  }
  passed = kDay / 2;
  ASSERT_TRUE(wait([&] { return job(limited).phase == Phase::kFailed; }));
  EXPECT_NE(job(limited).message.find("its time limit is over"), std::string::npos);
  ASSERT_TRUE(wait([&] { return job(limited).held == 0; }));
  time_ = computer_time();
  controller_.reset();
}

// New jobs inherited results, logs and checkpoints of old ones that had had their numbers.
TEST_F(StartTest, ARestoredDatabaseNeverUsesFoldersOfAnotherHistory) {
  start(2);
  const JobNumber kept = submit("1");
  ASSERT_TRUE(holds(kept, 1));
  controller_.reset();
  ASSERT_EQ(
      std::system(
          fmt::format("mkdir {0}/backup && cp {0}/state/rubato.db* {0}/backup", root_).c_str()),
      0);
  // The newer history: one job finishes, one runs on while the database is replaced.
  start(2);
  const JobNumber lost = submit("1", 10);
  ASSERT_TRUE(wait([&] { return job(lost).phase == Phase::kFinished; }));
  const JobNumber orphan = submit("1");
  ASSERT_TRUE(holds(orphan, 1));
  controller_.reset();
  ASSERT_EQ(std::system(
                fmt::format("rm {0}/state/rubato.db* && cp {0}/backup/* {0}/state", root_).c_str()),
            0);
  start(2);
  EXPECT_EQ(count("set_aside"), 2);
  EXPECT_EQ(count("renumbered"), 1);
  ASSERT_TRUE(holds(kept, 1)) << "it goes on in its own folder";
  EXPECT_FALSE(controller_->job(kAdmin, lost).ok());
  EXPECT_EQ(live_workers(root_).size(), 1U) << "the orphan holds no device";
  const JobNumber fresh = submit("1", 1'000'000);
  EXPECT_GT(fresh, orphan) << "numbers are never used twice";
  ASSERT_TRUE(holds(fresh, 1));
  EXPECT_EQ(job(fresh).phase, Phase::kRunning);
  EXPECT_TRUE(job(fresh).result.empty());
  EXPECT_FALSE(fs::exists(state() + fmt::format("/jobs/{}", lost)));
  // Emptied: the folders stay, under other names, and no number comes back.
  controller_.reset();
  ASSERT_EQ(std::system(fmt::format("rm {0}/state/rubato.db*", root_).c_str()), 0);
  start(2);
  EXPECT_TRUE(controller_->jobs(kAdmin, false, 0, 10).empty());
  ASSERT_TRUE(wait([&] { return live_processes(root_).empty(); })) << "nobody owns them";
  const JobNumber first = submit("1", 1'000'000);
  EXPECT_GT(first, fresh);
  ASSERT_TRUE(holds(first, 1));
  EXPECT_TRUE(job(first).result.empty());
}

// Even where a folder of that very number appears: it belongs to another submission.
TEST_F(StartTest, AFolderOfTheSameNumberIsMovedAside) {
  start(1);
  const JobNumber blocked = submit("1");
  ASSERT_TRUE(holds(blocked, 1));
  ASSERT_TRUE(controller_->pause(kAdmin, blocked).ok());
  ASSERT_TRUE(wait([&] { return job(blocked).held == 0; }));
  controller_.reset();
  const std::string folder = state() + fmt::format("/jobs/{}", blocked);
  ASSERT_TRUE(write_file(folder + "/owner", "another-store another-job\n").ok());
  ASSERT_TRUE(write_file(folder + "/result.json", "{\"state_sha256\": \"foreign\"}").ok());
  start(1);
  EXPECT_EQ(count("set_aside"), 1);
  ASSERT_TRUE(controller_->resume(kAdmin, blocked).ok());
  ASSERT_TRUE(holds(blocked, 1)) << "from its beginning, in a folder of its own";
  EXPECT_FALSE(fs::exists(folder + "/result.json"));
  EXPECT_TRUE(controller_->log_files(kAdmin, blocked).ok());
}

TEST_F(StartTest, TheLogSaysWhoGaveACommand) {
  start(1);
  const JobNumber number = submit("1");
  ASSERT_TRUE(
      controller_->cancel({.tenant = "default", .admin = false, .address = "10.1.2.3"}, number)
          .ok());
  bool found = false;
  for (const Event& event : events()) {
    if (event.type != "cancelled") continue;
    found = true;
    EXPECT_EQ(event.by, "tenant default");
    EXPECT_EQ(event.from, "10.1.2.3");
  }
  EXPECT_TRUE(found);
  const auto own = controller_->events({.tenant = "default"}, 0, 0, 1000, 0);
  for (const Event& event : *own) {
    EXPECT_EQ(event.by + event.from, "") << "only for administrators";
  }
}

}  // namespace
}  // namespace rubato::control
