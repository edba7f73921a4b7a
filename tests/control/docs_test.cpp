// The tables in the documentation match the program. With RUBATO_UPDATE_DOCS=1 in the environment,
// the test rewrites them instead (scripts/generate-docs).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "control/event_types.h"
#include "control/job_fields.h"
#include "test_paths.h"

namespace rubato::control {
namespace {

void expect_table(const std::string& page, const std::string& mark, const std::string& table) {
  const std::string path = test_paths::in_source_tree("docs/") + page;
  const auto text = read_file(path);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const std::string begin = fmt::format("<!-- {} -->\n", mark);
  const std::string end = fmt::format("<!-- /{} -->\n", mark);
  const std::size_t from = text->find(begin);
  const std::size_t to = text->find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos) << path;
  const std::size_t start = from + begin.size();
  if (std::getenv("RUBATO_UPDATE_DOCS") != nullptr) {
    ASSERT_TRUE(write_file(path, text->substr(0, start) + table + text->substr(to)).ok());
    return;
  }
  EXPECT_EQ(text->substr(start, to - start), table) << path << ": run scripts/generate-docs";
}

TEST(Docs, JobsPageHasEveryField) { expect_table("jobs.md", "fields", job_fields_markdown()); }

TEST(Docs, EventsPageHasEveryType) { expect_table("events.md", "events", event_types_markdown()); }

}  // namespace
}  // namespace rubato::control
