// The jobs of a log on fixed numbers of devices, with the speeds that the log shows.
#include "control/replay.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

using nlohmann::json;

constexpr double kStart = 1000;

// Two jobs of one program on one device each: 100 steps of 0.1 s, the second a second later.
class Log {
 public:
  Log() {
    add(0, 0, "started", {{"devices", 4}});
    submit(0);
    submit(1);
    const json profile = {
        {"logical_workers", 4},
        {"total_steps", 100},
        {"steps_per_epoch", 100},
        {"samples", 100},
        {"points", {{{"devices", 1}, {"batch", 4}, {"step_s", 0.1}}}},
        {"changes", json::array()},
    };
    add(1, 1, "learned", {{"key", "of an earlier version"}, {"profile", profile}});
    run(1, 0);
    run(2, 1);
  }

  // `noticed_s`: how long the daemon needed to notice that the job trains.
  void run(JobNumber job, double at, double noticed_s = 0) {
    add(at, job, "granted", {{"devices", 1}, {"reason", "started"}});
    add(at + 0.5 + noticed_s, job, "view",
        {{"type", "view"},
         {"cause", "start"},
         {"workers", 1},
         {"step", 0},
         {"at", kStart + at + 0.5}});
    add(at + 10.5, job, "finished", {{"result", {{"steps", 100}}}});
  }
  void submit(double at) {
    add(at, state.next_job, "submitted",
        {{"document", {{"run", "train"}, {"devices", "1..4"}, {"logical_workers", 4}}}});
  }
  void add(double at, JobNumber job, const char* type, json body) {
    Event event{.seq = static_cast<std::int64_t>(events.size()) + 1,
                .at = kStart + at,
                .type = type,
                .job = job,
                .tenant = job == 0 ? "" : "default",
                .body = std::move(body)};
    const Status applied = state.apply(event);
    ASSERT_TRUE(applied.ok()) << applied.error().message;
    events.push_back(std::move(event));
  }

  State state;
  std::vector<Event> events;
};

TEST(ReplayRigid, HasEverySizeTheBestFirst) {
  const Log log;
  const auto sizes = replay_rigid(past_of(log.state, log.events));
  ASSERT_TRUE(sizes.ok()) << sizes.error().message;
  ASSERT_EQ(sizes->size(), 4u);
  for (std::size_t i = 1; i < sizes->size(); ++i) {
    EXPECT_LE((*sizes)[i - 1].replay.simulated_mean_s, (*sizes)[i].replay.simulated_mean_s);
  }
}

TEST(Past, WithoutALogIsAnErrorAndNotACrash) {
  const Log log;
  const auto replayed = replay(past_of(log.state, {}), "fifo", {});
  ASSERT_FALSE(replayed.ok());
  EXPECT_NE(replayed.error().message.find("incomplete"), std::string::npos);
}

TEST(ReplayRigid, SaysHowLongJobsWait) {
  const Log log;
  const auto sizes = replay_rigid(past_of(log.state, log.events));
  ASSERT_TRUE(sizes.ok()) << sizes.error().message;
  for (const RigidReplay& size : *sizes) {
    ASSERT_EQ(size.replay.jobs.size(), 2u);
    const ReplayedJob& first = size.replay.jobs[0];
    const ReplayedJob& second = size.replay.jobs[1];
    EXPECT_NEAR(first.simulated_wait_s, 0, 1e-9);
    // The first leaves room for the second unless each takes more than half of the devices.
    const double expected = size.devices > 2 ? first.simulated_s - 1 : 0;
    EXPECT_NEAR(second.simulated_wait_s, expected, 1e-6) << size.devices << " devices";
    EXPECT_GT(second.simulated_s, second.simulated_wait_s);
  }
}

TEST(Past, AViewThatTheDaemonHeardOfLateCountsFromWhenItHappened) {
  Log log;
  log.submit(20);
  log.run(3, 20, 5);
  const Past past = past_of(log.state, log.events);
  EXPECT_NEAR(past.start_s, 0.5, 1e-9);
  const std::vector<ProfilePoint>& points = past.submitted.jobs.back().profile.points();
  ASSERT_EQ(points.size(), 1u);
  EXPECT_NEAR(points[0].step_s, 0.1, 1e-9);
}

}  // namespace
}  // namespace rubato::control
