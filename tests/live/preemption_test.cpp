// Twenty equal rigid jobs on four slots under the default policy. They run to their ends: none is
// stopped for another.
#include <gtest/gtest.h>

#include "live/live_daemon.h"
#include "test_paths.h"

namespace rubato::live {

namespace {

constexpr int kEqualJobs = 20;
constexpr int kEqualSlots = 4;

TEST(Preemption, EqualRigidJobsAreNotSwapped) {
  const std::string folder = testing::TempDir() + fmt::format("rubato-equal-{}", getpid());
  LiveDaemon daemon(test_paths::program("rubatod"), folder + "/state", kEqualSlots);
  ASSERT_TRUE(daemon.start()) << daemon.log_file();
  for (int i = 0; i < kEqualJobs; ++i) {
    const json document = {
        {"run", {test_paths::program("toy_train"), "--steps", "150", "--compute-us", "20000"}},
        {"mode", "rigid"},
        {"devices", 1},
        {"logical_workers", 1}};
    ASSERT_TRUE(daemon.post("/api/v1/jobs", document)) << "job " << i;
  }
  ASSERT_TRUE(wait_until([&] { return daemon.idle(); }, std::chrono::seconds(600)));
  int preemptions = 0;
  int finished = 0;
  for (const control::Event& event : daemon.events()) {
    if (event.type == "granted" && event.body.value("devices", -1) == 0) ++preemptions;
    if (event.type == "finished") ++finished;
  }
  fmt::print("{} equal rigid jobs of 3 s on {} slots, live: {} preemptions until their ends\n",
             kEqualJobs, kEqualSlots, preemptions);
  EXPECT_EQ(finished, kEqualJobs);
  EXPECT_EQ(preemptions, 0);
  daemon.stop();
  if (!HasFailure()) std::filesystem::remove_all(folder);
}

}  // namespace

}  // namespace rubato::live
