#include "sim/workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "base/random.h"
#include "model/parametric.h"
#include "test_paths.h"

namespace rubato {
namespace {

// A folder for this process only: test cases run in parallel.
class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "rubato_workload_test_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes a file and returns its path.
std::string write(const std::string& name, std::string_view content) {
  static const TempFolder kFolder;
  std::string path = kFolder.path() + "/" + name;
  EXPECT_TRUE(write_file(path, content));
  return path;
}

std::string ten_megabytes(char of) {
  std::string text;
  text.resize(10'000'000, of);
  return text;
}

Cluster cluster(std::string_view text) { return Cluster::parse(text).value(); }

std::shared_ptr<const Application> application(const std::string& name, BatchLimits batch,
                                               const std::vector<bool>& runs_on,
                                               bool fixed = false) {
  Application::Description d{.name = name, .batch = batch, .epochs = 1};
  d.fixed_batch = fixed;
  d.max_devices = fixed ? 1 : 0;
  d.records[batch.initial] = {.progress = {100}, .iteration = {100}, .noise = {{1, 1}}};
  const PerfParams params{0.1, 0.001, 0.01, 0.001, 0.01, 0.001, 1};
  for (const bool runs : runs_on) {
    d.speed.push_back(runs ? std::make_shared<ParametricSpeed>(params) : nullptr);
  }
  return std::make_shared<const Application>(std::move(d));
}

// vision and text run on both types, pinned only on one device with its own batch, edge only on the
// second type.
Applications two_type_applications() {
  Applications apps;
  apps["vision"] = application("vision", {128, 4096, 32, 1024}, {true, true});
  apps["text"] = application("text", {16, 64, 8, 16}, {true, true});
  apps["pinned"] = application("pinned", {32, 32, 32, 32}, {true, true}, true);
  apps["edge"] = application("edge", {8, 8, 1, 8}, {false, true});
  apps["nowhere"] = application("nowhere", {8, 8, 1, 8}, {false, false});
  return apps;
}

constexpr std::string_view kTwoTypes = "4x4:a100,2x4:t4";  // 16 and 8 devices

Result<Workload> read(const std::string& path, WorkloadOptions options = {},
                      std::string_view shape = kTwoTypes) {
  return read_workload(path, cluster(shape), two_type_applications(), options);
}

std::string error_of(const std::string& path, WorkloadOptions options = {}) {
  const auto result = read(path, options);
  return result ? "no error" : result.error().message;
}

testing::AssertionResult has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return testing::AssertionFailure() << "no '" << part << "' in: " << text;
    }
  }
  return testing::AssertionSuccess();
}

// The error for this content names file:place and contains all the words.
void expect_error(const std::string& name, std::string_view content, const std::string& place,
                  const std::vector<std::string>& words, WorkloadOptions options = {}) {
  const std::string path = write(name, content);
  const std::string message = error_of(path, options);
  EXPECT_TRUE(has(message, {path + ":" + place})) << content.substr(0, 200);
  EXPECT_TRUE(has(message, words)) << content.substr(0, 200);
}

const std::string kPolluxHeader = "name,time,application,num_replicas,batch_size\n";
const std::string kItpHeader = "job_id,submission_time,duration,num_gpu\n";
const std::string kPhillyHeader = "timestamp,duration,num_gpus,gpu_time,cluster\n";

TEST(WorkloadFormatTest, NamesGoBothWays) {
  for (const char* name : {"auto", "pollux", "itp", "philly", "sia", "native"}) {
    const auto format = parse_workload_format(name);
    ASSERT_TRUE(format) << name;
    EXPECT_EQ(to_string(*format), name);
  }
  EXPECT_FALSE(parse_workload_format("Pollux"));
}

TEST(WorkloadFormatTest, DetectsEachFormat) {
  const std::vector<std::pair<std::string, WorkloadFormat>> cases{
      {kPolluxHeader + "a,1,vision,1,128\n", WorkloadFormat::kPollux},
      {kPolluxHeader + "a,1.0,vision,1,128\n", WorkloadFormat::kPollux},
      {kPolluxHeader + "a,1,vision,1,128\nb,1.5,vision,1,128\n", WorkloadFormat::kSia},
      {kItpHeader + "a,1,2,3\n", WorkloadFormat::kItp},
      {kPhillyHeader + "2017-10-09 07:01:55,66.0,1,66.0,vc\n", WorkloadFormat::kPhilly},
      {"\n  {\"id\": \"a\"}\n", WorkloadFormat::kNative}};
  for (const auto& [content, expected] : cases) {
    const auto format = detect_format(write("detect", content));
    ASSERT_TRUE(format) << format.error().message;
    EXPECT_EQ(*format, expected) << content;
  }
}

