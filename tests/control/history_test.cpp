// View changes found in an event log.
#include "control/history.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

using nlohmann::json;

Event learned(JobNumber job, const json& points) {
  return {.type = "learned", .job = job, .body = {{"key", "k"}, {"profile", {{"points", points}}}}};
}

Event view(JobNumber job, const char* cause, int workers, double stall_ms) {
  return {.type = "view",
          .job = job,
          .body = {{"type", "view"},
                   {"cause", cause},
                   {"workers", workers},
                   {"prepare_s", 0.5},
                   {"stall_ms", stall_ms}}};
}

TEST(ViewChanges, AreHeldAgainstTheStepBefore) {
  const std::vector<Event> events{
      view(1, "start", 1, 0),
      learned(1, {{{"devices", 1}, {"step_s", 0.04}}}),
      view(1, "join", 3, 2),
      {.type = "view", .job = 1, .body = {{"type", "lost"}, {"worker", 1}}},
      view(1, "failure", 2, 30),
      learned(1, {{{"devices", 1}, {"step_s", 0.04}}, {{"devices", 2}, {"step_s", 0.02}}}),
      view(1, "leave", 1, 5),
  };
  const std::vector<ViewChange> changes = view_changes_of(events);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].cause, "join");
  EXPECT_TRUE(changes[0].planned);
  EXPECT_EQ(changes[0].workers, 3);
  EXPECT_DOUBLE_EQ(changes[0].prepare_s, 0.5);
  EXPECT_DOUBLE_EQ(changes[0].stall_s, 0.002);
  EXPECT_DOUBLE_EQ(changes[0].step_s, 0.04);
  EXPECT_FALSE(changes[1].planned);
  EXPECT_DOUBLE_EQ(changes[1].step_s, 0.04)
      << "three workers were never measured, so the nearest size counts";
  EXPECT_EQ(changes[2].cause, "leave");
  EXPECT_DOUBLE_EQ(changes[2].step_s, 0.02);
}

TEST(ViewChanges, BeginningsAndEndsAreNone) {
  const std::vector<Event> events{
      view(1, "start", 2, 0),   view(2, "start", 1, 0),   view(1, "stop", 0, 0),
      view(1, "restart", 2, 9), view(2, "migrate", 1, 3),
  };
  const std::vector<ViewChange> changes = view_changes_of(events);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].job, 2);
  EXPECT_EQ(changes[0].step_s, 0) << "nothing was measured";
}

}  // namespace
}  // namespace rubato::control
