// EventTail with lines that are appended, torn, truncated or garbage.
#include "control/event_tail.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"

namespace rubato::control {
namespace {

class EventTailTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void append(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }
  EventTail tail_from(std::int64_t offset) const {
    const std::filesystem::path path(path_);
    return EventTail(path.parent_path().string(), path.filename().string(), offset);
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("rubato-tail-{}", getpid())).string();
};

TEST_F(EventTailTest, AFileThatIsNotThereHasNoLines) {
  EventTail tail = tail_from(0);
  EXPECT_TRUE(tail.read().lines.empty());
}

TEST_F(EventTailTest, HalfALineWaits) {
  EventTail tail = tail_from(0);
  append("{\"a\":1}\n{\"a\":");
  auto lines = tail.read().lines;
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 1);
  EXPECT_EQ(lines[0].end, 8);
  EXPECT_TRUE(tail.read().lines.empty());
  append("2}\n");
  lines = tail.read().lines;
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 2);
  EXPECT_EQ(tail.offset(), 16);
}

TEST_F(EventTailTest, GoesOnAtAnOffset) {
  append("{\"a\":1}\n{\"a\":2}\n");
  EventTail tail = tail_from(8);
  const auto lines = tail.read().lines;
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 2);
}

TEST_F(EventTailTest, AFileThatLostItsEndGoesOnThere) {
  append("{\"a\":1}\n{\"a\":2}\n");
  EventTail tail = tail_from(0);
  EXPECT_EQ(tail.read().lines.size(), 2u);
  std::filesystem::resize_file(path_, 11);  // half of the second line is left
  EXPECT_TRUE(tail.read().lines.empty());
  EventTail next = tail_from(16);  // in a daemon that starts after the power failure
  append("{\"a\":3}\n");
  for (EventTail* each : {&tail, &next}) {
    const auto lines = each->read().lines;
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].value["a"], 3);
  }
}

// A writer appends in pieces that end anywhere. Readers die at any moment, and the next one resumes
// at the offset that the last one recorded. Each line is recorded once, in order.
TEST_F(EventTailTest, NotesEveryLineOnceWhenReadersDie) {
  const char* given = std::getenv("RUBATO_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : 100); ++seed) {
    SCOPED_TRACE(fmt::format("repeat with RUBATO_SEED={}", seed));
    std::filesystem::remove(path_);
    Random random(seed);
    constexpr int kLines = 60;
    std::string text;
    for (int i = 0; i < kLines; ++i) {
      if (random.below(8) == 0) text += "no object\n";
      text += fmt::format("{{\"a\":{},\"b\":\"{}\"}}\n", i,
                          std::string(random.below(random.below(20) == 0 ? 1 << 18 : 50), 'x'));
    }
    std::vector<int> noted;
    std::int64_t offset = 0;  // recorded together with the line
    for (std::size_t written = 0; noted.size() < kLines;) {
      const std::size_t piece = std::min<std::size_t>(
          text.size() - written, 1 + random.below(random.chance(0.5) ? 40 : 1 << 17));
      append(text.substr(written, piece));
      written += piece;
      EventTail tail = tail_from(offset);
      for (bool alive = true; alive;) {
        const auto lines = tail.read().lines;
        alive = !lines.empty();
        for (const EventTail::Line& line : lines) {
          if (random.below(5) == 0) alive = false;
          if (!alive) break;
          noted.push_back(line.value["a"].get<int>());
          offset = line.end;
        }
      }
    }
    for (int i = 0; i < kLines; ++i) ASSERT_EQ(noted[static_cast<std::size_t>(i)], i);
    ASSERT_EQ(noted.size(), static_cast<std::size_t>(kLines));
  }
}

TEST_F(EventTailTest, GarbageIsPassedOver) {
  Random random(7);
  EventTail tail = tail_from(0);
  std::size_t seen = 0;
  for (int i = 0; i < 200; ++i) {
    std::string garbage;
    const std::uint32_t length = random.below(i % 20 == 0 ? 1 << 19 : 200);
    for (std::uint32_t k = 0; k < length; ++k) {
      garbage.push_back(static_cast<char>(random.below(256)));
    }
    append(garbage + "\n[1]\n\"text\"\n{\"good\":" + std::to_string(i) + "}\n");
    for (int piece = 0; piece < 5; ++piece) {
      for (const EventTail::Line& line : tail.read().lines) {
        ASSERT_TRUE(line.value.is_object());
        if (line.value.contains("good")) ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 200u);
}

TEST_F(EventTailTest, ALineWithoutEndIsPassedOver) {
  EventTail tail = tail_from(0);
  append(std::string(3 << 20, 'x'));
  append("\n{\"a\":1}\n");
  std::size_t seen = 0;
  std::int64_t skipped = 0;
  for (int i = 0; i < 20; ++i) {
    const EventTail::Piece piece = tail.read();
    EXPECT_LE(piece.bytes, 4 * EventTail::kLongest);
    seen += piece.lines.size();
    skipped += piece.skipped;
  }
  EXPECT_EQ(seen, 1u);
  EXPECT_EQ(skipped, 1);
}

// The rest of a line that is too long is not a line.
TEST_F(EventTailTest, NothingInALineThatIsTooLongIsALine) {
  EventTail tail = tail_from(0);
  for (int i = 0; i < 40; ++i) append(std::string(1 << 17, 'x') + "{\"a\":1}");
  append("\n{\"a\":2}\n");
  std::vector<nlohmann::json> seen;
  for (int i = 0; i < 20; ++i) {
    for (const EventTail::Line& line : tail.read().lines) seen.push_back(line.value);
  }
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["a"], 2);
}

}  // namespace
}  // namespace rubato::control
