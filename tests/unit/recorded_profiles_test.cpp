// Compares our interpolation with SciPy's results on the same recorded tables, if that data is
// present.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/csv.h"
#include "base/file.h"
#include "base/text.h"
#include "model/measured.h"
#include "recorded_data.h"

namespace rubato {
namespace {

constexpr NumberRange kAny{0, 1e9};

class RecordedProfiles : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!have_recorded_data()) GTEST_SKIP() << "recorded data not found: " << recorded_data();
    const std::string folder = recorded_data() + "/pollux/profiles/" + GetParam();
    auto read = MeasuredSpeed::read(folder + "/placements.csv", folder + "/scalability.csv");
    ASSERT_TRUE(read.ok()) << read.error().message;
    speed_ = std::move(*read);
  }
  std::unique_ptr<MeasuredSpeed> speed_;
};

TEST_P(RecordedProfiles, PlacementsThatWereNeverMeasuredAgreeWithSciPy) {
  const auto table =
      CsvTable::read(recorded_data() + "/pollux/derived/linearnd_" + GetParam() + ".csv",
                     {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"});
  ASSERT_TRUE(table.ok()) << table.error().message;
  // The grid was computed in one call, in which SciPy starts each search where the last one ended.
  int from = 0;
  int different = 0;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const auto cell = [&](const char* name) {
      return *table->number(row, table->column(name), kAny);
    };
    const auto ours = speed_->between_placements()->at(
        {cell("num_nodes"), cell("num_replicas"), cell("local_bsz")}, from);
    ASSERT_TRUE(ours.has_value()) << table->where(row, 0);
    const bool same = std::abs((*ours)[0] / cell("step_time") - 1) < 1e-6 &&
                      std::abs((*ours)[1] / cell("sync_time") - 1) < 1e-6;
    if (!same) ++different;
  }
  EXPECT_GT(table->rows(), 2000U);
  // The grids of two applications lack points outside the hull, which nevertheless moved SciPy's
  // start.
  EXPECT_LE(different, static_cast<int>(table->rows() / 100));
}

INSTANTIATE_TEST_SUITE_P(Applications, RecordedProfiles,
                         testing::Values("bert", "cifar10", "deepspeech2", "imagenet", "ncf",
                                         "yolov3"),
                         [](const auto& test) { return std::string(test.param); });

TEST(RecordedProfileSamples, AllPlacementsAgreeWithTheArtifact) {
  if (!have_recorded_data()) GTEST_SKIP() << "recorded data not found: " << recorded_data();
  const auto table = CsvTable::read(recorded_data() + "/pollux/derived/get_throughput_samples.csv",
                                    {"application", "placement", "local_bsz", "step_time"});
  ASSERT_TRUE(table.ok()) << table.error().message;
  std::map<std::string, std::unique_ptr<MeasuredSpeed>, std::less<>> models;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const std::string app(table->cell(row, table->column("application")));
    auto& model = models[app];
    if (!model) {
      const std::string folder = recorded_data() + "/pollux/profiles/" + app;
      model =
          std::move(*MeasuredSpeed::read(folder + "/placements.csv", folder + "/scalability.csv"));
    }
    std::vector<int> per_node;
    for (const auto part : split(table->cell(row, table->column("placement")), '-')) {
      per_node.push_back(static_cast<int>(*parse_int(part)));
    }
    const auto local = *table->integer(row, table->column("local_bsz"), kAny);
    const StepTime time = model->step_time(Placement(DeviceTypeId(0), per_node), local);
    const double expected = *table->number(row, table->column("step_time"), kAny);
    EXPECT_NEAR(time.step_s / expected, 1.0, 1e-9) << table->where(row, 0);
  }
}

}  // namespace
}  // namespace rubato
