// Jobs that write hostile bytes into every file they can reach, in a real controller beside a
// healthy job: the daemon lives, its loop goes on, it does not grow, it starts again with the files
// in place, and the healthy job finishes with its bits.
//
// The hostile jobs are programs that only sleep; the test writes into their folders. RUBATO_HOSTILE
// says how many variants to write (make fuzz: 10,000) and RUBATO_SEED which one is the first. With
// RUBATO_TURN_MS the longest turn of the loop may use no more processor time than that. How long a
// turn takes on the clock depends on what else the machine does, so it is only printed.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "control/executor/hostile_fixture.h"
#include "control/hostile_bytes.h"

namespace rubato::control {
namespace {

constexpr std::int64_t kMostGrowth = 64 << 20;  // bytes of resident memory
constexpr std::uint64_t kVariantsAtOnce = 5;    // in one folder, for two turns of the loop
constexpr std::size_t kHostileJobs = 4;
constexpr int kVariantsPerJob = 100;  // then another job takes its place
constexpr int kRoundsPerRestart = 8;  // of the daemon

constexpr const char* kFiles[] = {
    "events.jsonl",      "events.jsonl",      "events.jsonl",       "status.json",
    "status.json",       "result.json",       "job.json",           "secret",
    "supervise.json",    "supervisor.log",    "registry/view.1",    "registry/view.2",
    "registry/target.2", "logs/worker-0.log", "logs/worker-7.log.1"};
constexpr const char* kRareFiles[] = {"registry", "logs", "supervisor.lock", "workers.lock",
                                      "registry/target.1"};

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

class HostileCampaign : public Hostile {
 protected:
  struct Attacker {
    JobNumber job = 0;
    bool ready = false;  // it runs, and its launcher has written its files
    int variants = 0;
    std::vector<std::string> placed{};
  };

