// A real controller with jobs into whose folders the tests write.
#pragma once

#include <fstream>

#include "control/controller.h"
#include "control/executor/executor_fixture.h"

namespace rubato::control {

class Hostile : public ExecutorTest {
 protected:
  static constexpr int kDevices = 6;

  void SetUp() override {
    ExecutorTest::SetUp();
    start();
  }
  void TearDown() override {
    if (controller_) {
      for (const JobRecord& job : controller_->jobs(kAdmin, true, 0, 1000)) {
        static_cast<void>(controller_->cancel(kAdmin, job.number));
      }
      EXPECT_TRUE(wait([&] { return controller_->cluster(kAdmin)["held"] == 0; }));
    }
    controller_.reset();
    ExecutorTest::TearDown();
  }
  void start() {
    auto made = Controller::start({.folder = root_ + "/state",
                                   .supervisor = options_.supervisor,
                                   .machine = {.devices = kDevices}});
    ASSERT_TRUE(made.ok()) << made.error().message;
    controller_ = std::move(*made);
  }
  void restart() {
    controller_.reset();
    start();
  }
  static bool wait(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  JobNumber submit(const std::vector<std::string>& run, const std::string& devices) {
    nlohmann::json json = {{"run", run}, {"devices", devices}, {"env", nlohmann::json::object()}};
    json["env"]["TOY_HURRY_FILE"] = hurry_file();
    const Result<JobDocument> parsed = parse_job_json(json);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    const Result<JobRecord> record = controller_->submit(kAdmin, *parsed, "");
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record->number;
  }
  JobNumber submit_sleeper() {
    const JobNumber number = submit({"/bin/sleep", "100000"}, "1");
    // Its launcher writes the status when it has started the program.
    EXPECT_TRUE(wait([&] {
      return job(number).held == 1 && is_file(folder(number) + "/status.json");
    })) << job(number).message;
    return number;
  }
  JobRecord job(JobNumber number) const { return *controller_->job(kAdmin, number); }
  bool over(JobNumber number) const { return ended(job(number).phase); }
  std::string folder(JobNumber number) const {
    return fmt::format("{}/state/jobs/{}", root_, number);
  }
  // Waits until the loop has looked at everything twice.
  void pass_turns() const {
    const std::int64_t before = controller_->metrics().turns;
    EXPECT_TRUE(wait([&] { return controller_->metrics().turns >= before + 2; }));
  }
  std::vector<nlohmann::json> events(JobNumber number, const std::string& type) const {
    std::vector<nlohmann::json> found;
    const auto all = controller_->events(kAdmin, 0, number, 100'000, 0);
    for (const Event& event : *all) {
      if (event.type == type) found.push_back(event.body);
    }
    return found;
  }
  bool has_error(JobNumber number, const std::string& kind) const {
    return job(number).errors.contains(kind);
  }
  void signal_its_supervisor(JobNumber number, int signal) const {
    const Result<std::string> text = read_file(folder(number) + "/supervisor.lock");
    const pid_t pid = text.ok() ? static_cast<pid_t>(std::atoi(text->c_str())) : 0;
    ASSERT_GT(pid, 1);
    kill(pid, signal);
  }
  bool supervises(pid_t pid) const {  // a zombie does not
    const std::vector<pid_t> all = supervisors(root_);
    return std::find(all.begin(), all.end(), pid) != all.end();
  }
  void append(JobNumber number, const std::string& text) const {
    std::ofstream(folder(number) + "/events.jsonl", std::ios::app) << text;
  }

  static inline const Caller kAdmin{.tenant = "", .admin = true};
  std::unique_ptr<Controller> controller_;
};

}  // namespace rubato::control
