#include "sim/generate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json_text.h"
#include "base/random.h"
#include "sim/workload.h"
#include "test_paths.h"

namespace rubato {
namespace {

// The bundled data in the source tree.
std::string share_folder() {
  const std::filesystem::path root = test_paths::kSourceTree;
  return (root / "share").lexically_normal().string();
}

// A folder for this process only: test cases run in parallel.
class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "rubato_generate_test_" + std::to_string(::getpid())) {
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

std::string generated(const GenerateOptions& options) {
  auto result = generate_workload(options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

std::vector<nlohmann::json> parse_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(parse_json_or_throw(line));
  return lines;
}

std::vector<double> submit_times(const GenerateOptions& options) {
  std::vector<double> times;
  for (const auto& line : parse_lines(generated(options))) times.push_back(line["submit_s"]);
  return times;
}

TEST(GenerateTest, SameOptionsSameBytes) {
  for (const Arrival arrival : {Arrival::kPoisson, Arrival::kDiurnal, Arrival::kBursty}) {
    const GenerateOptions options{.jobs = 50, .arrival = arrival, .seed = 7};
    EXPECT_EQ(generated(options), generated(options));
    GenerateOptions other = options;
    other.seed = 8;
    EXPECT_NE(generated(options), generated(other));
  }
}

TEST(GenerateTest, ArrivalsDoNotChangeTheJobs) {
  const auto poisson = parse_lines(generated({.jobs = 60, .arrival = Arrival::kPoisson}));
  const auto bursty = parse_lines(generated({.jobs = 60, .arrival = Arrival::kBursty}));
  for (std::size_t i = 0; i < 60; ++i) {
    auto a = poisson[i];
    auto b = bursty[i];
    a.erase("submit_s");
    b.erase("submit_s");
    EXPECT_EQ(a, b);
  }
}

TEST(GenerateTest, TimesAreSortedAndWithinTheHours) {
  for (const Arrival arrival : {Arrival::kPoisson, Arrival::kDiurnal, Arrival::kBursty}) {
    const auto times = submit_times({.jobs = 500, .arrival = arrival, .hours = 2, .seed = 3});
    ASSERT_EQ(times.size(), 500U);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_GE(times.front(), 0);
    EXPECT_LE(times.back(), 7200);
  }
}

// Share of the arrivals of one day within these hours.
double share_between(const std::vector<double>& times, double from_h, double to_h) {
  const auto inside = std::count_if(
      times.begin(), times.end(), [&](double t) { return t >= from_h * 3600 && t < to_h * 3600; });
  return static_cast<double>(inside) / static_cast<double>(times.size());
}

TEST(GenerateTest, ArrivalShapes) {
  GenerateOptions options{.jobs = 20000, .hours = 24};
  const auto poisson = submit_times(options);
  EXPECT_NEAR(share_between(poisson, 0, 6), 0.25, 0.02);
  EXPECT_NEAR(share_between(poisson, 9, 15), 0.25, 0.02);

  // The integral of 1 - 0.75 cos over the middle quarter of the day: 1/4 + 0.75 sqrt(2) / (2 pi).
  options.arrival = Arrival::kDiurnal;
  EXPECT_NEAR(share_between(submit_times(options), 9, 15), 0.4188, 0.02);

  // Counts per 5 minutes vary much more than in a Poisson process, where variance = mean.
  const auto dispersion = [](const std::vector<double>& times) {
    std::vector<double> counts(288);
    for (const double t : times) counts[std::min<std::size_t>(std::size_t(t / 300), 287)] += 1;
    const double mean = static_cast<double>(times.size()) / 288;
    double squares = 0;
    for (const double count : counts) squares += (count - mean) * (count - mean);
    return squares / 288 / mean;
  };
  options.arrival = Arrival::kBursty;
  EXPECT_LT(dispersion(poisson), 2);
  EXPECT_GT(dispersion(submit_times(options)), 20);
}

TEST(GenerateTest, KindsFollowTheirWeights) {
  std::map<std::string, int> count;
  for (const auto& line : parse_lines(generated({.jobs = 1000}))) ++count[line["application"]];
  const std::map<std::string, int> expected{{"recommender", 360}, {"resnet-small", 360},
                                            {"bert-tune", 100},   {"speech", 100},
                                            {"detector", 60},     {"resnet-large", 20}};
  for (const auto& [name, jobs] : expected) EXPECT_NEAR(count[name], jobs, 1) << name;
}

TEST(GenerateTest, DurationsAreLogNormal) {
  const std::string mix = write(
      "durations.json",
      R"({"applications": [{"duration": {"median_s": 600, "sigma": 1.5}, "devices": [[1, 3], [8, 1]]}]})");
  std::vector<double> durations;
  int wide = 0;
  for (const auto& line : parse_lines(generated({.jobs = 4000, .mix_file = mix}))) {
    durations.push_back(line["duration_s"]);
    wide += line["devices"] == 8 ? 1 : 0;
    EXPECT_FALSE(line.contains("application"));
    EXPECT_FALSE(line.contains("batch"));
  }
  std::sort(durations.begin(), durations.end());
  EXPECT_NEAR(durations[2000], 600, 60);
  EXPECT_NEAR(durations[3364] / durations[2000], 4.48, 0.6);  // one sigma up: e^1.5
  EXPECT_NEAR(wide, 1000, 120);
  const auto workload = read_workload(write("d.jsonl", generated({.jobs = 100, .mix_file = mix})),
                                      Cluster::parse("2x4").value(), {}, {});
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->jobs.size(), 100U);
}

TEST(GenerateTest, BatchGrowsWithTheDevices) {
  const std::string mix = write(
      "batch.json",
      R"({"applications": [{"application": "x", "devices": [[4, 1]], "batch_per_device": 32}]})");
  EXPECT_EQ(parse_lines(generated({.jobs = 1, .mix_file = mix}))[0]["batch"], 128);
}

TEST(GenerateTest, RefusesBadOptions) {
  const auto message = [](const GenerateOptions& options) {
    const auto result = generate_workload(options);
    return result ? std::string("no error") : result.error().message;
  };
  EXPECT_NE(message({.jobs = 0}).find("0 jobs"), std::string::npos);
  EXPECT_NE(message({.jobs = 20'000'000}).find("20000000 jobs"), std::string::npos);
  EXPECT_NE(message({.hours = 0}).find("0 hours"), std::string::npos);
  EXPECT_NE(message({.hours = -1}).find("hours"), std::string::npos);
  EXPECT_NE(message({.hours = std::nan("")}).find("hours"), std::string::npos);
  EXPECT_NE(message({.mix_file = "/no/such/mix.json"}).find("No such file"), std::string::npos);
}

TEST(GenerateTest, RefusesBadMixes) {
  struct Case {
    std::string text;
    std::string place;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases{
      {"", "1:1", {"not valid JSON"}},
      {"{\n  \"applications\": [}\n", "2:20", {"not valid JSON"}},
      {"[]", "1:1", {"expected a JSON object"}},
      {"{}", "1:1", {"'applications' is missing"}},
      {R"({"aplications": []})", "1:2", {"unknown field", "'applications'"}},
      {R"({"applications": []})", "1:2", {"at least one"}},
      {R"({"applications": [5]})", "1:19", {"applications[0]", "expected an object"}},
      {"{\"applications\": [\n  {\"weight\": 1}]}", "2:3", {"exactly one", "'duration'"}},
      {"{\"applications\": [\n  {\"application\": \"x\"},\n  {\"application\": \"x\", \"wieght\": "
       "1}]}",
       "3:24",
       {"applications[1].wieght", "unknown field", "'weight'"}},
      {R"({"applications": [{"application": "x", "weight": -1}]})", "1:40", {"weight", "from 0"}},
      {R"({"applications": [{"application": "x", "weight": 0}]})", "1:2", {"above 0"}},
      {R"({"applications": [{"application": ""}]})", "1:20", {"expected a name"}},
      {R"({"applications": [{"application": "a\"b"}]})", "1:20", {"printable"}},
      {R"({"applications": [{"application": "x", "devices": 4}]})", "1:40", {"pairs"}},
      {R"({"applications": [{"application": "x", "devices": [[1]]}]})", "1:52", {"pair"}},
      {R"({"applications": [{"application": "x", "devices": [[0, 1]]}]})", "1:53", {"from 1"}},
      {R"({"applications": [{"application": "x", "devices": [[1, 0]]}]})", "1:40", {"above 0"}},
      {R"({"applications": [{"duration": 5}]})", "1:20", {"median_s"}},
      {R"({"applications": [{"duration": {"median_s": 5}}]})", "1:20", {"'sigma' is missing"}},
      {R"({"applications": [{"duration": {"median_s": 0, "sigma": 1}}]})", "1:33", {"from 1"}},
      {R"({"applications": [{"duration": {"median_s": 5, "sigma": 1}, "batch_per_device": 1}]})",
       "1:61",
       {"batch_per_device"}},
      {R"({"applications": [{"application": "x", "application": "y"}]})", "1:40", {"twice"}},
      {std::string(100'000, '['), "1:17", {"nested deeper"}}};
  for (const Case& c : cases) {
    const std::string path = write("bad.json", c.text);
    const auto result = generate_workload({.mix_file = path});
    ASSERT_FALSE(result) << c.text;
    EXPECT_TRUE(result.error().message.starts_with(path + ":" + c.place + ": "))
        << c.text.substr(0, 100) << "\n"
        << result.error().message;
    for (const std::string& word : c.words) {
      EXPECT_NE(result.error().message.find(word), std::string::npos)
          << "no '" << word << "' in: " << result.error().message;
    }
  }
}

TEST(GenerateTest, MutatedMixesNeverCrash) {
  constexpr std::uint64_t kSeed = 4711;
  std::cout << "fuzz seed " << kSeed << "\n";
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    std::string text(default_mix());
    for (int changes = random.between(1, 4); changes > 0; --changes) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(text.size()));
      if (random.chance(0.3)) {
        text.erase(at, random.below(10));
      } else {
        text[at] = static_cast<char>(random.below(256));
      }
    }
    const std::string path = write("fuzz.json", text);
    const auto result = generate_workload({.jobs = 3, .mix_file = path});
    if (result) continue;
    const std::string& message = result.error().message;
    ASSERT_TRUE(message.starts_with(path + ":")) << message;
    ASSERT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
      return c >= ' ' && c <= '~';
    })) << message;
  }
}

