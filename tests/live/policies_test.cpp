// Twenty real training jobs on four slots under every elastic policy. All finish: consistent ones
// with the bits of their undisturbed runs, adaptive ones below their target loss. No device is ever
// held twice, and devices do not idle while jobs wait.
#include <gtest/gtest.h>

#include <utility>

#include "base/json_text.h"
#include "live/live_daemon.h"
#include "live/live_jobs.h"
#include "test_paths.h"

namespace rubato::live {

namespace {

constexpr int kJobs = 20;
constexpr int kPolicySlots = 4;

std::vector<LiveProgram> programs() {
  const std::string examples = test_paths::program("examples");
  std::vector<LiveProgram> all;
  for (const char* seed : {"1", "2"}) {
    all.push_back({.run = {examples + "/train_mlp", "--steps", "250", "--seed", seed}});
    all.push_back({.run = {examples + "/train_cnn", "--steps", "60", "--seed", seed}});
    all.push_back({.run = {examples + "/train_lm", "--steps", "20", "--seed", seed}});
  }
  // Targets: undisturbed adaptive runs (rubato run --mode adaptive --workers 1, the same number of
  // samples, three seeds, every power of two in the range as a fixed batch) start with a loss
  // of 2.3, 2.2 and 5.0 and end with at most 0.04 (mlp), 0.22 (cnn, batch 128) and 2.1 (lm, batch
  // 64). The targets leave room for unusual last batches.
  all.push_back({.run = {examples + "/train_mlp", "--steps", "1000", "--batch", "32"},
                 .target_loss = 0.2,
                 .batch = "32..256"});
  all.push_back({.run = {examples + "/train_cnn", "--steps", "120", "--batch", "32"},
                 .target_loss = 0.6,
                 .batch = "32..128"});
  all.push_back({.run = {examples + "/train_lm", "--steps", "64", "--batch", "16"},
                 .target_loss = 3,
                 .batch = "16..64"});
  return all;
}

// Decisions that leave a job waiting, and those of them that give all devices away. A decision is a
// series of `granted` events. How long the change then takes depends on the machine, so it is only
// printed. Decisions are made beside the daemon's loop: if two or more jobs came or ended since the
// last one, perhaps only the first was known when the decision was made, so it is not counted.
struct Decisions {
  int with_jobs_left_waiting = 0;
  int full = 0;
  int overtaken = 0;  // not counted
};
Decisions decisions_of(const std::vector<control::Event>& events) {
  Decisions decisions;
  std::map<control::JobNumber, int> granted;  // of jobs that have not ended
  int changes = 0;                            // jobs that came or ended since the last decision
  for (std::size_t i = 0; i < events.size(); ++i) {
    const control::Event& event = events[i];
    if (event.type == "submitted") granted[event.job] = 0;
    if (event.type == "finished") granted.erase(event.job);
    if (event.type == "submitted" || event.type == "finished") ++changes;
    if (event.type != "granted") continue;
    if (granted.contains(event.job)) granted[event.job] = event.body.value("devices", 0);
    if (i + 1 < events.size() && events[i + 1].type == "granted") continue;
    const bool waiting = std::any_of(granted.begin(), granted.end(),
                                     [](const auto& job) { return job.second == 0; });
    const bool overtaken = std::exchange(changes, 0) > 1;
    if (!waiting) continue;
    if (overtaken) {
      ++decisions.overtaken;
      continue;
    }
    ++decisions.with_jobs_left_waiting;
    // As the decision saw it: a job may have ended meanwhile.
    if (event.body.value("facts", json::object()).value("free", -1) == 0) ++decisions.full;
  }
  return decisions;
}

class EveryPolicy : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    folder = testing::TempDir() + fmt::format("rubato-live-{}", getpid());
    std::filesystem::create_directories(folder);
    undisturbed = std::make_unique<Undisturbed>(test_paths::program("rubato"), folder,
                                                test_paths::program("undisturbed"));
  }
  static void TearDownTestSuite() {
    undisturbed.reset();
    if (!testing::UnitTest::GetInstance()->Failed()) std::filesystem::remove_all(folder);
  }
  static inline std::string folder;
  static inline std::unique_ptr<Undisturbed> undisturbed;
};

TEST_P(EveryPolicy, FinishesTwentyJobsOnFourSlotsWithTheirBits) {
  LiveDaemon daemon(test_paths::program("rubatod"), folder + "/" + GetParam(), kPolicySlots,
                    GetParam());
  ASSERT_TRUE(daemon.start()) << daemon.log_file();
  const std::vector<LiveProgram> kinds = programs();
  std::map<std::string, LiveProgram> submitted;
  for (int i = 0; i < kJobs; ++i) {
    const LiveProgram& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    const auto job = daemon.post("/api/v1/jobs", document_of(kind, kPolicySlots));
    ASSERT_TRUE(job) << "job " << i;
    submitted[(*job)["id"].get<std::string>()] = kind;
  }
  ASSERT_TRUE(wait_until([&] { return daemon.idle(); }, std::chrono::seconds(1200)))
      << indented_json(daemon.get("/api/v1/jobs?active=true").value_or(json()));
  for (const auto& [id, kind] : submitted) {
    const auto job = daemon.get("/api/v1/jobs/" + id);
    ASSERT_TRUE(job);
    EXPECT_EQ((*job)["phase"], "finished") << job->dump(1);
    const json result = (*job)["result"];
    if (kind.target_loss > 0) {
      EXPECT_EQ(result.value("mode", ""), "adaptive");
      EXPECT_LT(result.value("final_loss", 1e9), kind.target_loss) << id;
    } else {
      EXPECT_EQ(result.value("state_sha256", ""), undisturbed->hash(kind)) << id;
    }
  }
  const control::History history = control::history_of(daemon.events());
  EXPECT_LE(history.most_held, kPolicySlots);
  const Decisions decisions = decisions_of(daemon.events());
  EXPECT_GE(decisions.full, 0.9 * decisions.with_jobs_left_waiting);
  int resizes = 0;
  for (const auto& [number, job] : history.jobs) resizes += job.resizes;
  fmt::print(
      "{}: {:.1f} s, mean completion {:.1f} s, {} resizes, held {:.1f} % while jobs waited; {} of "
      "{} decisions with jobs left waiting gave all devices away ({} more were overtaken)\n",
      GetParam(), history.makespan_s, history.mean_completion_s, resizes,
      100 * history.held_share_while_waiting, decisions.full, decisions.with_jobs_left_waiting,
      decisions.overtaken);
}

INSTANTIATE_TEST_SUITE_P(Live, EveryPolicy,
                         testing::Values("elastic-dp", "ones", "mip", "elastic-tiresias",
                                         "easyscale", "rubato"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace

}  // namespace rubato::live
