// The daemon is killed at each point of what it does by itself: around every event that it records
// in the life of jobs, and around the start of a job. Whatever the point, the jobs end as if
// nothing had happened: each ran once, with the bits of an undisturbed run.
#include "control/event_types.h"
#include "live/kill_points.h"

namespace rubato::live {

namespace {

// Recorded in the life of every few jobs: the daemon dies before and after each.
const std::set<std::string> kUsual{"started", "submitted", "granted",  "held",   "program",
                                   "view",    "learned",   "finished", "failed", "progress"};
// Commands: kill_points_test.cpp.
const std::set<std::string> kCommands{"paused",         "resumed", "scaled",   "changed",
                                      "cancelled",      "policy",  "reserved", "tenant",
                                      "tenant_removed", "removed", "supply"};
// Repeated if they are lost: what they say is found again (a folder, a limit, a state of health).
// `released` at the end of a reservation comes at the next turn, `unblocked` with the end of
// another job. `tenant_user` is only in old logs. What the daemon knows of its nodes it hears from
// them again: tests/live/cluster_test.cpp.
const std::set<std::string> kRare{
    "warning",    "error",     "restarted",   "stalled",   "recovered",   "capped", "set_aside",
    "renumbered", "released",  "tenant_user", "unblocked", "nodes",       "placed", "node",
    "node_lost",  "node_back", "drained",     "undrained", "node_removed"};

std::vector<std::string> own_points() {
  std::vector<std::string> points{"before folder", "after folder", "after want"};
  for (const std::string& event : kUsual) {
    points.push_back("before " + event);
    points.push_back("after " + event);
  }
  return points;
}

class KilledByItself : public KillPoints, public testing::WithParamInterface<std::string> {};

TEST_P(KilledByItself, RunsEveryJobOnce) {
  const json toy = [&] {
    json document = toy_document("toy", "1..2");
    document.erase("logical_workers");  // the daemon learns it from the program: event `program`
    return document;
  }();
  const std::vector<json> documents{toy, counted_document("sound"), counted_document("faulty", 5)};
  int deaths = start_armed(GetParam()) ? 0 : 1;
  const auto alive = [&] {  // the daemon dies at most once
    if (!daemon_->ended()) return true;
    deaths = 1;
    return start();
  };
  const auto repeat = [&](const std::function<bool()>& what) {
    return wait_until([&] { return alive() && what(); });
  };
  ASSERT_TRUE(alive());
  for (const json& document : documents) {
    const std::string name = document["name"];
    ASSERT_TRUE(repeat([&] { return submit(document, "key-" + name); })) << name;
  }
  ASSERT_TRUE(repeat([&] { return is_busy("toy") && runs("sound") == 1 && runs("faulty") == 1; }));
  const bool at_an_end = GetParam().ends_with("finished") || GetParam().ends_with("failed");
  ASSERT_TRUE(repeat([&] { return at_an_end || deaths == 1; })) << "it never came to this point";
  hurry();
  ASSERT_TRUE(repeat([&] { return daemon_->idle(); }));
  EXPECT_EQ(deaths, 1) << "it never came to this point";
  EXPECT_EQ(phase("sound"), "finished");
  EXPECT_EQ(phase("faulty"), "failed");
  check_everything({"toy"}, {"sound", "faulty"});
}

INSTANTIATE_TEST_SUITE_P(Live, KilledByItself, testing::ValuesIn(own_points()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(KillPointsTable, HasEveryEvent) {
  for (const control::EventType& type : control::event_types()) {
    const std::string name(type.name);
    EXPECT_EQ(kUsual.count(name) + kCommands.count(name) + kRare.count(name), 1u)
        << "say what happens if the daemon dies around the event " << name;
  }
}

}  // namespace

}  // namespace rubato::live
