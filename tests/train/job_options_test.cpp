#include "train/job_options.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

std::string error_of(std::vector<const char*> arguments) {
  const auto options = parse_job_options(arguments, {});
  return options.ok() ? "no error" : options.error().message;
}

TEST(JobOptions, ReadsAll) {
  const std::vector<const char*> arguments = {
      "--epochs",  "3", "--steps=7",     "--batch", "16",      "--seed",        "5",
      "--logical", "8", "--device=cuda", "--dump",  "out.bin", "--consistency", "d2",
      "--pace",    "30"};
  const auto options = parse_job_options(arguments, {.name = "x"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->spec.name, "x");
  EXPECT_EQ(options->spec.epochs, 3);
  EXPECT_EQ(options->spec.steps, 7);
  EXPECT_EQ(options->spec.batch, 16);
  EXPECT_EQ(options->spec.seed, 5U);
  EXPECT_EQ(options->spec.logical, 8);
  EXPECT_EQ(options->pace_ms, 30);
  EXPECT_TRUE(options->cuda);
  EXPECT_EQ(options->dump, "out.bin");
  EXPECT_EQ(options->consistency, elastic::Consistency::kD2);
}

TEST(JobOptions, WrongInputIsNamed) {
  EXPECT_EQ(error_of({"--batch", "0"}), "--batch: '0' is not a whole number from 1 to 1000000000");
  EXPECT_EQ(error_of({"--batch", "3x"}),
            "--batch: '3x' is not a whole number from 1 to 1000000000");
  EXPECT_EQ(error_of({"--batch"}), "--batch: a value is missing");
  EXPECT_EQ(error_of({"--bach", "3"}), "unknown option '--bach'; --help lists the options");
  EXPECT_EQ(error_of({"--bach"}), "unknown option '--bach'; --help lists the options");
  EXPECT_EQ(error_of({"--device", "tpu"}), "--device: 'tpu' is unknown; use cpu or cuda");
  EXPECT_EQ(error_of({"--consistency", "d3"}),
            "--consistency: consistency 'd3' is unknown; use d1 or d2");
}

TEST(JobOptions, OfTheProgramsOwn) {
  std::string data = "images";
  std::int64_t width = 16;
  double rate = 0.1;
  bool fast = false;
  bool slow = true;
  const std::vector<Flag> flags = {{"--data", "folder", &data},
                                   {"--width", "neurons", &width},
                                   {"--rate", "of learning", &rate},
                                   {"--fast", "or not", &fast},
                                   {"--slow", "or not", &slow}};
  const std::vector<const char*> arguments = {"--data", "",       "--fast", "--width=-3", "--steps",
                                              "5",      "--slow", "false",  "--rate",     "1e-3"};
  const auto options = parse_job_options(arguments, {}, flags);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->spec.steps, 5);
  EXPECT_EQ(data, "");
  EXPECT_EQ(width, -3);
  EXPECT_EQ(rate, 1e-3);
  EXPECT_TRUE(fast);
  EXPECT_FALSE(slow);
  const auto problem = [&](std::vector<const char*> given, const std::vector<Flag>& known) {
    const auto parsed = parse_job_options(given, {}, known);
    return parsed.ok() ? "no error" : parsed.error().message;
  };
  EXPECT_EQ(problem({"--width", "x"}, flags), "--width: 'x' is not a whole number");
  EXPECT_EQ(problem({"--rate"}, flags), "--rate: a value is missing");
  EXPECT_EQ(problem({"--fast=maybe"}, flags), "--fast: 'maybe'; expected true or false");
  EXPECT_NE(problem({}, {{"--batch", "taken", &width}}).find("'--batch'"), std::string::npos);
  EXPECT_NE(problem({}, {{"width", "no dashes", &width}}).find("'width'"), std::string::npos);
  EXPECT_NE(job_help({}, flags).find("--width                neurons (default -3)"),
            std::string::npos);
}

TEST(JobOptions, HelpShowsTheDefaults) {
  EXPECT_NE(job_help({.batch = 48}).find("(default 48)"), std::string::npos);
}

}  // namespace
}  // namespace rubato