TEST(WorkloadFormatTest, OnlyRecordedDurationsDoWithoutProfiles) {
  EXPECT_TRUE(needs_profiles(WorkloadFormat::kPollux));
  EXPECT_TRUE(needs_profiles(WorkloadFormat::kSia));
  EXPECT_TRUE(needs_profiles(WorkloadFormat::kNative));
  EXPECT_FALSE(needs_profiles(WorkloadFormat::kItp));
  EXPECT_FALSE(needs_profiles(WorkloadFormat::kPhilly));
}

TEST(WorkloadFormatTest, RefusesWhatIsNoWorkload) {
  expect_error("empty", "", "1:1", {"empty"});
  expect_error("blank", " \n\n", "1:1", {"empty"});
  expect_error("unknown", "a,b,c\n1,2,3\n", "1:1", {"format", "job_id", "timestamp", "JSON"});
  expect_error("long", ten_megabytes('x'), "1:1", {"10000000 characters"});
  expect_error("binary",
               std::string("\x7f"
                           "ELF\0\1\2\xff\xfe\n\0",
                           11),
               "1:1", {"format"});
  EXPECT_TRUE(has(error_of(testing::TempDir() + "rubato_no_such_file"), {"No such file"}));
  EXPECT_TRUE(has(error_of(testing::TempDir()), {"directory"}));
}

TEST(WorkloadFormatTest, RefusesBadElasticFactors) {
  const std::string path = write("itp.csv", kItpHeader + "a,1,2,3\n");
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 1}, {1.5, 2}, {0.5, 0.9}, {std::nan(""), 1}, {0.5, 1e300}}) {
    EXPECT_TRUE(has(error_of(path, {.elastic_low = low, .elastic_high = high}), {"elastic"}));
  }
}

TEST(PolluxWorkloadTest, ReadsJobs) {
  const std::string path = write("pollux.csv", kPolluxHeader +
                                                   "late,200,vision,4,512\n"
                                                   "small,100,text,2,16\r\n"
                                                   "one,100,pinned,1,32\n"
                                                   "wide,300,text,16,64\n"
                                                   "edge,400,edge,8,8\n");
  const auto workload = read(path);
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->name, "pollux");
  EXPECT_EQ(workload->format, WorkloadFormat::kPollux);
  ASSERT_EQ(workload->jobs.size(), 5U);
  std::vector<std::string> names;
  for (const WorkloadJob& job : workload->jobs) names.push_back(job.spec.name);
  EXPECT_EQ(names, (std::vector<std::string>{"small", "one", "late", "wide", "edge"}));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(workload->jobs[i].spec.id.index(), i);

  const JobSpec& small = workload->jobs[0].spec;
  EXPECT_EQ(small.submit_s, 100);
  EXPECT_EQ(small.application, "text");
  EXPECT_EQ(workload->jobs[0].application->name(), "text");
  EXPECT_EQ(small.mode, ElasticMode::kAdaptive);
  EXPECT_EQ(small.min_devices, 1);
  EXPECT_EQ(small.max_devices, 8);  // batch 64 / micro-batch 8
  EXPECT_EQ(small.requested_devices, 2);
  EXPECT_EQ(small.requested_batch, 16);
  EXPECT_EQ(small.batch.max, 64);
  EXPECT_EQ(small.allowed_types, 3U);
  EXPECT_EQ(small.tenant, "default");

  const JobSpec& one = workload->jobs[1].spec;
  EXPECT_EQ(one.mode, ElasticMode::kConsistent);
  EXPECT_EQ(one.max_devices, 1);
  const JobSpec& late = workload->jobs[2].spec;
  EXPECT_EQ(late.max_devices, 16);  // the larger of the two types
  const JobSpec& wide = workload->jobs[3].spec;
  EXPECT_EQ(wide.max_devices, 16);  // the request goes beyond the batch rule
  const JobSpec& edge = workload->jobs[4].spec;
  EXPECT_EQ(edge.allowed_types, 2U);
  EXPECT_EQ(edge.max_devices, 8);
}