  void submit_next(Attacker& attacker) {
    attacker = {.job = submit({"/bin/sleep", "100000"}, "1")};
    ++jobs_;
  }
  // Whether variants can be written into its folder now. If not, it is on its way.
  bool prepare(Attacker& attacker) {
    if (attacker.job == 0) submit_next(attacker);
    const JobRecord now = job(attacker.job);
    if (attacker.ready && (ended(now.phase) || attacker.variants >= kVariantsPerJob)) {
      if (!ended(now.phase)) static_cast<void>(controller_->cancel(kAdmin, attacker.job));
      leaving_.push_back(attacker.job);
      submit_next(attacker);
      return false;
    }
    EXPECT_TRUE(attacker.ready || !ended(now.phase)) << now.message;
    attacker.ready =
        attacker.ready || (now.held == 1 && is_file(folder(attacker.job) + "/status.json"));
    return attacker.ready;
  }
  void attack(Attacker& attacker, std::uint64_t seed) {
    Random random(seed);
    const std::string name = random.below(25) == 0 ? kRareFiles[random.below(std::size(kRareFiles))]
                                                   : kFiles[random.below(std::size(kFiles))];
    attacker.placed.push_back(folder(attacker.job) + "/" + name);
    place_hostile(attacker.placed.back(), root_ + "/elsewhere", random);
    ++attacker.variants;
  }
  void clean(Attacker& attacker) const {
    for (const std::string& path : attacker.placed) remove_anything(path);
    attacker.placed.clear();
    std::error_code ignored;
    std::filesystem::create_directories(folder(attacker.job) + "/registry", ignored);
    std::filesystem::create_directories(folder(attacker.job) + "/logs", ignored);
  }
  // Lets the loop look twice, while another writer changes the size of what it reads.
  void look(const std::string& folder, std::uint64_t seed) const {
    std::atomic<bool> enough{false};
    std::thread writer([&] {
      Random random(seed);
      const std::string path = folder + "/events.jsonl";
      while (!enough) {
        static_cast<void>(truncate(path.c_str(), random.below(5000)) + 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    pass_turns();
    enough = true;
    writer.join();
  }
  void start_again() {
    note_turns();
    restart();
    ++restarts_;
    pass_turns();
  }
  void note_turns() {
    const ControllerMetrics metrics = controller_->metrics();
    longest_turn_s_ = std::max(longest_turn_s_, metrics.longest_turn_s);
    longest_turn_cpu_s_ = std::max(longest_turn_cpu_s_, metrics.longest_turn_cpu_s);
  }
  // One round: variants in the folders of all attackers that run.
  std::uint64_t attack_once(std::uint64_t variant, std::uint64_t end) {
    SCOPED_TRACE(fmt::format("repeat with RUBATO_SEED={}", variant));
    const std::uint64_t first = variant;
    std::vector<Attacker*> active;
    for (Attacker& attacker : attackers_) {
      if (variant >= end || !prepare(attacker)) continue;
      active.push_back(&attacker);
      for (std::uint64_t i = 0; i < kVariantsAtOnce && variant < end; ++i) {
        attack(attacker, variant++);
      }
    }
    if (active.empty()) {
      pass_turns();
      return 0;
    }
    look(folder(active[first % active.size()]->job), first);
    for (const Attacker* attacker : active) {
      EXPECT_TRUE(controller_->why(kAdmin, attacker->job).ok());
      EXPECT_TRUE(controller_->log_files(kAdmin, attacker->job).ok());
    }
    most_resident_ = std::max(most_resident_, resident_bytes());
    if (++rounds_ % kRoundsPerRestart == 0) start_again();  // with the files in place
    if (HasFatalFailure()) return 0;
    for (Attacker* attacker : active) clean(*attacker);
    return variant - first;
  }

  Attacker attackers_[kHostileJobs];
  std::vector<JobNumber> leaving_;  // replaced by others
  int jobs_ = 0;
  int restarts_ = 0;
  int rounds_ = 0;
  std::int64_t most_resident_ = 0;
  double longest_turn_s_ = 0;
  double longest_turn_cpu_s_ = 0;
};

TEST_F(HostileCampaign, FilesHurtNobody) {
  const std::uint64_t first = number_from("RUBATO_SEED", 1);
  const std::uint64_t variants = number_from("RUBATO_HOSTILE", 300);
  const std::uint64_t most_turn_ms = number_from("RUBATO_TURN_MS", 0);
  fmt::print("variants {} to {} (RUBATO_SEED, RUBATO_HOSTILE)\n", first, first + variants - 1);
  const auto began = std::chrono::steady_clock::now();
  const std::string steps = "3000";
  const std::string toy_program = test_paths::program("toy_train");
  const JobNumber reference = submit({toy_program, "--steps", steps, "--compute-us", "0"}, "1");
  ASSERT_TRUE(wait([&] { return job(reference).phase == Phase::kFinished; }));
  // Slow enough to be there until the last variant; then it hurries.
  const JobNumber healthy = submit({toy_program, "--steps", steps, "--compute-us", "500000"}, "2");
  ASSERT_TRUE(wait([&] { return !job(healthy).progress.empty(); }));
  std::ofstream(root_ + "/elsewhere") << "the file of somebody else\n";
  const std::int64_t resident = most_resident_ = resident_bytes();
  for (std::uint64_t done = 0; done < variants;) {
    done += attack_once(first + done, first + variants);
    ASSERT_FALSE(HasFailure());
  }
  for (const JobNumber number : leaving_) {
    ASSERT_TRUE(wait([&] { return job(number).held == 0; })) << number << job(number).message;
  }
  note_turns();
  ASSERT_FALSE(over(healthy)) << "it ended too early to be disturbed";
  hurry();
  ASSERT_TRUE(wait([&] { return over(healthy); }));
  EXPECT_EQ(job(healthy).phase, Phase::kFinished) << job(healthy).message;
  EXPECT_EQ(job(healthy).result["state_sha256"], job(reference).result["state_sha256"]);
  EXPECT_EQ(job(healthy).restarts, 0);
  EXPECT_TRUE(job(healthy).errors.empty()) << job(healthy).errors;
  const std::int64_t growth = most_resident_ - resident;
  fmt::print(
      "{} variants in {} jobs, {} restarts of the daemon, {:.0f} s; longest turn of the loop "
      "{:.1f} "
      "ms, {:.1f} ms of processor time; resident memory grew by {:.1f} MiB; {} events\n",
      variants, jobs_, restarts_,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(),
      longest_turn_s_ * 1000, longest_turn_cpu_s_ * 1000, static_cast<double>(growth) / (1 << 20),
      controller_->metrics().events);
  if (most_turn_ms > 0) {
    EXPECT_LE(longest_turn_cpu_s_ * 1000, static_cast<double>(most_turn_ms));
  }
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(growth, kMostGrowth);
#endif
}

}  // namespace
}  // namespace rubato::control
