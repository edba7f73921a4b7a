// A process with an executor is killed with SIGKILL at random moments, also in the middle of its
// calls, while jobs are resized, stopped, resumed and killed. Whatever the moment, the next
// executor finds the jobs again, no job has two supervisors, no device has two processes, all jobs
// finish with the bits of an undisturbed run, and every line that their runtime wrote is reported
// once.
#include <fcntl.h>
#include <sys/wait.h>

#include <fstream>

#include "base/json_text.h"
#include "base/random.h"
#include "control/executor/executor_fixture.h"

namespace rubato::control {
namespace {

class DaemonDeath : public ExecutorTest {
 protected:
  static constexpr JobNumber kJobs = 3;

  std::string wants_file() const { return root_ + "/wants.json"; }
  std::string outcomes_file() const { return root_ + "/outcomes.jsonl"; }
  std::string lines_file() const { return root_ + "/lines.jsonl"; }
  std::string events_file(JobNumber job) const {
    return fmt::format("{}/{}/events.jsonl", options_.folder, job);
  }

  std::vector<nlohmann::json> outcomes() const { return objects_in(outcomes_file()); }
  static std::vector<nlohmann::json> objects_in(const std::string& path) {
    std::vector<nlohmann::json> found;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      nlohmann::json value = parse_json(line);
      if (value.is_object()) found.push_back(std::move(value));
    }
    return found;
  }
  bool has_ended(JobNumber job) const {
    for (const nlohmann::json& outcome : outcomes()) {
      if (outcome.value("job", 0) == job) return true;
    }
    return false;
  }
  // The lines of a job's runtime that were reported to daemons.
  std::vector<nlohmann::json> told_lines(JobNumber job) const {
    std::vector<nlohmann::json> lines;
    for (const nlohmann::json& line : objects_in(lines_file())) {
      if (line.value("job", 0) == job) lines.push_back(line["line"]);
    }
    return lines;
  }
  std::map<JobNumber, int> read_wants() const {
    const Result<std::string> text = read_file(wants_file());
    const nlohmann::json value = parse_json(text.ok() ? *text : "[]");
    std::map<JobNumber, int> wants;
    for (JobNumber job = 1; job <= kJobs; ++job) {
      wants[job] = value.at(static_cast<std::size_t>(job - 1)).get<int>();
    }
    return wants;
  }