TEST(PolluxWorkloadTest, SiaHasFractionalTimes) {
  const auto workload =
      read(write("sia.csv", kPolluxHeader + "a,487.661836,vision,8,256\nb,2,vision,1,128\n"));
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->format, WorkloadFormat::kSia);
  EXPECT_EQ(workload->jobs[1].spec.name, "a");
  EXPECT_DOUBLE_EQ(workload->jobs[1].spec.submit_s, 487.661836);
}

TEST(PolluxWorkloadTest, RefusesBadInput) {
  const std::string good = kPolluxHeader + "good,1,vision,1,128\n";
  const auto bad = [&](const std::string& row, const std::string& column,
                       const std::vector<std::string>& words) {
    expect_error("bad.csv", good + row + "\n", "3:" + column, words);
  };
  bad("a,-1,vision,1,128", "3", {"time", "-1", "from 0"});
  bad("a,nan,vision,1,128", "3", {"time", "expected a number"});
  bad("a,inf,vision,1,128", "3", {"time", "expected a number"});
  bad("a,1e300,vision,1,128", "3", {"time", "10000000000"});
  bad("a,x,vision,1,128", "3", {"time", "expected a number"});
  bad("good,2,vision,1,128", "1", {"duplicate", "bad.csv:2:1"});
  bad(",2,vision,1,128", "1", {"expected a name"});
  bad("a\tb,2,vision,1,128", "1", {"printable"});
  bad("a,2,visoin,1,128", "5", {"visoin", "unknown application", "did you mean 'vision'"});
  bad("a,2,,1,128", "5", {"application"});
  bad("a,2,nowhere,1,8", "5", {"not measured on any device type", "a100, t4"});
  bad("a,2,vision,0,128", "12", {"num_replicas", "from 1"});
  bad("a,2,vision,1.5,128", "12", {"whole number"});
  bad("a,2,vision,17,128", "12", {"job larger than the cluster", "17", "16"});
  bad("a,2,edge,9,8", "10", {"job larger than the cluster", "9", "8"});
  bad("a,2,pinned,2,32", "12", {"at most 1 devices"});
  bad("a,2,vision,9999999,128", "12", {"1000000"});
  bad("a,2,vision,1,127", "14", {"batch_size", "from 128 to 4096"});
  bad("a,2,vision,1,4097", "14", {"batch_size", "from 128 to 4096"});
  bad("a,2,vision,1", "13", {"4 cells", "expected 5"});
  bad("a,2,vision,1,128,7", "19", {"6 cells", "expected 5"});
  expect_error("bad.csv", good + "a,2,vis", "3:8", {"truncated"});
  expect_error("bad.csv", good + ten_megabytes('x') + "\n", "3:1", {"characters"});
  expect_error("bad.csv", "name,time,application,num_replicas\na,1,vision,1\n", "1:1",
               {"'batch_size' is missing"});
  expect_error("bad.csv", kPolluxHeader, "1:1", {"no jobs"});
  expect_error("bad.csv", good + "a,2,\xff\xfe\n,1,128\n", "3", {"cells"});
  expect_error("bad.csv", good + "a,2,\xff\xfe,1,128\n", "3:5", {"\\xff\\xfe"});
}

TEST(PolluxWorkloadTest, SaysWhenThereAreNoProfiles) {
  const auto result = read_workload(write("p.csv", kPolluxHeader + "a,1,vision,1,128\n"),
                                    cluster("4x4"), Applications{}, {});
  ASSERT_FALSE(result);
  EXPECT_TRUE(has(result.error().message, {"p.csv:2:5", "no application profiles"}));
}

TEST(ItpWorkloadTest, ReadsJobs) {
  // Without a newline after the last line, as in the published files.
  const std::string path =
      write("itp.csv", kItpHeader + "965d744f-0445,1932025,2429,16\nfb10987f,2000581,1532,1");
  const auto workload = read(path);
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->format, WorkloadFormat::kItp);
  ASSERT_EQ(workload->jobs.size(), 2U);
  const WorkloadJob& job = workload->jobs[0];
  EXPECT_EQ(job.spec.name, "965d744f-0445");
  EXPECT_EQ(job.spec.submit_s, 1932025);
  EXPECT_EQ(job.duration_s, 2429);
  EXPECT_EQ(job.application, nullptr);
  EXPECT_EQ(job.spec.application, "");
  EXPECT_EQ(job.spec.mode, ElasticMode::kRigid);
  EXPECT_EQ(job.spec.min_devices, 16);
  EXPECT_EQ(job.spec.max_devices, 16);
  EXPECT_EQ(job.spec.requested_devices, 16);
  EXPECT_FALSE(job.spec.batch.known());
}

