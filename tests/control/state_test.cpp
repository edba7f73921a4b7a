#include "control/state.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json_text.h"
#include "control/event_types.h"
#include "control/random_events.h"
#include "control/state_delta.h"

namespace rubato::control {
namespace {

using nlohmann::json;

class History {
 public:
  Status add(double at, const std::string& type, JobNumber job = 0, json body = json::object()) {
    Event event{.seq = state.last_seq + 1, .at = at, .type = type, .job = job};
    if (job != 0) event.tenant = "red";
    event.body = std::move(body);
    return state.apply(event);
  }
  std::string refusal(double at, const std::string& type, JobNumber job = 0,
                      json body = json::object()) {
    const json before = to_json(state);
    const Status status = add(at, type, job, std::move(body));
    EXPECT_EQ(to_json(state), before);
    return status.ok() ? "accepted" : status.error().message;
  }
  void submit(double at, const std::string& devices = "1..8") {
    const json document{{"run", "train"}, {"devices", devices}};
    ASSERT_TRUE(add(at, "submitted", state.next_job, {{"document", document}}).ok());
  }
  const JobRecord& job(JobNumber number) const { return state.jobs.at(number); }

  State state;
};

json grant(int devices, const char* reason) { return {{"devices", devices}, {"reason", reason}}; }

TEST(State, KnowsWhichLinesOfTheRuntimeItHas) {
  History h;
  h.submit(1);
  ASSERT_TRUE(h.add(2, "view", 1, {{"type", "view"}, {"events_offset", 100}}).ok());
  EXPECT_EQ(h.job(1).progress["events_offset"], 100);
  ASSERT_TRUE(h.add(3, "progress", 1, {{"step", 7}}).ok());
  EXPECT_EQ(h.job(1).progress["step"], 7);
  EXPECT_EQ(h.job(1).progress["events_offset"], 100) << "progress does not change the offset";
  ASSERT_TRUE(h.add(4, "cancelled", 1).ok());
  ASSERT_TRUE(h.add(5, "view", 1, {{"type", "lost"}, {"events_offset", 150}}).ok());
  EXPECT_EQ(h.job(1).progress["events_offset"], 150)
      << "the last lines arrive after a cancellation";
}

TEST(State, FollowsAJobToItsEnd) {
  History h;
  h.submit(10);
  EXPECT_EQ(h.job(1).phase, Phase::kQueued);
  EXPECT_EQ(h.job(1).document.run, std::vector<std::string>{"train"});
  ASSERT_TRUE(h.add(20, "granted", 1, grant(2, "started")).ok());
  EXPECT_EQ(h.job(1).phase, Phase::kRunning);
  EXPECT_EQ(h.job(1).started_at, 20);
  ASSERT_TRUE(h.add(21, "held", 1, {{"devices", 2}}).ok());
  ASSERT_TRUE(h.add(31, "granted", 1, grant(4, "grown")).ok());
  ASSERT_TRUE(h.add(33, "held", 1, {{"devices", 4}}).ok());
  EXPECT_EQ(h.job(1).resizes, 1);
  EXPECT_EQ(h.job(1).device_s, 2 * 12);
  EXPECT_EQ(held_seconds(h.job(1), 35), 12 + 2);  // whatever the number of devices
  ASSERT_TRUE(h.add(34, "progress", 1, {{"step", 7}, {"loss", 0.5}}).ok());
  EXPECT_EQ(h.job(1).progress["step"], 7);
  ASSERT_TRUE(h.add(40, "finished", 1, {{"result", {{"steps", 100}}}}).ok());
  EXPECT_EQ(h.job(1).phase, Phase::kFinished);
  EXPECT_EQ(h.job(1).granted, 0);
  EXPECT_EQ(h.job(1).result["steps"], 100);
  // Its processes end a moment later.
  ASSERT_TRUE(h.add(41, "held", 1, {{"devices", 0}}).ok());
  EXPECT_EQ(h.job(1).device_s, 2 * 12 + 4 * 8);
  EXPECT_EQ(held_seconds(h.job(1), 1000), 20);
  EXPECT_EQ(job_from_json(to_json(h.job(1)))->held_s, 20);
}

TEST(State, TimeWithDevicesIsCountedByTheClockThatNobodySets) {
  History h;
  h.submit(10);
  ASSERT_TRUE(h.add(20, "granted", 1, grant(2, "started")).ok());
  ASSERT_TRUE(h.add(21, "held", 1, {{"devices", 2}, {"clock", 500.0}}).ok());
  EXPECT_EQ(held_seconds(h.job(1), 90'000, 507), 7);
  EXPECT_EQ(job_from_json(to_json(h.job(1)))->held_clock, 500);
  ASSERT_TRUE(h.add(90'000, "held", 1, {{"devices", 1}, {"clock", 510.0}}).ok());
  EXPECT_EQ(h.job(1).held_s, 10);
  // An event of an older version.
  ASSERT_TRUE(h.add(90'005, "held", 1, {{"devices", 0}}).ok());
  EXPECT_EQ(h.job(1).held_s, 15);
}

TEST(State, FieldsChangeWhileAJobLives) {
  History h;
  h.submit(1);
  ASSERT_TRUE(h.add(2, "changed", 1, {{"fields", {{"priority", -3}, {"name", "night"}}}}).ok());
  EXPECT_EQ(h.job(1).document.priority, -3);
  EXPECT_EQ(job_title(h.job(1).document), "night");
  EXPECT_NE(h.refusal(3, "changed", 1, {{"fields", {{"devices", 2}}}}).find("cannot be changed"),
            std::string::npos);
  ASSERT_TRUE(h.add(4, "cancelled", 1).ok());
  EXPECT_NE(h.refusal(5, "changed", 1, {{"fields", {{"priority", 1}}}}).find("it has ended"),
            std::string::npos);
}

TEST(State, OnlyLegalTransitions) {
  History h;
  EXPECT_EQ(h.refusal(1, "granted", 1, grant(1, "started")),
            "event 'granted' of job j1: no such job");
  EXPECT_EQ(h.refusal(1, "submitted", 2, {{"document", {{"run", "a"}}}}),
            "event 'submitted' of job j2: expected the number j1");
  EXPECT_EQ(h.refusal(1, "submitted", 1, {{"document", {{"rum", "a"}}}}).substr(0, 48),
            "event 'submitted' of job j1: /rum: unknown field");
  h.submit(1, "2..4");
  EXPECT_EQ(h.refusal(2, "granted", 1, grant(1, "started")),
            "event 'granted' of job j1: 1 devices; the job's range is 2..4");
  EXPECT_EQ(h.refusal(2, "scaled", 1, {{"devices", 5}}),
            "event 'scaled' of job j1: 5 devices; the job's range is 2..4");
  EXPECT_EQ(h.refusal(2, "resumed", 1), "event 'resumed' of job j1: it is not paused");
  ASSERT_TRUE(h.add(2, "granted", 1, grant(3, "started")).ok());
  ASSERT_TRUE(h.add(3, "paused", 1).ok());
  EXPECT_EQ(h.job(1).granted, 0);
  EXPECT_EQ(h.refusal(4, "paused", 1), "event 'paused' of job j1: it is already paused");
  EXPECT_EQ(h.refusal(4, "granted", 1, grant(2, "started")),
            "event 'granted' of job j1: it is paused");
  ASSERT_TRUE(h.add(5, "resumed", 1).ok());
  EXPECT_EQ(h.job(1).phase, Phase::kQueued);
  ASSERT_TRUE(h.add(6, "held", 1, {{"devices", 3}}).ok());
  ASSERT_TRUE(h.add(7, "cancelled", 1).ok());
  for (const char* type : {"paused", "resumed", "cancelled", "restarted"}) {
    EXPECT_EQ(h.refusal(8, type, 1),
              fmt::format("event '{}' of job j1: it has ended (cancelled)", type));
  }
  EXPECT_EQ(h.refusal(8, "held", 1, {{"devices", 4}}),
            "event 'held' of job j1: it has ended and can only give devices back");
  ASSERT_TRUE(h.add(8, "view", 1, {{"anything", 1}}).ok());

  EXPECT_EQ(h.refusal(9, "released", 0, {{"number", 1}}), "event 'released': no reservation 1");
  EXPECT_EQ(h.refusal(9, "reserved", 0, {{"number", 1}, {"devices", 2}, {"until", 8}}),
            "event 'reserved': it ends before it begins");
  EXPECT_EQ(h.refusal(9, "rumour"), "unknown event type \"rumour\"");
  EXPECT_EQ(h.refusal(9, "failed", 1, {{"massage", "x"}}),
            "event 'failed' of job j1: `message` is missing");
  EXPECT_EQ(h.refusal(9, "policy", 0, {{"name", "mip"}, {"settings", {{"a", 1}}}}),
            "event 'policy': settings: {\"a\":1}; expected object of strings");
  Event gap{.seq = 99, .at = 9, .type = "started"};
  EXPECT_FALSE(h.state.apply(gap).ok());
}

TEST(State, AKeyIsUsedOncePerTenant) {
  History h;
  const json body{{"document", {{"run", "a"}}}, {"key", "k"}};
  ASSERT_TRUE(h.add(1, "submitted", 1, body).ok());
  EXPECT_EQ(h.refusal(2, "submitted", 2, body),
            "event 'submitted' of job j2: its key was already used");
  EXPECT_EQ(h.state.keys.at({"red", "k"}).job, 1);
  Event other{.seq = 2, .at = 2, .type = "submitted", .job = 2, .tenant = "blue", .body = body};
  EXPECT_TRUE(h.state.apply(other).ok());
}

TEST(State, JobNumbersAsPeopleWriteThem) {
  EXPECT_EQ(parse_job_number("12"), 12);
  EXPECT_EQ(parse_job_number("j12"), 12);
  EXPECT_EQ(job_name_of(12), "j12");
  for (const char* bad : {"", "j", "0", "-1", "jj1", "1j", "99999999999999999999"}) {
    EXPECT_EQ(parse_job_number(bad), std::nullopt) << bad;
  }
}

TEST(EventTypes, HaveUniqueNamesAndDescribeThemselves) {
  std::set<std::string_view> names;
  for (const EventType& type : event_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
    EXPECT_FALSE(type.meaning.empty()) << type.name;
    EXPECT_EQ(find_event_type(type.name), &type);
    for (const EventField& field : type.fields) EXPECT_FALSE(field.help.empty()) << field.name;
  }
}

// In random histories, a refused event changes nothing, the delta agrees with the state however
// events are grouped, and every job survives a round trip through JSON.
TEST(State, RandomHistories) {
  long accepted = 0;
  long refused = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomEvents events(seed);
    Random random(seed + 1'000'000);
    State state;
    State grouped;
    std::vector<Event> group;
    for (int i = 0; i < 200; ++i) {
      Event event = events.next(state, seed % 4 == 0);
      event.seq = state.last_seq + 1;
      const bool will_accept = StateDelta(state).apply(event).ok();
      const json before = will_accept ? json() : to_json(state);
      ASSERT_EQ(state.apply(event).ok(), will_accept) << to_json(event);
      if (!will_accept) {
        ++refused;
        ASSERT_EQ(to_json(state), before) << to_json(event);
        continue;
      }
      ++accepted;
      group.push_back(std::move(event));
      if (random.chance(0.7)) continue;
      StateDelta delta(grouped);
      for (const Event& each : group) {
        const Status again = delta.apply(each);
        ASSERT_TRUE(again.ok()) << again.error().message;
      }
      std::move(delta).commit(grouped);
      group.clear();
      ASSERT_EQ(to_json(grouped), to_json(state));
      ASSERT_EQ(grouped.keys, state.keys);
    }
    for (const auto& [number, job] : state.jobs) {
      const auto again = job_from_json(parse_json_or_throw(compact_json(to_json(job))));
      ASSERT_TRUE(again.ok()) << again.error().message;
      ASSERT_EQ(to_json(*again), to_json(job));
      ASSERT_EQ(again->document, job.document);
      ASSERT_GE(job.device_s, 0);
      ASSERT_EQ(job.granted > 0, job.phase == Phase::kRunning);
    }
  }
  EXPECT_GT(accepted, 2000);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace rubato::control
