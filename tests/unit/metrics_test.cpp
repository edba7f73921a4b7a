#include "elastic/job/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "elastic/job/event_text.h"

namespace rubato::elastic {
namespace {

class MetricsTest : public testing::Test {
 protected:
  MetricsTest()
      : folder_(testing::TempDir() + "rubato_metrics_" + std::to_string(::getpid())),
        metrics_(JobFolder(folder_)) {
    std::filesystem::create_directories(folder_);
  }
  ~MetricsTest() override { std::filesystem::remove_all(folder_); }
  std::string lines() const {
    const Result<std::string> text = read_file(folder_ + "/events.jsonl");
    return text.ok() ? *text : "";
  }

  std::string folder_;
  Metrics metrics_;
};

TEST_F(MetricsTest, OfManyStepsAreOneLineWithTheNewestValues) {
  for (int step = 1; step <= 1000; ++step) {
    metrics_.reached(step);
    ASSERT_TRUE(metrics_.report("loss", 1.0 / step).ok());
    metrics_.tell();
  }
  ASSERT_TRUE(metrics_.report("accuracy", std::nan("")).ok());
  metrics_.finish();
  const std::string text = lines();
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_NE(text.find("\"step\":1000"), std::string::npos) << text;
  EXPECT_NE(text.find("\"loss\":0.001"), std::string::npos) << text;
  EXPECT_NE(text.find("\"accuracy\":\"nan\""), std::string::npos) << text;
  // After the end, at once.
  ASSERT_TRUE(metrics_.report("final", std::numeric_limits<double>::infinity()).ok());
  EXPECT_NE(lines().find("\"final\":\"inf\""), std::string::npos);
  EXPECT_EQ(describe_event(R"({"type":"metrics","step":7,"values":{"a":0.5,"b":"nan"}})"),
            "metrics  step 7: a 0.5 b nan");
}

TEST_F(MetricsTest, NamesAreShortPlainAndFew) {
  EXPECT_FALSE(metrics_.report("", 1).ok());
  EXPECT_FALSE(metrics_.report("a b", 1).ok());
  EXPECT_FALSE(metrics_.report("\n", 1).ok());
  EXPECT_FALSE(metrics_.report(std::string(65, 'x'), 1).ok());
  EXPECT_TRUE(metrics_.report("val/loss@3", 1).ok());
  for (int i = 1; i < 64; ++i) EXPECT_TRUE(metrics_.report("m" + std::to_string(i), i).ok()) << i;
  EXPECT_FALSE(metrics_.report("one-more", 1).ok());
  EXPECT_TRUE(metrics_.report("m5", 6).ok());
}

}  // namespace
}  // namespace rubato::elastic
