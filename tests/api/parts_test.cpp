// Tests of parts of the API layer without a server.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "api/log_reader.h"
#include "api/metrics.h"
#include "api/places.h"
#include "api/rate_limit.h"
#include "api/raw_request.h"
#include "api/route.h"
#include "api/schema_check.h"
#include "api/text_check.h"
#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "test_paths.h"

namespace rubato::api {
namespace {

using nlohmann::json;

TEST(TokenBucket, RefillsWithTime) {
  RateLimiter limiter({.per_second = 2, .burst = 3});
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.take("a", start), 0);
  EXPECT_DOUBLE_EQ(limiter.take("a", start), 0.5);
  EXPECT_EQ(limiter.take("b", start), 0);
  EXPECT_EQ(limiter.take("a", start + std::chrono::milliseconds(500)), 0);
  EXPECT_GT(limiter.take("a", start + std::chrono::milliseconds(500)), 0);
}

TEST(TokenBucket, ManyKeysDoNotFillTheMemory) {
  RateLimiter limiter({.per_second = 1, .burst = 1});
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < 50'000; ++i) limiter.take("address " + std::to_string(i), now);
  EXPECT_EQ(limiter.take("another", now), 0);
}

TEST(Places, AreGivenBack) {
  Places places(2);
  std::shared_ptr<void> first = places.enter();
  const std::shared_ptr<void> second = places.enter();
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(places.enter(), nullptr);
  first.reset();
  EXPECT_EQ(places.taken(), 1);
  EXPECT_NE(places.enter(), nullptr);  // and is returned immediately
  EXPECT_EQ(places.taken(), 1);
}

TEST(SchemaCheck, FindsTheFault) {
  const json document = {{"defs", {{"size", {{"type", "integer"}, {"minimum", 1}}}}}};
  const json schema = {{"type", "object"},
                       {"required", {"size"}},
                       {"additionalProperties", false},
                       {"properties",
                        {{"size", {{"$ref", "#/defs/size"}}},
                         {"mode", {{"enum", {"a", "b"}}}},
                         {"list", {{"type", "array"}, {"items", {{"type", {"string", "null"}}}}}},
                         {"rate", {{"anyOf", {{{"type", "number"}}, {{"type", "string"}}}}}}}}};
  const auto path = [&](const json& value) {
    const auto fault = check_schema(schema, value, document);
    return fault ? fault->path : "fits";
  };
  EXPECT_EQ(path({{"size", 1}, {"mode", "a"}, {"list", {"x", nullptr}}, {"rate", 0.5}}), "fits");
  EXPECT_EQ(path({{"size", 1.0}}), "fits");
  EXPECT_EQ(path(3), "");
  EXPECT_EQ(path(json::object()), "");
  EXPECT_EQ(path({{"size", 0}}), "/size");
  EXPECT_EQ(path({{"size", 1.5}}), "/size");
  EXPECT_EQ(path({{"size", 1e300}}), "/size");
  EXPECT_EQ(path({{"size", 1}, {"mode", "c"}}), "/mode");
  EXPECT_EQ(path({{"size", 1}, {"list", {"x", 1}}}), "/list/1");
  EXPECT_EQ(path({{"size", 1}, {"rate", true}}), "/rate");
  EXPECT_EQ(path({{"size", 1}, {"sise", 1}}), "/sise");
}

TEST(TextCheck, Utf8) {
  EXPECT_TRUE(is_utf8("plain, umläut, 日本, 😀"));
  for (const char* wrong :
       {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe0\x80\x80", "a\xff"}) {
    EXPECT_FALSE(is_utf8(wrong));
  }
}

TEST(TextCheck, Depth) {
  EXPECT_EQ(json_depth(R"({"a": [1, {"b": "[[[[\"[["}]})"), 3);
  EXPECT_EQ(json_depth("1"), 0);
}

TEST(RawRequest, ReducesTheHeadToWhatIsKnown) {
  const auto parsed = parse_head(
      "POST /x?y=1 HTTP/1.1\r\nHost: h\r\nRange: bytes=0-5\r\nAccept-Encoding: gzip\r\n"
      "CONTENT-TYPE: Application/JSON\r\nContent-Length: 12\r\nConnection: close",
      {});
  ASSERT_TRUE(std::holds_alternative<ParsedHead>(parsed));
  const ParsedHead& head = std::get<ParsedHead>(parsed);
  EXPECT_EQ(head.request.head, "POST /x?y=1 HTTP/1.1\r\nhost: h\r\n\r\n");
  EXPECT_EQ(head.request.content_type, "application/json");
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_FALSE(head.request.keep_alive);
}

TEST(RawRequest, TakesAnyBytes) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::string good = "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (int k = random.between(0, 6); k > 0; --k) {
      text[random.below(static_cast<std::uint32_t>(text.size()))] =
          static_cast<char>(random.below(256));
    }
    const auto parsed = parse_head(text, {});
    if (const auto* head = std::get_if<ParsedHead>(&parsed)) {
      EXPECT_TRUE(head->request.head.ends_with("\r\n\r\n"));
    } else {
      EXPECT_GE(std::get<Refusal>(parsed).status, 400);
    }
  }
}

class LogReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "rubato-log-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { remove_tree(folder_); }
  std::string file(int worker) const {
    return folder_ + "/worker-" + std::to_string(worker) + ".log";
  }
  void append(int worker, const std::string& text) const {
    std::ofstream(file(worker), std::ios::app) << text;
  }
  std::string folder_;
};