TEST(ItpWorkloadTest, ElasticFactorsGiveARange) {
  const std::string path = write("itp.csv", kItpHeader + "a,1,10,1\nb,2,10,5\nc,3,10,12\n");
  const auto workload = read(path, {.elastic_low = 0.5, .elastic_high = 1.5});
  ASSERT_TRUE(workload) << workload.error().message;
  const std::vector<std::pair<int, int>> expected{{1, 2}, {2, 8}, {6, 16}};
  for (std::size_t i = 0; i < 3; ++i) {
    const JobSpec& spec = workload->jobs[i].spec;
    EXPECT_EQ(spec.mode, ElasticMode::kConsistent);
    EXPECT_EQ(spec.min_devices, expected[i].first);
    EXPECT_EQ(spec.max_devices, expected[i].second);
  }
}

TEST(ItpWorkloadTest, RefusesBadInput) {
  const auto bad = [&](const std::string& row, const std::string& column,
                       const std::vector<std::string>& words) {
    expect_error("bad.csv", kItpHeader + "good,1,1,1\n" + row + "\n", "3:" + column, words);
  };
  bad("a,-1,10,1", "3", {"submission_time"});
  bad("a,1,0,1", "5", {"duration", "from 0.001"});
  bad("a,1,-5,1", "5", {"duration"});
  bad("a,1,nan,1", "5", {"duration", "expected a number"});
  bad("a,1,10,0", "8", {"num_gpu", "from 1"});
  bad("a,1,10,17", "8", {"job larger than the cluster"});
  bad("good,1,10,1", "1", {"duplicate", "bad.csv:2:1"});
  expect_error("bad.csv", "job_id,submission_time,num_gpu\na,1,1\n", "1:1",
               {"'duration' is missing"});
  expect_error("bad.csv", kPolluxHeader + "a,1,vision,1,128\n", "1:1", {"'job_id' is missing"},
               {.format = WorkloadFormat::kItp});
}

TEST(PhillyWorkloadTest, ReadsJobsRelativeToTheEarliest) {
  const std::string path = write("philly.csv", kPhillyHeader +
                                                   "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
                                                   "2017-09-29 07:58:32,860662.0,4,1.0,6c71a0\n"
                                                   "2017-10-09 07:01:55,2.0,2,1.0,11cb48\n\n");
  const auto workload = read(path);
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->format, WorkloadFormat::kPhilly);
  ASSERT_EQ(workload->jobs.size(), 3U);
  EXPECT_EQ(workload->jobs[0].spec.name, "philly-1");
  EXPECT_EQ(workload->jobs[0].spec.submit_s, 0);
  EXPECT_EQ(workload->jobs[0].spec.tenant, "6c71a0");
  EXPECT_EQ(workload->jobs[0].spec.requested_devices, 4);
  EXPECT_EQ(workload->jobs[0].duration_s, 860662);
  // 9 days 23:03:23 later
  EXPECT_EQ(workload->jobs[1].spec.submit_s, 10 * 86400 - 3397);
  EXPECT_EQ(workload->jobs[1].spec.name, "philly-0");
  EXPECT_EQ(workload->jobs[2].spec.name, "philly-2");
}

TEST(PhillyWorkloadTest, RefusesBadInput) {
  const std::string good = kPhillyHeader + "2017-10-09 07:01:55,66.0,1,66.0,vc\n";
  const auto bad = [&](const std::string& row, const std::string& column,
                       const std::vector<std::string>& words) {
    expect_error("bad.csv", good + row + "\n", "3:" + column, words);
  };
  for (const char* time : {"2017-02-29 00:00:00", "2017-10-09T07:01:55", "2017-10-09 24:00:00",
                           "2017-10-09", "1507532515", "9999-10-09 07:01:55", ""}) {
    bad(std::string(time) + ",1,1,1,vc", "1", {"timestamp", "YYYY-MM-DD HH:MM:SS"});
  }
  bad("2017-10-09 07:01:55,inf,1,1,vc", "21", {"duration"});
  bad("2017-10-09 07:01:55,1,17,1,vc", "23", {"job larger than the cluster"});
  bad("2017-10-09 07:01:55,1,1,1,", "27", {"cluster", "expected a name"});
  expect_error("bad.csv", good + "2017-10-09 07:0", "3:16", {"truncated"});
}

