// Logs of earlier versions replay. tests/control/logs/vN.sql is a real database as text
// (scripts/make-test-log; v3 is of a cluster: a run of NodesInDisorder), vN.json the state that it
// must give; what later versions add to the
// state may be there, too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json_text.h"
#include "control/event_versions.h"
#include "control/sqlite.h"
#include "control/state_folder.h"
#include "control/store.h"
#include "control/temporary_folder.h"
#include "control/whole_state.h"
#include "test_paths.h"

namespace rubato::control {
namespace {

using nlohmann::json;

std::string log_file(int version, const char* ending) {
  return test_paths::in_source_tree(fmt::format("tests/control/logs/v{}.{}", version, ending));
}

// Where `actual` lacks something of `expected`; empty if it has everything.
std::string missing(const json& expected, const json& actual, const std::string& place) {
  if (expected.is_object() && actual.is_object()) {
    for (const auto& [name, value] : expected.items()) {
      if (!actual.contains(name)) return fmt::format("{}/{} is missing", place, name);
      std::string problem = missing(value, actual[name], place + "/" + name);
      if (!problem.empty()) return problem;
    }
    return "";
  }
  if (expected.is_array() && actual.is_array() && expected.size() == actual.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::string problem = missing(expected[i], actual[i], fmt::format("{}/{}", place, i));
      if (!problem.empty()) return problem;
    }
    return "";
  }
  if (expected == actual) return "";
  return fmt::format("{}: {}; expected {}", place, compact_json(actual), compact_json(expected));
}

TEST(OldLogs, EveryVersionReplaysToItsState) {
  for (int version = 1; version <= kEventVersion; ++version) {
    SCOPED_TRACE(fmt::format("version {}", version));
    const Result<std::string> sql = read_file(log_file(version, "sql"));
    ASSERT_TRUE(sql.ok()) << sql.error().message << "; see scripts/make-test-log";
    const Result<std::string> expected = read_file(log_file(version, "json"));
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/rubato.db";
    ASSERT_TRUE(make_private_file(path).ok());
    {
      auto database = Database::open(path);
      ASSERT_TRUE(database.ok());
      const Status filled = database->execute(*sql);
      ASSERT_TRUE(filled.ok()) << filled.error().message;
    }
    const auto replayed = Store::replay(folder.path());
    ASSERT_TRUE(replayed.ok()) << replayed.error().message;
    EXPECT_EQ(missing(parse_json_or_throw(*expected), to_json(*replayed), ""), "");
    auto store = Store::open(folder.path());
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_EQ(to_json(whole_state(**store)), to_json(*replayed)) << "after its migration";
    EXPECT_EQ((*store)->identity().size(), 32U);
    std::vector<Event> next{{.at = 2e9, .type = "started", .job = 0, .tenant = ""}};
    EXPECT_TRUE((*store)->append(next).ok());
    store->reset();
    EXPECT_TRUE(Store::replay(folder.path()).ok()) << "events of two versions in one log";
  }
}

TEST(OldLogs, AnEventOfANewerProgramIsRefused) {
  Event event{.at = 1, .type = "started", .job = 0, .tenant = ""};
  event.version = kEventVersion + 1;
  const Status refused = upgrade_event(event);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("newer"), std::string::npos) << refused.error().message;
  event.version = 1;
  ASSERT_TRUE(upgrade_event(event).ok());
  EXPECT_EQ(event.version, kEventVersion);
}

}  // namespace
}  // namespace rubato::control