TEST(BundledDataTest, DefaultMixIsTheBuiltInOne) {
  const auto file = read_file(share_folder() + "/mixes/default.json");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file, default_mix());
}

TEST(BundledDataTest, DemoIsWhatTheGeneratorMakes) {
  const auto file = read_file(share_folder() + "/workloads/demo.jsonl");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file, generated({.jobs = 120, .hours = 6, .seed = 1}));
}

// Every size in the built-in mix is within the batch limits of the bundled applications.
TEST(BundledDataTest, BuiltInMixRunsOnBundledProfiles) {
  const std::string path = write("large.jsonl", generated({.jobs = 5000, .hours = 100}));
  for (const char* shape : {"16x4", "4x4", "6x4:t4,3x8:rtx,2x8:a100"}) {
    const Cluster cluster = Cluster::parse(shape).value();
    const auto profiles = read_profiles(share_folder() + "/profiles", cluster);
    ASSERT_TRUE(profiles) << profiles.error().message;
    const auto workload = read_workload(path, cluster, *profiles, {});
    ASSERT_TRUE(workload) << workload.error().message;
    EXPECT_EQ(workload->jobs.size(), 5000U);
  }
}

// The demo should keep 16 nodes of 4 devices busy: at their requested sizes, its jobs need about as
// many device-hours as the cluster has while they arrive.
TEST(BundledDataTest, DemoLoadsTheClusterAboutOnce) {
  const Cluster cluster = Cluster::parse("16x4").value();
  const auto profiles = read_profiles(share_folder() + "/profiles", cluster);
  ASSERT_TRUE(profiles) << profiles.error().message;
  const auto workload =
      read_workload(share_folder() + "/workloads/demo.jsonl", cluster, *profiles, {});
  ASSERT_TRUE(workload) << workload.error().message;
  double device_s = 0;
  const DeviceTypeId type(std::size_t{0});
  for (const WorkloadJob& job : workload->jobs) {
    const int devices = job.spec.requested_devices;
    const BatchShape shape = split_batch(job.spec.requested_batch, devices, job.spec.batch);
    const StepTime step = job.application->speed(type)->step_time(
        Placement::packed(type, devices, cluster.node_size(type)), shape.local);
    const double updates = job.application->iterations_through(
        static_cast<double>(shape.total(devices)), job.application->epochs() - 1);
    device_s += devices * updates * step.update_s(shape);
  }
  EXPECT_NEAR(device_s / 3600 / (cluster.devices() * 6), 1.0, 0.15);
}

}  // namespace
}  // namespace rubato