TEST(NativeWorkloadTest, ReadsEveryField) {
  const std::string path = write(
      "native.jsonl",
      R"({"id": "b", "submit_s": 7.5, "application": "vision", "mode": "consistent", )"
      R"("devices": {"min": 2, "max": 40, "requested": 4}, "batch": 512, "tenant": "team a", )"
      R"("priority": -3, "device_type": "t4", "resize_cost_s": 12.5})"
      "\n\n"
      R"({"id": "a", "submit_s": 0, "duration_s": 60})"
      "\n");
  const auto workload = read(path);
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->format, WorkloadFormat::kNative);
  ASSERT_EQ(workload->jobs.size(), 2U);
  const JobSpec& a = workload->jobs[0].spec;
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.mode, ElasticMode::kRigid);
  EXPECT_EQ(a.max_devices, 1);
  EXPECT_EQ(workload->jobs[0].duration_s, 60);
  EXPECT_FALSE(a.resize_cost_s);
  const JobSpec& b = workload->jobs[1].spec;
  EXPECT_EQ(b.submit_s, 7.5);
  EXPECT_EQ(b.mode, ElasticMode::kConsistent);
  EXPECT_EQ(b.min_devices, 2);
  EXPECT_EQ(b.max_devices, 8);  // all of type t4
  EXPECT_EQ(b.requested_devices, 4);
  EXPECT_EQ(b.requested_batch, 512);
  EXPECT_EQ(b.tenant, "team a");
  EXPECT_EQ(b.priority, -3);
  EXPECT_EQ(b.allowed_types, 2U);
  EXPECT_EQ(b.resize_cost_s, 12.5);
}

TEST(NativeWorkloadTest, DeviceForms) {
  struct Case {
    std::string rest;
    ElasticMode mode;
    int min, max, requested;
  };
  const std::string vision = R"("application": "vision")";
  const std::string timed = R"("duration_s": 5)";
  using enum ElasticMode;
  const std::vector<Case> cases{
      {vision, kAdaptive, 1, 16, 1},
      {vision + R"(, "devices": 3)", kAdaptive, 1, 16, 3},
      {vision + R"(, "devices": 3.0)", kAdaptive, 1, 16, 3},
      {vision + R"(, "devices": "2..12")", kAdaptive, 2, 12, 2},
      {vision + R"(, "devices": "2..99")", kAdaptive, 2, 16, 2},
      {vision + R"(, "devices": {"max": 6})", kAdaptive, 1, 6, 1},
      {vision + R"(, "devices": {"min": 6})", kAdaptive, 6, 16, 6},
      {vision + R"(, "devices": {})", kAdaptive, 1, 16, 1},
      {vision + R"(, "devices": 4, "mode": "rigid")", kRigid, 4, 4, 4},
      // The batch stays at 128, which feeds 4 micro-batches of 32.
      {vision + R"(, "mode": "consistent")", kConsistent, 1, 4, 1},
      {vision + R"(, "mode": "consistent", "devices": 6)", kConsistent, 1, 6, 6},
      {vision + R"(, "mode": "consistent", "batch": 256)", kConsistent, 1, 8, 1},
      // No more devices than logical workers; 16 of one type, 24 of both.
      {vision + R"(, "batch": 512, "logical_workers": 8)", kConsistent, 1, 8, 8},
      {vision + R"(, "batch": 1024, "logical_workers": 32)", kConsistent, 1, 16, 16},
      {vision + R"(, "batch": 1024, "logical_workers": 32, "mixes_types": true)", kConsistent, 1,
       24, 16},
      {vision + R"(, "batch": 512, "logical_workers": 8, "devices": "2..4")", kConsistent, 2, 4, 2},
      {timed + R"(, "devices": 3)", kRigid, 3, 3, 3},
      {timed + R"(, "devices": "2..4")", kConsistent, 2, 4, 2},
      {timed + R"(, "devices": "2..2")", kRigid, 2, 2, 2},
      {timed + R"(, "devices": {"min": 1, "max": 99, "requested": 4})", kConsistent, 1, 16, 4},
      {timed + R"(, "devices": {"min": 2, "requested": 4})", kConsistent, 2, 4, 4},
      {timed + R"(, "devices": 3, "mode": "consistent")", kConsistent, 3, 3, 3}};
  for (const Case& c : cases) {
    const auto workload =
        read(write("forms.jsonl", R"({"id": "a", "submit_s": 0, )" + c.rest + "}\n"));
    ASSERT_TRUE(workload) << c.rest << ": " << workload.error().message;
    const JobSpec& spec = workload->jobs[0].spec;
    EXPECT_EQ(spec.mode, c.mode) << c.rest;
    EXPECT_EQ(spec.min_devices, c.min) << c.rest;
    EXPECT_EQ(spec.max_devices, c.max) << c.rest;
    EXPECT_EQ(spec.requested_devices, c.requested) << c.rest;
  }
}

