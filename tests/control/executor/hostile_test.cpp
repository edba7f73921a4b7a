// What a job writes into its files hurts nobody, case by case.
#include "control/executor/hostile_fixture.h"
#include "control/job_errors.h"

namespace rubato::control {
namespace {

// This line killed the daemon, and the next one at its start.
TEST_F(Hostile, OneLineDoesNotKillTheDaemon) {
  const JobNumber number = submit_sleeper();
  const std::string file = folder(number) + "/events.jsonl";
  const auto before = is_file(file) ? std::filesystem::file_size(file) : 0;
  append(number, "{\"type\":\"view\",\"cause\":5,\"workers\":1,\"view\":1}\n");
  append(number, "{\"type\":\"warning\",\"message\":\"a sound line\"}\n");
  ASSERT_TRUE(
      wait([&] { return has_error(number, "events") && !events(number, "warning").empty(); }));
  const auto errors = events(number, "error");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0]["place"], fmt::format("events.jsonl, byte {}", before));
  EXPECT_EQ(errors[0]["message"],
            "view: `cause` is 5; expected text of at most 200 bytes; such lines are skipped");
  EXPECT_NE((*controller_->why(kAdmin, number))["text"].get<std::string>().find("`cause` is 5"),
            std::string::npos);
  append(number, "{\"type\":\"view\",\"cause\":5,\"workers\":1,\"view\":1}\n");
  restart();
  pass_turns();
  EXPECT_EQ(events(number, "error").size(), 1u) << "told once per job and kind";
  EXPECT_EQ(events(number, "warning").size(), 1u);
}

// Retried 40 times a second for ever.
TEST_F(Hostile, AResultThatCannotBeRecordedFailsTheJob) {
  const std::string results[] = {
      "{\"blob\":\"" + std::string(2 << 20, 'x') + "\"}",
      "{\"deep\":" + std::string(60, '[') + std::string(60, ']') + "}",
      "{\"steps\":\"many\"}",
      "no JSON",
  };
  for (const std::string& result : results) {
    const JobNumber number = submit_sleeper();
    std::ofstream(folder(number) + "/result.json") << result;
    signal_its_supervisor(number, SIGKILL);  // its workers die with it
    ASSERT_TRUE(wait([&] { return over(number); }));
    EXPECT_EQ(job(number).phase, Phase::kFailed);
    EXPECT_TRUE(job(number).message.starts_with("it ended with a result that cannot be read: "))
        << job(number).message;
    EXPECT_TRUE(has_error(number, "result"));
  }
}

TEST_F(Hostile, AJobWithABrokenRegistryCanBeEnded) {
  const JobNumber number = submit_sleeper();
  signal_its_supervisor(number, SIGSTOP);  // it would notice by itself
  std::ofstream(folder(number) + "/registry/target.2") << "garbage";
  ASSERT_TRUE(controller_->cancel(kAdmin, number).ok());
  ASSERT_TRUE(wait([&] { return job(number).held == 0; }));
  EXPECT_EQ(job(number).phase, Phase::kCancelled);
  EXPECT_TRUE(has_error(number, "registry"));
}

// The daemon counted such jobs as holding nothing, and forgot their processes for ever.
TEST_F(Hostile, AJobThatDestroysItsTracesWhileNoDaemonRunsIsEnded) {
  const std::vector<std::vector<std::string>> traces{
      {"registry"},
      {"registry", "status.json"},
      {"supervise.json", "supervisor.lock", "workers.lock"}};
  for (const std::vector<std::string>& names : traces) {
    const JobNumber number = submit_sleeper();
    ASSERT_TRUE(wait([&] { return supervisors(root_).size() == 1; }));
    const std::vector<pid_t> before = supervisors(root_);
    controller_.reset();
    for (const std::string& name : names) {
      std::filesystem::remove_all(folder(number) + "/" + name);
    }
    if (names.size() == 1) std::ofstream(folder(number) + "/registry") << "no folder";
    if (names.size() == 2) std::filesystem::create_directory(folder(number) + "/registry");
    start();
    // The launcher may have repaired them, and goes on then.
    EXPECT_TRUE(!supervises(before.front()) || job(number).held == 1)
        << "it runs beside whatever gets its device";
    ASSERT_TRUE(controller_->cancel(kAdmin, number).ok());
    ASSERT_TRUE(wait([&] { return job(number).held == 0 && supervisors(root_).empty(); }));
  }
}

TEST_F(Hostile, AJobThatSaysItHoldsNothingHoldsItsDevice) {
  const JobNumber number = submit_sleeper();
  ASSERT_TRUE(wait([&] { return supervisors(root_).size() == 1; }));
  const std::vector<pid_t> before = supervisors(root_);
  kill(before.front(), SIGSTOP);  // it would write the truth again
  std::ofstream(folder(number) + "/lie")
      << R"({"state": "running", "target": 1, "devices": [], "workers": []})";
  std::filesystem::rename(folder(number) + "/lie", folder(number) + "/status.json");
  pass_turns();
  EXPECT_EQ(job(number).held, 1);
  restart();
  EXPECT_TRUE(!supervises(before.front()) || job(number).held == 1);
  EXPECT_TRUE(wait([&] { return job(number).held == 1; })) << "it starts again";
}

TEST_F(Hostile, LinesWithoutEndDoNotGrowTheLog) {
  const JobNumber number = submit_sleeper();
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "{\"type\":\"warning\",\"message\":\"more\"}\n";
  const auto began = std::chrono::steady_clock::now();
  append(number, lines);
  ASSERT_TRUE(wait([&] { return has_error(number, "too-many-events"); }));
  append(number, "{\"type\":\"view\"}\n");  // is reached when everything before was read
  ASSERT_TRUE(wait([&] { return has_error(number, "events"); }));
  const double passed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  EXPECT_LE(static_cast<double>(events(number, "warning").size()),
            LineBudget::kLineBurst + passed * LineBudget::kLinesPerSecond + 1);
  ASSERT_TRUE(controller_->cancel(kAdmin, number).ok());
  // How many were dropped is known when the job is over.
  ASSERT_TRUE(wait([&] {
    const nlohmann::json errors = job(number).errors;
    return errors["too-many-events"]["count"].get<std::int64_t>() > 90'000;
  }));
  EXPECT_LE(events(number, "error").size(), 4u);
}

}  // namespace
}  // namespace rubato::control