TEST_F(LogReaderTest, LabelsLinesAndGoesOn) {
  append(0, "a\nb");
  append(1, "x\n");
  const std::vector<std::string> files{file(0), file(1)};
  LogReader reader(-1, -1);
  std::string text;
  EXPECT_TRUE(reader.read(files, text));
  EXPECT_EQ(text, "worker-0 | a\nworker-0 | b\nworker-1 | x\n");
  text.clear();
  EXPECT_FALSE(reader.read(files, text));
  append(0, "c\n");
  EXPECT_TRUE(reader.read(files, text));
  EXPECT_EQ(text, "worker-0 | c\n");
}

TEST_F(LogReaderTest, OneWorkerAsItIs) {
  append(0, "a\n");
  append(12, "x\xff\n");
  LogReader reader(12, -1);
  std::string text;
  EXPECT_TRUE(reader.read({file(0), file(12)}, text));
  EXPECT_EQ(text, "x\xff\n");
  EXPECT_EQ(worker_of_log("/a/worker-12.log.1"), 12);
  EXPECT_EQ(worker_of_log("/a/supervisor.log"), -1);
}

TEST_F(LogReaderTest, TailCountsFromTheEnd) {
  std::string long_line(200'000, 'y');
  append(0, "1\n2\n" + long_line + "\n3\n4");
  const auto tail = [&](std::int64_t lines) {
    LogReader reader(0, lines);
    std::string text;
    while (reader.read({file(0)}, text)) {
    }
    return text;
  };
  EXPECT_EQ(tail(0), "");
  EXPECT_EQ(tail(1), "4");
  EXPECT_EQ(tail(2), "3\n4");
  EXPECT_EQ(tail(3), long_line + "\n3\n4");
  EXPECT_EQ(tail(4), "2\n" + long_line + "\n3\n4");
  EXPECT_EQ(tail(9), "1\n2\n" + long_line + "\n3\n4");
}

TEST_F(LogReaderTest, TailOfRotatedLogsIsTheTailOfEachWorker) {
  ASSERT_TRUE(write_file(file(0) + ".2", "1\n2\n").ok());
  ASSERT_TRUE(write_file(file(0) + ".1", "3\n4\nfi").ok());
  append(0, "ve\n6\n");
  append(1, "x\ny\nz");
  const std::vector<std::string> files{file(0) + ".2", file(0) + ".1", file(0), file(1)};
  const auto tail = [&](std::int64_t worker, std::int64_t lines) {
    LogReader reader(worker, lines);
    std::string text;
    while (reader.read(files, text)) {
    }
    return text;
  };
  EXPECT_EQ(tail(-1, 2), "worker-0 | five\nworker-0 | 6\nworker-1 | y\nworker-1 | z");
  EXPECT_EQ(tail(0, 1), "6\n");
  EXPECT_EQ(tail(0, 3), "4\nfive\n6\n");
  EXPECT_EQ(tail(0, 5), "2\n3\n4\nfive\n6\n");
  EXPECT_EQ(tail(0, 9), "1\n2\n3\n4\nfive\n6\n");
}

TEST_F(LogReaderTest, ALogThatIsMovedAsideIsNotReadTwice) {
  append(0, "1\n2\n");
  LogReader reader(0, -1);
  std::string text;
  EXPECT_TRUE(reader.read({file(0)}, text));
  for (int round = 0; round < 2; ++round) {
    append(0, "3\n");
    std::filesystem::remove(file(0) + ".2");
    if (round == 1) std::filesystem::rename(file(0) + ".1", file(0) + ".2");
    std::filesystem::rename(file(0), file(0) + ".1");
    append(0, "4\n");
    text.clear();
    EXPECT_TRUE(reader.read({file(0) + ".2", file(0) + ".1", file(0)}, text));
    EXPECT_EQ(text, "3\n4\n");
    append(0, "5\n6\n");
    text.clear();
    EXPECT_TRUE(reader.read({file(0) + ".2", file(0) + ".1", file(0)}, text));
  }
}

TEST_F(LogReaderTest, AFileThatWasCutStartsAnew) {
  append(0, "aaaa\n");
  LogReader reader(0, -1);
  std::string text;
  reader.read({file(0)}, text);
  ASSERT_TRUE(write_file(file(0), "b\n").ok());
  text.clear();
  EXPECT_TRUE(reader.read({file(0)}, text));
  EXPECT_EQ(text, "b\n");
  text.clear();
  EXPECT_FALSE(reader.read({folder_ + "/worker-3.log"}, text));  // not there
}

TEST(Routes, AreDocumented) {
  const auto page = read_file(test_paths::in_source_tree("docs/api.md"));
  ASSERT_TRUE(page.ok());
  for (const Route& route : routes()) {
    const std::string who = route.who == Who::kAdmin    ? "admin"
                            : route.who == Who::kAgent  ? "agent"
                            : route.who == Who::kCopier ? "agent, admin"
                            : route.who == Who::kTenant ? "tenant"
                                                        : "anyone";
    const std::string row = "| `" + route.method + " " + route.path + "` | " + who + " |";
    EXPECT_NE(page->find(row), std::string::npos) << "not in docs/api.md: " << row;
  }
}

TEST(Metrics, EveryFamilyIsDescribedAndDocumented) {
  control::ControllerMetrics metrics;
  metrics.jobs_by_phase["queued"] = 2;
  metrics.round_total_s = {0.1, 0.2};
  RequestMetrics requests;
  requests.count("GET", "/api/v1/jobs", 200, 0.002);
  metrics.tenants = {{"vision", {.running = 1, .quota = 2}}};
  metrics.refused[{"vision", "quota"}] = 1;
  const std::string text =
      metrics_text(metrics) + tenant_metrics_text(metrics, "") + requests.text({}, 3);
  const auto page = read_file(test_paths::in_source_tree("docs/metrics.md"));
  ASSERT_TRUE(page.ok());
  std::string family;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_NE(page->find("`" + family + "`"), std::string::npos)
          << family << " is not in docs/metrics.md";
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.substr(7, family.size()), family);
    } else {
      EXPECT_TRUE(line.starts_with(family)) << line;
      const auto value = parse_double(line.substr(line.rfind(' ') + 1));
      EXPECT_TRUE(value.has_value()) << line;
    }
  }
  EXPECT_NE(text.find("rubato_jobs{phase=\"queued\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("rubato_round_seconds{part=\"total\",quantile=\"0.5\"} 0.15"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("rubato_http_request_seconds_bucket{le=\"+Inf\"} 1\n"), std::string::npos);
}

}  // namespace
}  // namespace rubato::api
