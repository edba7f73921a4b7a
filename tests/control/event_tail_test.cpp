// Lines that are appended, torn, truncated or garbage.
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
  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("rubato-tail-{}", getpid())).string();
};

TEST_F(EventTailTest, AFileThatIsNotThereHasNoLines) {
  EventTail tail(path_);
  EXPECT_TRUE(tail.read().empty());
}

TEST_F(EventTailTest, HalfALineWaits) {
  EventTail tail(path_);
  append("{\"a\":1}\n{\"a\":");
  auto lines = tail.read();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 1);
  EXPECT_EQ(lines[0].end, 8);
  EXPECT_TRUE(tail.read().empty());
  append("2}\n");
  lines = tail.read();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 2);
  EXPECT_EQ(tail.offset(), 16);
}

TEST_F(EventTailTest, GoesOnAtAnOffset) {
  append("{\"a\":1}\n{\"a\":2}\n");
  EventTail tail(path_, 8);
  const auto lines = tail.read();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 2);
}

TEST_F(EventTailTest, ATruncatedFileIsReadFromItsStart) {
  append("{\"a\":1}\n{\"a\":2}\n");
  EventTail tail(path_);
  EXPECT_EQ(tail.read().size(), 2u);
  std::filesystem::resize_file(path_, 0);
  append("{\"a\":3}\n");
  const auto lines = tail.read();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].value["a"], 3);
}

TEST_F(EventTailTest, GarbageIsPassedOver) {
  Random random(7);
  EventTail tail(path_);
  std::size_t seen = 0;
  for (int i = 0; i < 200; ++i) {
    std::string garbage;
    const std::uint32_t length = random.below(i % 20 == 0 ? 1 << 19 : 200);
    for (std::uint32_t k = 0; k < length; ++k) {
      garbage.push_back(static_cast<char>(random.below(256)));
    }
    append(garbage + "\n[1]\n\"text\"\n{\"good\":" + std::to_string(i) + "}\n");
    for (int piece = 0; piece < 5; ++piece) {
      for (const EventTail::Line& line : tail.read()) {
        ASSERT_TRUE(line.value.is_object());
        if (line.value.contains("good")) ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 200u);
}

TEST_F(EventTailTest, ALineWithoutEndIsPassedOver) {
  EventTail tail(path_);
  append(std::string(3 << 20, 'x'));
  append("\n{\"a\":1}\n");
  std::size_t seen = 0;
  for (int piece = 0; piece < 20; ++piece) seen += tail.read().size();
  EXPECT_EQ(seen, 1u);
}

}  // namespace
}  // namespace rubato::control
