// Ended jobs under a live controller: they leave the memory and are still found; they are removed
// by their owners, or by the retention.
#include <gtest/gtest.h>

#include <filesystem>

#include "control/controller.h"
#include "control/executor/executor_fixture.h"

namespace rubato::control {
namespace {

namespace fs = std::filesystem;

class EndedJobs : public ExecutorTest {
 protected:
  void TearDown() override {
    for (const JobRecord& job : controller_->jobs(kAdmin, true, 0, 100)) {
      EXPECT_TRUE(controller_->cancel(kAdmin, job.number).ok());
    }
    EXPECT_TRUE(wait([&] { return controller_->cluster(kAdmin)["held"] == 0; }));
    controller_.reset();
    ExecutorTest::TearDown();
  }

  void start(const Retention& retention = {}) {
    controller_.reset();
    auto made = Controller::start({.folder = state(),
                                   .supervisor = options_.supervisor,
                                   .machine = {.type = "toy", .devices = 2},
                                   .retention = retention});
    ASSERT_TRUE(made.ok()) << made.error().message;
    controller_ = std::move(*made);
  }
  std::string state() const { return root_ + "/state"; }
  std::string folder(JobNumber job) const { return state() + "/jobs/" + std::to_string(job); }

  Result<JobRecord> submit(const Caller& caller, const std::string& name, int steps,
                           const std::string& key = "") {
    nlohmann::json json = to_json(toy(steps));
    json["name"] = name;
    json["devices"] = 1;
    json.erase("logical_workers");
    const Result<JobDocument> parsed = parse_job_json(json);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return controller_->submit(caller, *parsed, key);
  }
  // Until its processes are gone as well.
  bool is_over(JobNumber job) {
    return wait([&] { return at_rest(*controller_->job(kAdmin, job)); });
  }
  static bool wait(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  static inline const Caller kAdmin{.tenant = "", .admin = true, .address = "test"};
  static inline const Caller kRed{.tenant = "red", .admin = false, .address = "test"};
  static inline const Caller kBlue{.tenant = "blue", .admin = false, .address = "test"};
  std::unique_ptr<Controller> controller_;
};

TEST_F(EndedJobs, AreFoundAsBefore) {
  start();
  for (const char* name : {"red", "blue"}) {
    ASSERT_TRUE(controller_->set_tenant(kAdmin, name, {}).ok());
  }
  const JobNumber first = submit(kRed, "same", 20, "once")->number;
  const JobNumber second = submit(kRed, "same", 20)->number;
  const JobNumber other = submit(kBlue, "other", 20)->number;
  for (const JobNumber job : {first, second, other}) ASSERT_TRUE(is_over(job)) << job;
  for (int starts = 0; starts < 2; ++starts) {
    const Result<JobRecord> found = controller_->job(kRed, first);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->phase, Phase::kFinished);
    EXPECT_EQ(found->result["steps"], 20);
    EXPECT_GT(found->device_s, 0);
    EXPECT_FALSE(controller_->job(kBlue, first).ok());
    EXPECT_EQ(*controller_->find_job(kRed, "same"), second) << "the newest";
    EXPECT_EQ(*controller_->find_job(kRed, "1"), first);
    EXPECT_FALSE(controller_->find_job(kBlue, "same").ok());
    EXPECT_EQ(*controller_->find_job(kAdmin, "other"), other);
    EXPECT_EQ((*controller_->why(kRed, first))["code"], "finished");
    EXPECT_TRUE(controller_->profile(kRed, first).ok());
    EXPECT_FALSE(controller_->events(kRed, 0, first, 100, 0)->empty());
    EXPECT_TRUE(controller_->log_files(kRed, first).ok());
    EXPECT_EQ(controller_->jobs(kRed, false, 0, 10).size(), 2U);
    EXPECT_EQ(controller_->jobs(kAdmin, false, 0, 10).size(), 3U);
    EXPECT_TRUE(controller_->jobs(kAdmin, true, 0, 10).empty());
    EXPECT_EQ(controller_->metrics().jobs_by_phase["finished"], 3);
    const Result<JobRecord> again = submit(kRed, "same", 20, "once");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->number, first) << "its key is still valid";
    EXPECT_FALSE(controller_->cancel(kRed, first).ok());
    start();
  }
}

TEST_F(EndedJobs, AreRemovedByTheirOwner) {
  start();
  ASSERT_TRUE(controller_->set_tenant(kAdmin, "red", {}).ok());
  const JobNumber ended_job = submit(kRed, "done", 20, "key")->number;
  const JobNumber running = submit(kRed, "runs", 1'000'000)->number;
  ASSERT_TRUE(is_over(ended_job));
  ASSERT_TRUE(fs::exists(folder(ended_job)));
  const Status refused = controller_->remove(kRed, running);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("rubato cancel"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(controller_->remove(kBlue, ended_job).error().code, ErrorCode::kNotFound);
  const Status removed = controller_->remove(kRed, ended_job);
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_FALSE(controller_->job(kRed, ended_job).ok());
  EXPECT_FALSE(controller_->find_job(kRed, "done").ok());
  EXPECT_EQ(controller_->remove(kRed, ended_job).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(wait([&] {
    return !fs::exists(folder(ended_job)) && !fs::exists(folder(ended_job) + ".removed");
  }));
  bool recorded = false;
  const auto events = controller_->events(kAdmin, 0, 0, 100'000, 0);
  for (const Event& event : *events) {
    if (event.type != "removed") continue;
    recorded = event.job == ended_job && event.by == "tenant red" && event.from == "test";
  }
  EXPECT_TRUE(recorded) << "who and from where";
  // The submission cannot be repeated, and its number is not used again.
  EXPECT_EQ(submit(kRed, "done", 20, "key").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(submit(kRed, "next", 20)->number, running + 1);
  start();
  EXPECT_FALSE(controller_->job(kAdmin, ended_job).ok());
  EXPECT_EQ(controller_->job(kAdmin, running)->phase, Phase::kRunning);
}

TEST_F(EndedJobs, LoseTheirFoldersAndStayInTheList) {
  start({.folders = {.count = 1}, .events = {.count = 5}});
  std::vector<JobNumber> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(submit(kAdmin, "short", 20)->number);
    ASSERT_TRUE(is_over(jobs.back()));
  }
  start({.folders = {.count = 1}, .events = {.count = 5}});
  const JobNumber running = submit(kAdmin, "runs", 1'000'000)->number;
  ASSERT_TRUE(wait([&] { return controller_->job(kAdmin, running)->held == 1; }));
  ASSERT_TRUE(wait([&] {
    int there = 0;
    for (const auto& entry : fs::directory_iterator(state() + "/jobs")) {
      there += entry.is_directory() ? 1 : 0;
    }
    return there == 2;
  })) << "one ended job and the running one keep theirs";
  EXPECT_TRUE(fs::exists(folder(running)));
  EXPECT_TRUE(fs::exists(folder(jobs.back())));
  EXPECT_EQ(controller_->jobs(kAdmin, false, 0, 10).size(), 5U);
  EXPECT_EQ(controller_->job(kAdmin, jobs.front())->phase, Phase::kFinished);
  const auto logs = controller_->log_files(kAdmin, jobs.front());
  ASSERT_FALSE(logs.ok());
  EXPECT_NE(logs.error().message.find("--retain-folders"), std::string::npos);
  EXPECT_TRUE(controller_->log_files(kAdmin, jobs.back()).ok());
  ASSERT_TRUE(wait([&] { return controller_->events(kAdmin, 0, 0, 1000, 0)->front().seq > 10; }));
  const auto listed = controller_->list(kAdmin, {.newest_first = true, .limit = 2}, false);
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ(listed->front().number, running);
  ASSERT_TRUE(controller_->cancel(kAdmin, running).ok());
  ASSERT_TRUE(is_over(running));
  controller_.reset();
  const auto checked = Store::check(state());
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_EQ(checked->difference, "");
  EXPECT_GT(checked->folded, 10);
  start();
}

}  // namespace
}  // namespace rubato::control