TEST(NativeWorkloadTest, RefusesBadInput) {
  const std::string good = R"({"id": "good", "submit_s": 0, "duration_s": 1})"
                           "\n";
  const auto bad = [&](const std::string& line, const std::string& column,
                       const std::vector<std::string>& words) {
    expect_error("bad.jsonl", good + line + "\n", "2:" + column, words);
  };
  const std::string start = R"({"id": "a", "submit_s": 0, )";  // the next field is in column 28
  bad(start + R"("duration": 1})", "28", {"duration", "unknown field", "'duration_s'"});
  bad(start + R"("duration_s": 1, "devices": {"mim": 1}})", "57",
      {"devices.mim", "unknown field", "'min'"});
  bad(start + R"("duration_s": 1, "devices": {"min": 0}})", "57", {"devices.min", "from 1"});
  bad(start + R"("duration_s": 1, "devices": "4..2"})", "45", {"devices", "MIN..MAX", "4..2"});
  bad(start + R"("duration_s": 1, "devices": [1]})", "45", {"devices", "expected", "[1]"});
  bad(start + R"("duration_s": 1, "devices": {"min": 3, "requested": 2}})", "45",
      {"min <= requested <= max"});
  bad(start + R"("duration_s": 1, "devices": 17})", "45", {"job larger than the cluster"});
  bad(start + R"("duration_s": 1, "devices": "1..2", "mode": "rigid"})", "45", {"one size"});
  bad(start + R"("duration_s": 1, "batch": 4})", "45", {"batch", "application"});
  bad(start + R"("duration_s": 1, "mode": "adaptive"})", "45", {"adaptive", "application"});
  bad(start + R"("duration_s": 1, "mode": "soft"})", "45", {"mode", "rigid", "soft"});
  bad(start + R"("duration_s": 0})", "28", {"duration_s", "from 0.001"});
  bad(start + R"("duration_s": 1e999})", "1", {"not valid JSON"});
  bad(start + R"("duration_s": NaN})", "", {"not valid JSON"});
  bad(start + R"("duration_s": "1"})", "28", {"expected a number"});
  bad(start + R"("duration_s": 1, "priority": 1.5})", "45", {"priority", "whole number"});
  bad(start + R"("duration_s": 1, "resize_cost_s": -1})", "45", {"resize_cost_s", "from 0"});
  bad(start + R"("duration_s": 1, "tenant": 5})", "45", {"tenant", "expected a string"});
  bad(start + R"("duration_s": 1, "tenant": "\u0007"})", "45", {"tenant", "printable"});
  bad(start + R"("duration_s": 1, "device_type": "t5"})", "45", {"device_type", "'t4'"});
  bad(start + R"("duration_s": 1, "duration_s": 2})", "45", {"duration_s", "twice"});
  bad(start + R"("application": "visoin"})", "28", {"unknown application", "'vision'"});
  bad(start + R"("application": "edge", "device_type": "a100"})", "28",
      {"not measured on", "a100"});
  bad(start + R"("application": "pinned", "mode": "adaptive"})", "53", {"mode", "fixed"});
  bad(start + R"("application": "vision", "batch": 8})", "53", {"batch", "from 128 to 4096"});
  bad(start + R"("application": "edge", "devices": 8, "batch": 9})", "65", {"batch", "8 to 8"});
  bad(start + R"("application": "text", "duration_s": 1})", "51", {"exactly one", "duration_s"});
  bad(start + R"("duration_s": 1, "logical_workers": 2})", "45",
      {"logical_workers", "application"});
  bad(start + R"("application": "vision", "logical_workers": 3})", "53", {"3 equal parts"});
  bad(start + R"("application": "vision", "logical_workers": 8})", "53",
      {"batch of 16", "32 to 1024"});
  bad(start + R"("application": "vision", "logical_workers": 4, "devices": 8})", "75", {"only 4"});
  bad(start + R"("application": "vision", "logical_workers": 4, "mode": "adaptive"})", "75",
      {"mode", "consistent"});
  bad(start + R"("application": "vision", "mixes_types": true})", "53", {"logical workers"});
  bad(start + R"("application": "vision", "mixes_types": 1})", "53", {"true or false"});
  bad(R"({"id": "a", "submit_s": 0})", "1", {"exactly one", "duration_s"});
  bad(R"({"id": "a", "submit_s": -1, "duration_s": 1})", "13", {"submit_s", "from 0"});
  bad(R"({"id": "a", "duration_s": 1})", "1", {"'submit_s' is missing"});
  bad(R"({"submit_s": 1, "duration_s": 1})", "1", {"'id' is missing"});
  bad(R"({"id": "", "submit_s": 1, "duration_s": 1})", "2", {"id", "expected a name"});
  bad(R"({"id": "good", "submit_s": 1, "duration_s": 1})", "2", {"duplicate", "line 1"});
  bad("[1, 2]", "1", {"expected a JSON object"});
  bad(R"({"id": "a" "submit_s": 1})", "21", {"not valid JSON"});
  bad(std::string(30'000, '['), "17", {"nested deeper"});
  bad(ten_megabytes(' '), "1", {"10000000 characters"});
  expect_error("bad.jsonl", good + R"({"id": "b", "subm)", "2:", {"not valid JSON", "truncated"});
  expect_error("bad.jsonl", good + std::string("\0\xff\x01", 3), "2:1", {"not valid JSON"});
  expect_error("bad.jsonl", "", "1:1", {"empty"}, {.format = WorkloadFormat::kNative});
}

// Any bytes give a workload or an error, never a crash.
TEST(WorkloadFuzzTest, MutatedFilesNeverCrash) {
  constexpr std::uint64_t kSeed = 20240611;
  std::cout << "fuzz seed " << kSeed << "\n";
  Random random(kSeed);
  const std::vector<std::string> valid{
      kPolluxHeader + "a,1,vision,4,512\nb,2.5,text,2,16\nc,3,pinned,1,32\n",
      kItpHeader + "a,1,2,3\nb,2,3,16\nc,99,100,1\n",
      kPhillyHeader + "2017-10-09 07:01:55,66.0,1,66.0,x\n2017-09-29 07:58:32,8.0,4,1.0,y\n",
      R"({"id": "b", "submit_s": 7.5, "application": "vision", "mode": "consistent", )"
      R"("devices": {"min": 2, "max": 40, "requested": 4}, "batch": 512, "tenant": "team a", )"
      R"("priority": -3, "device_type": "t4", "resize_cost_s": 12.5})"
      "\n"
      R"({"id": "a", "submit_s": 0, "duration_s": 60, "devices": "1..4"})"
      "\n"};
  constexpr std::string_view kInteresting = "{}[]\",:.-+eE0123456789\n\r\t\\ \0\xff";
  int accepted = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    std::string content = valid[random.below(static_cast<std::uint32_t>(valid.size()))];
    for (int changes = random.between(1, 6); changes > 0 && !content.empty(); --changes) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(content.size()));
      const char byte =
          random.chance(0.5)
              ? static_cast<char>(random.below(256))
              : kInteresting[random.below(static_cast<std::uint32_t>(kInteresting.size()))];
      switch (random.below(5)) {
        case 0:
          content[at] = static_cast<char>(content[at] ^ (1 << random.below(8)));
          break;
        case 1:
          content.erase(at, random.below(8));
          break;
        case 2:
          content.insert(at, random.below(4) + 1, byte);
          break;
        case 3:
          content.resize(random.chance(0.2) ? at : content.size());
          break;
        default:
          content.insert(at, content.substr(random.below(static_cast<std::uint32_t>(at + 1)),
                                            random.below(16)));
          break;
      }
    }
    const std::string path = write("fuzz", content);
    for (const WorkloadFormat format : {WorkloadFormat::kAuto, WorkloadFormat::kNative}) {
      const auto result = read(path, {.format = format});
      if (result) {
        ++accepted;
        for (const WorkloadJob& job : result->jobs) {
          ASSERT_GE(job.spec.min_devices, 1);
          ASSERT_LE(job.spec.min_devices, job.spec.requested_devices);
          ASSERT_LE(job.spec.requested_devices, job.spec.max_devices);
          ASSERT_LE(job.spec.max_devices, 16);
          ASSERT_GE(job.spec.submit_s, 0);
          ASSERT_TRUE((job.application != nullptr) != (job.duration_s > 0));
        }
      } else {
        const std::string& message = result.error().message;
        ASSERT_TRUE(message.starts_with(path)) << message;
        ASSERT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
          return c >= ' ' && c <= '~';
        })) << message;
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 2 * kRounds);
}

