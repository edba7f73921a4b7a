// report.html as a file: one page with everything in it, in which no name becomes markup.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "sim/report.h"
#include "unit/report_runs.h"

namespace rubato {
namespace {

constexpr ReportBundle kBundle{"showAll();", "body{margin:0}"};

std::string page_of(const std::vector<SimResult>& runs,
                    const ReportContext& context = kReportContext) {
  return html_report(std::vector{report_document(runs, context)}, kBundle);
}

// The JSON embedded in the page.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return parse_json_or_throw(page.substr(begin, page.find("</script>", begin) - begin));
}

nlohmann::json first_run(const std::string& page) {
  return data_of(page)["documents"][0]["runs"][0];
}

class WriteReports : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("rubato_report_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST(HtmlReport, LoadsNothingFromElsewhere) {
  const std::string page = page_of({run_result("fifo", "w")});
  for (const char* reference : {"http://", "https://", "src=", "@import", "url(", "<link"}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
}

TEST(HtmlReport, MayRunItsOwnScriptOnly) {
  const std::string page = page_of({run_result("fifo", "w")});
  // printf %s 'showAll();' | openssl dgst -sha256 -binary | base64
  EXPECT_NE(page.find("default-src 'none'; script-src "
                      "'sha256-HvHKC1g25O5shsuODloUlZX0+c2BGIagVQi8V6Ey5HE='; style-src "
                      "'sha256-IAdwN3biDCQ3brrgp1m8kBEsPQYyqfREKOEfeoREopc=';"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
}

TEST(HtmlReport, NamesCannotBecomeMarkup) {
  ReportContext context = kReportContext;
  context.command = context.cluster = context.round = kHostileName;
  SimResult result = run_result(kHostileName, kHostileName + "\xe2\x80\xa8");
  result.jobs[0].name = kHostileName;
  ReportDocument document = report_document(std::vector{result}, context);
  document.folder = kHostileName;
  for (const ReportBundle& bundle : {kBundle, ReportBundle{}}) {
    const std::string page = html_report(std::vector{document}, bundle);
    EXPECT_EQ(page.find("</script><b>"), std::string::npos);
    EXPECT_EQ(page.find("<b>"), std::string::npos);
  }
  const nlohmann::json data = data_of(html_report(std::vector{document}, kBundle));
  EXPECT_EQ(data["index"]["policies"][0], kHostileName);
  EXPECT_EQ(data["index"]["groups"][0]["title"], kHostileName + "\xe2\x80\xa8");
  EXPECT_EQ(data["documents"][0]["command"], kHostileName);
  EXPECT_EQ(data["documents"][0]["runs"][0]["jobs"]["name"][0], kHostileName);
}

TEST(HtmlReport, WithoutItsBundleItHasTheTableAndSaysWhatIsMissing) {
  const std::string page = html_report(
      std::vector{report_document(std::vector{run_result("fifo", "w")}, kReportContext)},
      ReportBundle{});
  EXPECT_NE(page.find("built without Node"), std::string::npos) << page;
  EXPECT_NE(page.find(kReportContext.command), std::string::npos);
  EXPECT_NE(page.find("MEAN-JCT"), std::string::npos);
  EXPECT_NE(page.find("script-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

TEST(HtmlReport, IsTheSameForTheSameRuns) {
  const std::vector<SimResult> runs = {run_result("fifo", "w"), run_result("sia", "w", 0.5)};
  EXPECT_EQ(page_of(runs), page_of(runs));
}

TEST(HtmlReport, NoRunsAndNoJobsStillGiveAPage) {
  EXPECT_TRUE(data_of(page_of({}))["index"]["groups"].empty());
  SimResult empty;
  empty.summary.policy = "fifo";
  const std::string page = page_of({empty});
  EXPECT_TRUE(data_of(page)["index"]["groups"][0]["best"].is_null());
  for (const char* part : {"timeline", "waits", "devices"}) {
    EXPECT_TRUE(first_run(page)[part].is_null()) << part;
  }
}

TEST(HtmlReport, LongRunsAreShortenedButKeepTheirPeaks) {
  SimResult result = run_result("fifo", "w");
  result.jobs.clear();
  result.timeline.clear();
  result.changes.clear();
  for (std::size_t i = 0; i < 82000; ++i) {
    const auto at = static_cast<double>(i);
    result.jobs.push_back(job_result("job-" + std::to_string(i), at, at, at + 60.5 + at));
    result.timeline.push_back({at, 64, i == 41234 ? 64 : 16, 10, 5, i == 777 ? 5000 : 3});
    result.changes.push_back({at, i, {{NodeId(0), 2}}});
  }
  const std::string page = page_of(std::vector<SimResult>(4, result));
  EXPECT_LT(page.size(), 8u * 1000 * 1000);
  const nlohmann::json shown = first_run(page);
  EXPECT_LE(shown["timeline"]["t"].size(), 1500u);
  EXPECT_LE(shown["cdf"]["x"].size(), 400u);
  const auto most = [&](const char* curve) {
    const auto values = shown["timeline"][curve].get<std::vector<double>>();
    return *std::max_element(values.begin(), values.end());
  };
  EXPECT_EQ(most("allocated_high"), 64);
  EXPECT_EQ(most("waiting_high"), 5000);
  EXPECT_NEAR(most("allocated"), 16.6, 0.1);  // one of some 82 seconds
  EXPECT_EQ(shown["cdf"]["y"].back(), 1);
  // The page knows the devices up to the submission of the first job that it does not list.
  const auto jobs = shown["jobs"]["name"].size();
  EXPECT_LT(jobs, 82000u);
  EXPECT_EQ(shown["devices"]["until"], jobs);
  EXPECT_LE(shown["devices"]["t"].back(), shown["devices"]["until"]);
}

TEST(HtmlReport, ManyLongRunsStayBelow2Megabytes) {
  SimResult result = run_result("fifo", "w");
  result.timeline.clear();
  for (int i = 0; i < 3000; ++i) {
    result.timeline.push_back({i * 1234.5, 4096, 2000 + i % 97, 1500.5, 800 + i % 7, 1000 + i});
  }
  EXPECT_LT(page_of(std::vector<SimResult>(100, result)).size(), 2u * 1000 * 1000);
}

TEST_F(WriteReports, WritesSixFiles) {
  const std::string folder = (folder_ / "new" / "deep").string();
  const std::vector<SimResult> runs = {run_result("fifo", "w")};
  ASSERT_TRUE(write_reports(folder, runs, kReportContext, kBundle));
  EXPECT_EQ(*list_directory(folder),
            (std::vector<std::string>{"devices.csv", "jobs.csv", "report.html", "report.json",
                                      "summary.json", "timeline.csv"}));
  EXPECT_EQ(*read_file(folder + "/jobs.csv"), jobs_csv(runs));
}

TEST_F(WriteReports, AFileInTheWayFailsAndStays) {
  const std::string path = (folder_ / "taken").string();
  ASSERT_TRUE(write_file(path, "mine"));
  const Status status =
      write_reports(path, std::vector{run_result("fifo", "w")}, kReportContext, kBundle);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, path + ": is a file; expected a directory for the reports");
  EXPECT_EQ(*read_file(path), "mine");
  EXPECT_EQ(list_directory(folder_.string())->size(), 1u);
}

TEST_F(WriteReports, AnUnusableTargetFailsBeforeAnythingIsWritten) {
  const std::string target = (folder_ / "report.html").string();
  ASSERT_TRUE(make_directories(target));
  const Status status = write_reports(folder_.string(), std::vector{run_result("fifo", "w")},
                                      kReportContext, kBundle);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, target + ": is a directory; expected a file");
  EXPECT_EQ(list_directory(folder_.string())->size(), 1u);
}

}  // namespace
}  // namespace rubato