  // Acts like a daemon: adopts jobs, does what is recorded and records how jobs end. Never returns.
  [[noreturn]] void be_daemon(const JobDocument& document) {
    start_executor();
    std::map<JobNumber, int> wants = read_wants();
    std::set<JobNumber> over;
    for (const auto& [job, devices] : wants) {
      JobRecord record{.number = job, .document = document, .granted = devices};
      record.phase = devices > 0 ? Phase::kRunning : Phase::kPaused;
      if (has_ended(job)) {
        over.insert(job);
        record.phase = Phase::kFinished;
        record.granted = 0;
      }
      if (const auto lines = told_lines(job); !lines.empty()) {
        record.progress["events_offset"] = lines.back()["events_offset"];
      }
      if (!executor_->adopt(record).ok()) _exit(3);
    }
    for (;;) {
      for (const auto& [job, devices] : read_wants()) {
        if (over.contains(job) || wants[job] == devices) continue;
        wants[job] = devices;
        if (!executor_->want(job, document, here(devices), 0).ok()) _exit(4);
      }
      for (const Notice& notice : executor_->poll()) {
        if (notice.kind == Notice::Kind::kEvent) {
          const nlohmann::json line = {{"job", notice.job}, {"line", notice.body}};
          std::ofstream(lines_file(), std::ios::app) << compact_json(line) << std::endl;
        }
        const bool finished = notice.kind == Notice::Kind::kFinished;
        if (!finished && notice.kind != Notice::Kind::kFailed) continue;
        over.insert(notice.job);
        const nlohmann::json line = {
            {"job", notice.job}, {"finished", finished}, {"body", notice.body}};
        std::ofstream(outcomes_file(), std::ios::app) << compact_json(line) << std::endl;
      }
      if (executor_->held() > options_.machine.devices) _exit(5);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  pid_t start_daemon(const JobDocument& document) {
    const pid_t pid = fork();
    if (pid == 0) be_daemon(document);
    return pid;
  }

  // The live workers of a job have one supervisor, their parent, unless it has just died.
  void check_supervisors() const {
    const std::vector<pid_t> alive = supervisors(root_);
    std::map<std::string, std::set<pid_t>> parents;
    for (const LiveProcess& worker : live_workers(root_)) {
      const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", worker.pid));
      if (!stat.ok() || stat->rfind(')') == std::string::npos) continue;
      int parent = 0;
      char state = 0;
      std::sscanf(stat->c_str() + stat->rfind(')') + 1, " %c %d", &state, &parent);
      if (std::find(alive.begin(), alive.end(), parent) != alive.end()) {
        parents[worker.folder].insert(parent);
      }
    }
    for (const auto& [folder, pids] : parents) {
      EXPECT_EQ(pids.size(), 1u) << folder << " has two supervisors";
    }
  }

  // Picks a number of devices for each job, in total at most as many as the machine has.
  void want_at_random(Random& random) const {
    int left = options_.machine.devices;
    nlohmann::json wants = nlohmann::json::array();
    for (JobNumber job = 1; job <= kJobs; ++job) {
      const auto devices = random.between(0, left);
      left -= devices;
      wants.push_back(devices);
    }
    std::rotate(wants.begin(), wants.begin() + static_cast<int>(random.below(kJobs)), wants.end());
    ASSERT_TRUE(write_file(wants_file(), compact_json(wants)).ok());
  }

  void run(std::uint64_t seed, int deaths) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::printf("seed %lu\n", static_cast<unsigned long>(seed));
    Random random(seed);
    JobDocument document = toy(600, 4, 5000);
    document.checkpoint_every_s = 0.1;
    options_.most_restarts = 1000;
    options_.restart_after_s = 0.01;
    start_executor();
    const std::string expected = undisturbed(document);
    executor_.reset();
    want_at_random(random);
    for (int death = 0; death < deaths && !HasFailure(); ++death) {
      if (random.chance(0.5)) want_at_random(random);
      const pid_t daemon = start_daemon(document);
      // Half of the daemons die while they adopt and start jobs.
      const std::uint32_t longest = random.chance(0.5) ? 6'000 : 120'000;
      const auto end =
          std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(longest));
      while (std::chrono::steady_clock::now() < end) {
        check_processes();
        check_supervisors();
        if (random.below(40) == 0) want_at_random(random);
        const std::vector<LiveProcess> workers = live_workers(root_);
        if (!workers.empty() && random.below(60) == 0) {
          kill(workers[random.below(static_cast<std::uint32_t>(workers.size()))].pid, SIGKILL);
        }
        const std::vector<pid_t> bosses = supervisors(root_);
        if (!bosses.empty() && random.below(100) == 0) {
          kill(bosses[random.below(static_cast<std::uint32_t>(bosses.size()))], SIGKILL);
        }
      }
      kill(daemon, SIGKILL);
      int status = 0;
      waitpid(daemon, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "the daemon ended by itself: " << WEXITSTATUS(status);
    }
    ASSERT_TRUE(write_file(wants_file(), "[2,1,1]").ok());
    hurry();
    const pid_t daemon = start_daemon(document);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!(has_ended(1) && has_ended(2) && has_ended(3) && live_processes(root_).empty() &&
             supervisors(root_).empty()) &&
           std::chrono::steady_clock::now() < deadline && !HasFailure()) {
      check_processes();
      check_supervisors();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    kill(daemon, SIGKILL);
    waitpid(daemon, nullptr, 0);
    std::set<JobNumber> finished;
    for (const nlohmann::json& outcome : outcomes()) {
      EXPECT_TRUE(outcome.value("finished", false)) << outcome;
      EXPECT_EQ(outcome["body"].value("state_sha256", ""), expected) << outcome;
      finished.insert(outcome.value("job", 0));
    }
    EXPECT_EQ(finished.size(), 3u) << "some jobs have not finished";
    for (JobNumber job = 1; job <= kJobs; ++job) {
      std::vector<nlohmann::json> told = told_lines(job);
      for (nlohmann::json& line : told) line.erase("events_offset");
      const std::vector<nlohmann::json> written = objects_in(events_file(job));
      EXPECT_FALSE(written.empty());
      EXPECT_TRUE(told == written) << "job " << job << ": " << written.size()
                                   << " lines were written and " << told.size() << " reported";
    }
  }

  // Opaque jobs whose program always fails, and notes each of its runs.
  void run_counted(std::uint64_t seed, int deaths) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::printf("seed %lu\n", static_cast<unsigned long>(seed));
    Random random(seed);
    options_.restart_after_s = 0.02;
    JobDocument document;
    document.mode = ElasticMode::kRigid;
    document.program = elastic::ProgramKind::kOpaque;
    document.max_devices = 1;
    document.retries = 3;
    document.run = {
        "/bin/sh", "-c",
        fmt::format("echo $RUBATO_TRY >>{}/runs-$RUBATO_JOB_ID; sleep 0.0$RUBATO_TRY; exit 5",
                    root_)};
    ASSERT_TRUE(write_file(wants_file(), "[1,1,1]").ok());
    const auto all_ended = [&] { return has_ended(1) && has_ended(2) && has_ended(3); };
    for (int death = 0; death < deaths && !HasFailure() && !all_ended(); ++death) {
      const pid_t daemon = start_daemon(document);
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(40'000)));
      kill(daemon, SIGKILL);
      waitpid(daemon, nullptr, 0);
    }
    const pid_t daemon = start_daemon(document);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!(all_ended() && supervisors(root_).empty()) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    kill(daemon, SIGKILL);
    waitpid(daemon, nullptr, 0);
    for (JobNumber job = 1; job <= kJobs; ++job) {
      const Result<std::string> runs = read_file(fmt::format("{}/runs-j{}", root_, job));
      EXPECT_EQ(runs.ok() ? *runs : "", "1\n2\n3\n4\n") << job;
    }
    for (const nlohmann::json& outcome : outcomes()) {
      EXPECT_EQ(outcome["body"].value("message", ""), "the program ended with code 5 (try 4 of 4)");
    }
    EXPECT_GE(outcomes().size(), 3u);
  }

  static std::uint64_t seed() {
    const char* given = std::getenv("RUBATO_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  }
};

TEST_F(DaemonDeath, AtFiftyRandomMomentsLosesNothing) { run(seed(), 50); }

TEST_F(DaemonDeath, AtRandomMomentsRunsNoOrdinaryProgramTwice) { run_counted(seed(), 50); }

}  // namespace
}  // namespace rubato::control