// The recorded workloads, which are not part of the project; empty if they are not present.
std::string data_folder() {
  const char* named = std::getenv("RUBATO_DATA");
  const std::filesystem::path root = test_paths::kSourceTree;
  const std::string folder =
      named != nullptr ? named : (root / ".." / "shared" / "data").lexically_normal().string();
  return is_directory(folder) ? folder : "";
}

class RecordedWorkloadTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = data_folder();
    if (folder_.empty()) GTEST_SKIP() << "no recorded workloads: set RUBATO_DATA to their folder";
  }

  std::string folder_;
};

TEST_F(RecordedWorkloadTest, ReadsPhilly) {
  const auto workload =
      read_workload(folder_ + "/pollux/philly.csv", cluster("32x4"), Applications{}, {});
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->format, WorkloadFormat::kPhilly);
  ASSERT_EQ(workload->jobs.size(), 82247U);
  // From 2017-09-04 10:30:41 to 2017-12-22 08:02:11.
  EXPECT_EQ(workload->jobs.front().spec.submit_s, 0);
  EXPECT_EQ(workload->jobs.back().spec.submit_s, 109 * 86400 - 8910);
}

TEST_F(RecordedWorkloadTest, PhillyIsLargerThanSmallClusters) {
  const std::string path = folder_ + "/pollux/philly.csv";
  const auto workload = read_workload(path, cluster("16x4"), Applications{}, {});
  ASSERT_FALSE(workload);
  EXPECT_TRUE(has(workload.error().message, {path + ":", "job larger than the cluster", "128"}));
}

