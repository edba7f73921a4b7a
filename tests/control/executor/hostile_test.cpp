// A job that writes hostile bytes into every file it can reach, in a real controller beside a
// healthy job: the daemon lives, its loop goes on, it does not grow, it starts again with the files
// in place, and the healthy job finishes with its bits.
//
// The hostile job is a program that only sleeps; the test writes into its folder. RUBATO_HOSTILE
// says how many variants to write (make fuzz: 10,000), RUBATO_SEED which one is the first.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "control/controller.h"
#include "control/executor/executor_fixture.h"
#include "control/hostile_bytes.h"
#include "control/job_errors.h"
#include "control/supervise.h"
#include "elastic/shared_memory.h"

namespace rubato::control {
namespace {

constexpr double kLongestTurn = 10;  // seconds, on a machine that does much else; 0.1 is promised
constexpr std::int64_t kMostGrowth = 64 << 20;  // bytes of resident memory
constexpr std::uint64_t kVariantsAtOnce = 5;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

class Hostile : public ExecutorTest {
 protected:
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
    auto made = Controller::start(
        {.folder = root_ + "/state", .supervisor = options_.supervisor, .machine = {.devices = 3}});
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
  void append(JobNumber number, const std::string& text) const {
    std::ofstream(folder(number) + "/events.jsonl", std::ios::app) << text;
  }

  static inline const Caller kAdmin{.tenant = "", .admin = true};
  std::unique_ptr<Controller> controller_;
};

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

// Everything at once, many times.
TEST_F(Hostile, FilesHurtNobody) {
  const std::uint64_t first = number_from("RUBATO_SEED", 1);
  const std::uint64_t variants = number_from("RUBATO_HOSTILE", 300);
  std::printf("variants %llu to %llu (RUBATO_SEED, RUBATO_HOSTILE)\n",
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + variants - 1));
  const std::string steps = "3000";
  const std::string toy_program = test_paths::program("toy_train");
  const JobNumber reference = submit({toy_program, "--steps", steps, "--compute-us", "0"}, "1");
  ASSERT_TRUE(wait([&] { return job(reference).phase == Phase::kFinished; }));
  const JobNumber healthy = submit({toy_program, "--steps", steps, "--compute-us", "50000"}, "2");
  ASSERT_TRUE(wait([&] { return !job(healthy).progress.empty(); }));
  JobNumber hostile = submit_sleeper();
  std::ofstream(root_ + "/elsewhere") << "the file of somebody else\n";
  const std::int64_t resident = resident_bytes();
  std::int64_t most_resident = resident;
  double longest_turn = 0;
  int jobs = 1;
  int restarts = 0;
  static constexpr const char* kFiles[] = {
      "events.jsonl",      "events.jsonl",      "events.jsonl",       "status.json",
      "status.json",       "result.json",       "job.json",           "secret",
      "supervise.json",    "supervisor.log",    "registry/view.1",    "registry/view.2",
      "registry/target.2", "logs/worker-0.log", "logs/worker-7.log.1"};
  static constexpr const char* kRareFiles[] = {"registry", "logs", "supervisor.lock",
                                               "workers.lock", "registry/target.1"};
  for (std::uint64_t variant = first; variant < first + variants;) {
    SCOPED_TRACE(fmt::format("repeat with RUBATO_SEED={}", variant));
    std::vector<std::string> placed;
    for (std::uint64_t i = 0; i < kVariantsAtOnce && variant < first + variants; ++i, ++variant) {
      Random random(variant);
      const std::string name = random.below(25) == 0
                                   ? kRareFiles[random.below(std::size(kRareFiles))]
                                   : kFiles[random.below(std::size(kFiles))];
      placed.push_back(folder(hostile) + "/" + name);
      place_hostile(placed.back(), root_ + "/elsewhere", random);
    }
    // Another writer at the same time: the file shrinks and grows while it is read.
    std::atomic<bool> enough{false};
    std::thread writer([&, seed = variant] {
      Random random(seed);
      const std::string path = folder(hostile) + "/events.jsonl";
      while (!enough) {
        static_cast<void>(truncate(path.c_str(), random.below(5000)) + 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    pass_turns();
    enough = true;
    writer.join();
    EXPECT_TRUE(controller_->why(kAdmin, hostile).ok());
    EXPECT_TRUE(controller_->log_files(kAdmin, hostile).ok());
    most_resident = std::max(most_resident, resident_bytes());
    const bool start_again = variant % 97 < kVariantsAtOnce;
    if (start_again) {  // with the files in place
      longest_turn = std::max(longest_turn, controller_->metrics().longest_turn_s);
      restart();
      ASSERT_FALSE(HasFatalFailure());
      ++restarts;
      pass_turns();
    }
    for (const std::string& path : placed) remove_anything(path);
    std::error_code ignored;
    std::filesystem::create_directories(folder(hostile) + "/registry", ignored);
    std::filesystem::create_directories(folder(hostile) + "/logs", ignored);
    if (over(hostile) || variant % 200 < kVariantsAtOnce) {
      static_cast<void>(controller_->cancel(kAdmin, hostile));
      ASSERT_TRUE(wait([&] { return job(hostile).held == 0; })) << job(hostile).message;
      hostile = submit_sleeper();
      ++jobs;
    }
    ASSERT_FALSE(HasFailure());
  }
  longest_turn = std::max(longest_turn, controller_->metrics().longest_turn_s);
  hurry();
  ASSERT_TRUE(wait([&] { return over(healthy); }));
  EXPECT_EQ(job(healthy).phase, Phase::kFinished) << job(healthy).message;
  EXPECT_EQ(job(healthy).result["state_sha256"], job(reference).result["state_sha256"]);
  EXPECT_EQ(job(healthy).restarts, 0);
  EXPECT_TRUE(job(healthy).errors.empty()) << job(healthy).errors;
  const std::int64_t growth = most_resident - resident;
  std::printf(
      "%llu variants in %d jobs, %d restarts of the daemon; longest turn of the loop %.1f ms; "
      "resident memory grew by %.1f MiB; %lld events\n",
      static_cast<unsigned long long>(variants), jobs, restarts, longest_turn * 1000,
      static_cast<double>(growth) / (1 << 20),
      static_cast<long long>(controller_->metrics().events));
  EXPECT_LT(longest_turn, kLongestTurn);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(growth, kMostGrowth);
#endif
}

}  // namespace
}  // namespace rubato::control
