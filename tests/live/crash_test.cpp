// The daemon is killed fifty times at random moments while jobs (real models and a toy) are
// submitted, resized, paused, preempted by reservations and trained. Every acknowledged job
// finishes with the right bits, every line that its runtime wrote is in the log once, the log
// replays to the same state, and no process is left.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/json_text.h"
#include "base/random.h"
#include "live/live_daemon.h"
#include "live/live_jobs.h"
#include "live/live_processes.h"
#include "test_paths.h"

namespace rubato::live {

namespace {

constexpr int kCrashes = 50;
constexpr int kSlots = 4;

std::uint64_t chosen_seed() {
  const char* given = std::getenv("RUBATO_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

// The programs are short, so that jobs spend most of their time starting, resizing and stopping.
LiveProgram some_program(Random& random) {
  const std::string examples = test_paths::program("examples");
  const std::string seed = std::to_string(1 + random.below(2));
  switch (random.below(6)) {
    case 0:
      return {.run = {examples + "/train_mlp", "--steps", "150", "--seed", seed}};
    case 1:
      return {.run = {examples + "/train_cnn", "--steps", "24", "--seed", seed}};
    case 2:
      return {.run = {examples + "/train_lm", "--steps", "8", "--seed", seed}};
    default:
      return {.run = {test_paths::program("toy_train"), "--steps", "400", "--seed", seed,
                      "--compute-us", "2000"}};
  }
}

// The lines of a job's events.jsonl, and those of them that are in the log.
std::vector<std::string> written_lines(const std::string& state, control::JobNumber job) {
  std::vector<std::string> lines;
  std::ifstream file(fmt::format("{}/jobs/{}/events.jsonl", state, job));
  for (std::string line; std::getline(file, line);)
    lines.push_back(compact_json(parse_json_or_throw(line)));
  return lines;
}
std::map<control::JobNumber, std::vector<std::string>> logged_lines(
    const std::vector<control::Event>& events) {
  std::map<control::JobNumber, std::vector<std::string>> lines;
  for (const control::Event& event : events) {
    if (event.type != "view") continue;
    json body = event.body;
    body.erase("events_offset");
    lines[event.job].push_back(compact_json(body));
  }
  return lines;
}

TEST(Crash, FiftyCrashesOfTheDaemonLoseNothing) {
  const std::uint64_t seed = chosen_seed();
  SCOPED_TRACE(fmt::format("repeat with RUBATO_SEED={}", seed));
  Random random(seed);
  const std::string folder = testing::TempDir() + fmt::format("rubato-crash-{}", getpid());
  std::filesystem::create_directories(folder);
  Undisturbed undisturbed(test_paths::program("rubato"), folder,
                          test_paths::program("undisturbed"));
  LiveDaemon daemon(test_paths::program("rubatod"), folder + "/state", kSlots);
  std::map<std::string, LiveProgram> acknowledged;
  int next_key = 0;
  for (int crash = 0; crash < kCrashes; ++crash) {
    ASSERT_TRUE(daemon.start()) << "after " << crash << " crashes: " << daemon.log_file();
    const auto moment = std::chrono::steady_clock::now() +
                        std::chrono::duration<double>(0.02 + 1.2 * random.uniform());
    while (std::chrono::steady_clock::now() < moment) {
      const int what = static_cast<int>(random.below(10));
      const auto some_job = [&] {
        auto it = acknowledged.begin();
        std::advance(
            it, static_cast<long>(random.below(static_cast<std::uint32_t>(acknowledged.size()))));
        return it->first;
      };
      if (acknowledged.empty() || (what < 3 && acknowledged.size() < 24)) {
        const LiveProgram program = some_program(random);
        const auto job = daemon.post("/api/v1/jobs", document_of(program, kSlots),
                                     fmt::format("key-{}", next_key++));
        if (job) acknowledged[(*job)["id"].get<std::string>()] = program;
      } else if (what < 6) {
        static_cast<void>(daemon.post(fmt::format("/api/v1/jobs/{}/scale", some_job()),
                                      {{"devices", random.below(kSlots + 1)}}));
      } else if (what < 7) {
        static_cast<void>(
            daemon.post(fmt::format("/api/v1/jobs/{}/pause", some_job()), json::object()));
      } else if (what < 9) {
        static_cast<void>(
            daemon.post(fmt::format("/api/v1/jobs/{}/resume", some_job()), json::object()));
      } else {
        static_cast<void>(daemon.post("/api/v1/reservations",
                                      {{"devices", 1 + random.below(2)}, {"seconds", 0.2}}));
      }
    }
    daemon.crash();
  }
  ASSERT_TRUE(daemon.start());
  for (const auto& [id, program] : acknowledged) {
    static_cast<void>(daemon.post(fmt::format("/api/v1/jobs/{}/resume", id), json::object()));
    static_cast<void>(daemon.post(fmt::format("/api/v1/jobs/{}/scale", id), {{"devices", 0}}));
  }
  ASSERT_TRUE(wait_until([&] { return daemon.idle(); }, std::chrono::seconds(1000)))
      << indented_json(daemon.get("/api/v1/jobs?active=true").value_or(json()));
  int models = 0;
  std::vector<LiveProgram> programs;
  for (const auto& [id, program] : acknowledged) {
    programs.push_back(program);
    models += program.run.front() == test_paths::program("toy_train") ? 0 : 1;
  }
  undisturbed.compute(programs);
  for (const auto& [id, program] : acknowledged) {
    const auto job = daemon.get("/api/v1/jobs/" + id);
    ASSERT_TRUE(job) << id << " was acknowledged but is lost";
    EXPECT_EQ((*job)["phase"], "finished") << job->dump(1);
    EXPECT_EQ((*job)["result"].value("state_sha256", ""), undisturbed.hash(program)) << id;
  }
  const std::vector<control::Event> events = daemon.events();
  EXPECT_LE(control::history_of(events).most_held, kSlots);
  std::map<control::JobNumber, std::vector<std::string>> logged = logged_lines(events);
  for (const auto& [id, program] : acknowledged) {
    const control::JobNumber job = control::parse_job_number(id).value_or(0);
    EXPECT_EQ(logged[job], written_lines(daemon.state(), job)) << id;
  }
  daemon.stop();
  EXPECT_EQ(std::system(fmt::format("'{}' --state '{}' check", test_paths::program("rubatod"),
                                    daemon.state())
                            .c_str()),
            0);
  EXPECT_TRUE(wait_until([&] { return processes_with(daemon.state()).empty(); }));
  fmt::print("{} jobs ({} real models), {} crashes, {} events, seed {}\n", acknowledged.size(),
             models, kCrashes, events.size(), seed);
  if (!HasFailure()) std::filesystem::remove_all(folder);
}

}  // namespace

}  // namespace rubato::live