TEST_F(RecordedWorkloadTest, ReadsItp) {
  for (const auto& [name, jobs] :
       std::vector<std::pair<std::string, std::size_t>>{{"cluster01", 1595},
                                                        {"cluster03", 3011},
                                                        {"cluster05", 3629},
                                                        {"cluster07", 12699},
                                                        {"cluster09", 11134}}) {
    const auto workload = read_workload(folder_ + "/itp/" + name + ".csv", cluster("16x4"),
                                        Applications{}, {.elastic_low = 0.5, .elastic_high = 2});
    ASSERT_TRUE(workload) << workload.error().message;
    EXPECT_EQ(workload->format, WorkloadFormat::kItp);
    EXPECT_EQ(workload->name, name);
    EXPECT_EQ(workload->jobs.size(), jobs);
  }
}

TEST_F(RecordedWorkloadTest, ReadsPollux) {
  const Cluster sixteen = cluster("16x4");
  const auto profiles = read_profiles(folder_ + "/pollux/profiles", sixteen);
  ASSERT_TRUE(profiles) << profiles.error().message;
  for (const auto& [load, jobs] : std::vector<std::pair<std::string, std::size_t>>{
           {"0.5", 80}, {"1.0", 160}, {"1.5", 240}, {"2.0", 320}}) {
    for (int i = 1; i <= 6; ++i) {
      const auto workload = read_workload(
          folder_ + "/pollux/workloads-" + load + "/workload-" + std::to_string(i) + ".csv",
          sixteen, *profiles, {});
      ASSERT_TRUE(workload) << workload.error().message;
      EXPECT_EQ(workload->format, WorkloadFormat::kPollux);
      EXPECT_EQ(workload->jobs.size(), jobs);
    }
  }
}

TEST_F(RecordedWorkloadTest, ReadsSia) {
  const Cluster mixed = cluster("6x4:t4,3x8:rtx,2x8:a100");
  const auto profiles = read_profiles(folder_ + "/sia/profiles", mixed);
  ASSERT_TRUE(profiles) << profiles.error().message;
  for (int i = 1; i <= 5; ++i) {
    const auto workload = read_workload(
        folder_ + "/sia/workloads/workload-" + std::to_string(i) + ".csv", mixed, *profiles, {});
    ASSERT_TRUE(workload) << workload.error().message;
    EXPECT_EQ(workload->format, WorkloadFormat::kSia);
    EXPECT_EQ(workload->jobs.size(), 960U);
  }
}

}  // namespace
}  // namespace rubato
