// docs/runtime.md shows the states and transitions that the code has.
#include "elastic/membership/table.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "base/file.h"
#include "test_paths.h"

namespace rubato::elastic::membership {
namespace {

constexpr const char* kBegin = "<!-- transitions -->\n";
constexpr const char* kEnd = "<!-- end of transitions -->";

std::string page() {
  Result<std::string> text = read_file(test_paths::in_source_tree("docs/runtime.md"));
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : "";
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "(not found)";
  const std::size_t first = from + begin.size();
  return text.substr(first, text.find(end, first) - first);
}

std::string table() {
  std::string text = "| from | because | to |\n|---|---|---|\n";
  for (const Transition& t : transitions()) {
    text += "| " + std::string(to_string(t.from)) + " | " + std::string(to_string(t.why)) + " | " +
            std::string(to_string(t.to)) + " |\n";
  }
  return text;
}

TEST(Table, IsInTheDocumentation) {
  EXPECT_EQ(between(page(), kBegin, kEnd), table())
      << "docs/runtime.md must have these lines between its two marks:\n"
      << table();
}

TEST(Table, IsTheDiagramOfTheDocumentation) {
  std::set<std::string> shown;
  std::istringstream lines(between(page(), "stateDiagram-v2\n", "```"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("[*]") == std::string::npos)
      shown.insert(line.substr(line.find_first_not_of(' ')));
  }
  std::set<std::string> expected;
  for (const Transition& t : transitions()) {
    if (t.from == t.to || t.to == StateKind::kFinished || t.to == StateKind::kGone) continue;
    expected.insert(std::string(to_string(t.from)) + " --> " + std::string(to_string(t.to)));
  }
  EXPECT_EQ(shown, expected);
}

// The table has no dead ends: whoever is not at its end can get there, and every state can be
// reached.
TEST(Table, LeadsFromTheStartToAnEnd) {
  std::set<StateKind> reached{StateKind::kArriving};
  std::set<StateKind> ending{StateKind::kFinished, StateKind::kGone, StateKind::kLeaving};
  for (std::size_t round = 0; round < transitions().size(); ++round) {
    for (const Transition& t : transitions()) {
      if (reached.contains(t.from)) reached.insert(t.to);
      if (ending.contains(t.to)) ending.insert(t.from);
    }
  }
  for (const Transition& t : transitions()) {
    EXPECT_TRUE(reached.contains(t.from)) << to_string(t.from);
    EXPECT_TRUE(ending.contains(t.from)) << to_string(t.from);
  }
  EXPECT_EQ(reached.size(), 11u);
}

}  // namespace
}  // namespace rubato::elastic::membership
