// The demo's picture is an SVG file that stands alone.
#include "demo/picture.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace rubato::demo {
namespace {

// Why a text is not well-formed XML; empty: it is. Knows what our files use: elements, quoted
// attributes, text, the named entities.
std::string xml_problem(const std::string& text) {
  static const std::regex kTag(R"re(^<(/?)([A-Za-z][\w:-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>)re");
  static const std::regex kAttribute(R"re(([\w:-]+)="[^"<]*")re");
  static const std::regex kEntity(R"re(^&(amp|lt|gt|quot|apos);)re");
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
    std::smatch found;
    if (text[at] == '&') {
      if (!std::regex_search(begin, text.end(), found, kEntity))
        return "a bare & in " + text.substr(at, 40);
      at += static_cast<std::size_t>(found.length());
    } else if (text[at] == '<') {
      if (!std::regex_search(begin, text.end(), found, kTag))
        return "no tag: " + text.substr(at, 80);
      const std::string attributes = found[3];
      std::set<std::string> names;
      for (std::sregex_iterator each(attributes.begin(), attributes.end(), kAttribute), end;
           each != end; ++each) {
        if (!names.insert((*each)[1]).second) return "an attribute twice: " + attributes;
      }
      if (found[1].length() > 0) {
        if (open.empty() || open.back() != found[2]) return "not open: " + found.str();
        open.pop_back();
      } else if (found[4].length() == 0) {
        open.push_back(found[2]);
      }
      at += static_cast<std::size_t>(found.length());
    } else {
      if (open.empty() && text[at] != '\n') return "text outside of the root";
      ++at;
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

Picture small_picture() {
  Timeline shared{.rows = 2,
                  .bars = {{.row = 0, .job = 4, .from = 0, .to = 9},
                           {.row = 1, .job = 7, .from = 3, .to = 4, .training = false},
                           {.row = 1, .job = 7, .from = 4, .to = 8}},
                  .marks = {{.kind = MarkKind::kGrown, .row = 0, .job = 4, .at = 2},
                            {.kind = MarkKind::kShrunk, .row = 0, .job = 4, .at = 3},
                            {.kind = MarkKind::kKilled, .row = 1, .job = 7, .at = 5}},
                  .waits = {{.job = 7, .from = 2, .to = 3}},
                  .ends = {{4, 9}, {7, 8}}};
  Timeline rigid{.rows = 2, .bars = {{.row = 0, .job = 4, .from = 0, .to = 19}}, .ends = {{4, 19}}};
  return {.title = "1.50x better",
          .jobs = {{.number = 4, .name = "language", .submitted = 0},
                   {.number = 7, .name = R"(a<b> & "c")", .submitted = 2}},
          .panels = {{.title = "Rubato", .timeline = shared, .outages = {{.from = 6, .to = 7}}},
                     {.title = "rigid", .timeline = rigid}}};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Picture, IsWellFormed) {
  const std::string svg = svg_of(small_picture());
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_NE(xml_problem("<a>&</a>"), "") << "the check itself";
  EXPECT_NE(xml_problem("<a><b></a>"), "");
}

TEST(Picture, ShowsEveryJobAndEscapesNames) {
  const std::string svg = svg_of(small_picture());
  EXPECT_TRUE(has(svg, ">language</text>"));
  EXPECT_TRUE(has(svg, ">a&lt;b&gt; &amp; &quot;c&quot;</text>"));
  EXPECT_TRUE(has(svg, "<title>language from 0.0 s to 9.0 s</title>"));
  EXPECT_TRUE(has(svg, "&quot;c&quot; (starting or stopping) from 3.0 s to 4.0 s"));
  EXPECT_TRUE(has(svg, "waits from 2.0 s to 3.0 s"));
}

TEST(Picture, ShowsResizesKillsAndTheRatio) {
  const std::string svg = svg_of(small_picture());
  EXPECT_TRUE(has(svg, "<title>1.50x better</title>"));
  EXPECT_TRUE(has(svg, "language grew at 2.0 s"));
  EXPECT_TRUE(has(svg, "language shrank at 3.0 s"));
  EXPECT_TRUE(has(svg, "killed at 5.0 s"));
  EXPECT_TRUE(has(svg, "no daemon from 6.0 s to 7.0 s"));
}

TEST(Picture, AsksForNothingFromElsewhere) {
  std::string svg = svg_of(small_picture());
  const std::string name_space = "http://www.w3.org/2000/svg";
  ASSERT_TRUE(has(svg, name_space));
  svg.erase(svg.find(name_space), name_space.size());
  for (const char* request : {"http:", "https:", "url(", "@import", "<script", "href", "<image"}) {
    EXPECT_FALSE(has(svg, request)) << request;
  }
}

TEST(Picture, BothPanelsHaveTheSameTimeAxis) {
  const std::string svg = svg_of(small_picture());
  std::map<std::string, int> ticks;
  const std::regex tick(R"re(class="tick soft" x="([\d.]+)" y="[\d.]+">(\d+ s)<)re");
  for (std::sregex_iterator each(svg.begin(), svg.end(), tick), end; each != end; ++each) {
    ++ticks[(*each)[1].str() + " " + (*each)[2].str()];
  }
  EXPECT_GE(ticks.size(), 3u);
  for (const auto& [label, count] : ticks) EXPECT_EQ(count, 2) << label;
}

TEST(Picture, OfNothingIsAPictureToo) { EXPECT_EQ(xml_problem(svg_of({.title = "no jobs"})), ""); }

TEST(Picture, MoreJobsThanLetters) {
  EXPECT_EQ(job_letter(0), "A");
  EXPECT_EQ(job_letter(25), "Z");
  EXPECT_EQ(job_letter(26), "A1");
}

}  // namespace
}  // namespace rubato::demo
