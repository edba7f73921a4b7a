// Profile directories: our own JSON files and the folders of published artifacts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "model/application.h"
#include "model/measured.h"
#include "model/parametric.h"
#include "test_paths.h"

namespace rubato {
namespace {

// Each case gets its own folder, because cases run in parallel.
class Profiles : public testing::Test {
 protected:
  Profiles() : folder_(testing::TempDir() + "rubato_profiles_test_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Profiles() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void write(const std::string& name, std::string_view content) const {
    ASSERT_TRUE(make_directories(std::filesystem::path(folder_ + "/" + name).parent_path()));
    ASSERT_TRUE(write_file(folder_ + "/" + name, content));
  }
  Result<Applications> read(std::string_view cluster = "4x4") const {
    return read_profiles(folder_, *Cluster::parse(cluster));
  }
  // The error message for this folder, without the folder's name.
  std::string refused() const {
    const auto read_back = read();
    if (read_back.ok()) return "(accepted)";
    EXPECT_EQ(read_back.error().code, ErrorCode::kInvalidInput) << read_back.error().message;
    std::string message = read_back.error().message;
    if (message.starts_with(folder_)) message = message.substr(folder_.size() + 1);
    return message;
  }
  std::string folder_;
};

// Runs in a separate process, so that a crash fails only this case.
#define EXPECT_SURVIVES(statement) \
  EXPECT_EXIT(                     \
      {                            \
        statement;                 \
        std::_Exit(0);             \
      },                           \
      testing::ExitedWithCode(0), "")

// --- our own format ------------------------------------------------------------------------------

constexpr std::string_view kSpeed =
    R"({"alpha_c": 0.04, "beta_c": 0.0065, "alpha_n": 0.1, "beta_n": 0.002, "alpha_r": 0.025,)"
    R"( "beta_r": 0.0008, "gamma": 2})";

// A valid profile with one part replaced.
std::string native(std::string_view part = "", std::string_view replacement = "") {
  std::string text = R"({"epochs": 3, "updates_per_epoch": 100,)"
                     R"( "batch": {"initial": 32, "max": 100, "min_local": 4, "max_local": 16},)"
                     R"( "noise_scale": {"first": 32, "last": 96}, "speed": {"*": )" +
                     std::string(kSpeed) + "}}";
  if (!part.empty()) {
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    text.replace(at, part.size(), replacement);
  }
  return text;
}

using NativeProfile = Profiles;

TEST_F(NativeProfile, IsRead) {
  write("net.json", native());
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  ASSERT_EQ(apps->size(), 1U);
  const Application& app = *apps->at("net");
  EXPECT_EQ(app.name(), "net");
  EXPECT_EQ(app.epochs(), 3);
  EXPECT_EQ(app.batch().initial, 32);
  EXPECT_EQ(app.batch().max, 100);
  EXPECT_EQ(app.batch().min_local, 4);
  EXPECT_EQ(app.batch().max_local, 16);
  EXPECT_FALSE(app.fixed_batch());
  // alpha_c + beta_c m = 0.04 + 0.0065 x 10 on one device.
  const SpeedModel* speed = app.speed(DeviceTypeId(0));
  ASSERT_NE(speed, nullptr);
  EXPECT_NEAR(speed->step_time(Placement(DeviceTypeId(0), {1}), 10).step_s, 0.105, 1e-6);
}

TEST_F(NativeProfile, ItsNoiseScaleMovesLinearly) {
  write("net.json", native());
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  const Application& app = *apps->at("net");
  // Scales 32, 64, 96 samples; var / sqr = scale / initial = 1, 2, 3.
  for (int epoch = 0; epoch < 3; ++epoch) {
    const GradientNoise noise = app.noise(50, epoch);
    EXPECT_DOUBLE_EQ(noise.variance / noise.squared_norm, 1 + epoch);
    EXPECT_DOUBLE_EQ(app.progress_after(epoch + 1), 100 * (epoch + 1));
    EXPECT_DOUBLE_EQ(app.iterations_through(32, epoch), 100 * (epoch + 1));
  }
  // At twice the initial batch an update gains (v+1)/(v/2+1): 4/3, 3/2, 8/5.
  EXPECT_DOUBLE_EQ(app.iterations_through(64, 0), 75);
  EXPECT_NEAR(app.iterations_through(64, 1), 75 + 66.6666667, 1e-6);
  EXPECT_NEAR(app.iterations_through(64, 2), 75 + 66.6666667 + 62.5, 1e-6);
  // At 100 / 32 = 3.125 times, v = 1: 2 / (0.32 + 1) = 1.515151...: 66 updates.
  EXPECT_NEAR(app.iterations_through(100, 0), 66, 1e-9);
}

TEST_F(NativeProfile, TheSpeedOfATypeGoesBeforeTheGeneralOne) {
  std::string faster(kSpeed);
  faster.replace(faster.find("0.04"), 4, "0.02");
  write("net.json", native("\"*\": ", "\"a100\": " + faster + ", \"*\": "));
  const auto apps = read("1x4:a100,1x4:t4");
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  const auto at = [&](std::int32_t type) {
    const Placement one(DeviceTypeId(type), {1});
    return apps->at("net")->speed(DeviceTypeId(type))->step_time(one, 10).step_s;
  };
  EXPECT_NEAR(at(0), 0.085, 1e-6);
  EXPECT_NEAR(at(1), 0.105, 1e-6);
}

TEST_F(NativeProfile, OnATypeWithoutASpeedItDoesNotRun) {
  write("net.json", native("\"*\"", "\"a100\""));
  const auto apps = read("1x4:a100,1x4:t4");
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_NE(apps->at("net")->speed(DeviceTypeId(0)), nullptr);
  EXPECT_EQ(apps->at("net")->speed(DeviceTypeId(1)), nullptr);
}

TEST_F(NativeProfile, TheBundledOnesAreGood) {
  const auto apps = read_profiles(test_paths::in_source_tree("share/profiles"),
                                  *Cluster::parse("2x4,2x4:t4,2x8:rtx,2x8:a100"));
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(apps->size(), 6U);
  for (const auto& [name, app] : *apps) {
    for (std::int32_t type = 0; type < 4; ++type) {
      EXPECT_NE(app->speed(DeviceTypeId(type)), nullptr) << name;
    }
  }
}

TEST_F(NativeProfile, AMissingFieldIsNamed) {
  const auto without = [&](std::string_view part, std::string_view replacement = "") {
    write("net.json", native(part, replacement));
    return refused();
  };
  EXPECT_EQ(without("\"epochs\": 3, "), "net.json: field 'epochs' is missing");
  EXPECT_EQ(without("\"updates_per_epoch\": 100,"),
            "net.json: field 'updates_per_epoch' is missing");
  EXPECT_EQ(without("\"initial\": 32, "), "net.json: batch: field 'initial' is missing");
  EXPECT_EQ(without(", \"max_local\": 16"), "net.json: batch: field 'max_local' is missing");
  EXPECT_EQ(without("\"batch\"", "\"batches\""), "net.json: batch: field 'initial' is missing");
  EXPECT_EQ(without("\"first\": 32, "), "net.json: noise_scale: field 'first' is missing");
  EXPECT_EQ(without(", \"last\": 96"), "net.json: noise_scale: field 'last' is missing");
  EXPECT_EQ(without("\"alpha_n\": 0.1, "), "net.json: speed of 'gpu': field 'alpha_n' is missing");
  EXPECT_EQ(without(", \"gamma\": 2"), "net.json: speed of 'gpu': field 'gamma' is missing");
  EXPECT_EQ(without("\"speed\"", "\"spede\""), "net.json: field 'speed' is missing");
}

TEST_F(NativeProfile, AValueOfTheWrongKindIsRefused) {
  const auto with = [&](std::string_view part, std::string_view replacement) {
    write("net.json", native(part, replacement));
    return refused();
  };
  const std::string epochs = "net.json: field 'epochs': expected a number from 1 to 100000";
  for (const char* bad : {"\"3\"", "null", "true", "[3]", "{}", "0", "-3", "100001", "1e18"}) {
    EXPECT_EQ(with("\"epochs\": 3", std::string("\"epochs\": ") + bad), epochs) << bad;
  }
  EXPECT_EQ(with("\"first\": 32", "\"first\": -1"),
            "net.json: noise_scale: field 'first': expected a number from 0 to 1000000000");
  EXPECT_EQ(with("\"initial\": 32", "\"initial\": -32"),
            "net.json: batch: field 'initial': expected a number from 1 to 1000000000");
  EXPECT_EQ(with("0.04", "-0.04"),
            "net.json: speed of 'gpu': field 'alpha_c': expected a number from 1e-09 to 10000");
  EXPECT_EQ(with("\"gamma\": 2", "\"gamma\": 0.5"),
            "net.json: speed of 'gpu': field 'gamma': expected a number from 1 to 10");
  EXPECT_EQ(with("\"gamma\": 2", "\"gamma\": 11"),
            "net.json: speed of 'gpu': field 'gamma': expected a number from 1 to 10");
  EXPECT_EQ(with(kSpeed, "5"), "net.json: speed of 'gpu': field 'alpha_c' is missing");
  for (const char* bad : {"5", "[]", "null", "\"x\""}) {
    write("net.json",
          R"({"epochs": 3, "updates_per_epoch": 100, "batch": )" + std::string(bad) + "}");
    EXPECT_EQ(refused(), "net.json: batch: field 'initial' is missing") << bad;
  }
}

TEST_F(NativeProfile, CountsAreWholeNumbers) {
  write("net.json", native("\"initial\": 32", "\"initial\": 32.5"));
  EXPECT_NE(refused(), "(accepted)");
  write("net.json", native("\"epochs\": 3", "\"epochs\": 2.5"));
  EXPECT_NE(refused(), "(accepted)");
}

TEST_F(NativeProfile, LimitsThatContradictEachOtherAreRefused) {
  const std::string expected =
      "net.json: batch: expected initial <= max and min_local <= max_local";
  write("net.json", native("\"max\": 100", "\"max\": 31"));
  EXPECT_EQ(refused(), expected);
  write("net.json", native("\"min_local\": 4", "\"min_local\": 17"));
  EXPECT_EQ(refused(), expected);
  write("net.json", native("\"max\": 100", "\"max\": 32"));
  EXPECT_EQ(refused(), "(accepted)");
}

TEST_F(NativeProfile, WhatIsNoJsonObjectIsRefused) {
  for (const char* bad : {"", "{", "[]", "5", "null", "\"x\"", "{} {}", "{\"epochs\": 1e999}",
                          "{'epochs': 3}", "\xff\xfe", "{\"epochs\": NaN}"}) {
    write("net.json", bad);
    EXPECT_EQ(refused(), "net.json: not a JSON object") << bad;
  }
  write("net.json", native().substr(0, 100));  // truncated
  EXPECT_EQ(refused(), "net.json: not a JSON object");
  write("net.json", std::string(1'000'000, '\0'));
  EXPECT_EQ(refused(), "net.json: not a JSON object");
}

using NativeProfileDeathTest = Profiles;

TEST_F(NativeProfileDeathTest, DeepNestingIsRefusedAndDoesNotCrash) {
  write("net.json", std::string(1'000'000, '['));
  EXPECT_SURVIVES(if (refused() != "net.json: not a JSON object") std::_Exit(1));
  write("net.json", std::string(500'000, '[') + std::string(500'000, ']'));
  EXPECT_SURVIVES(if (refused() != "net.json: not a JSON object") std::_Exit(1));
  std::string objects;
  for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
  write("net.json", objects);
  EXPECT_SURVIVES(if (refused() != "net.json: not a JSON object") std::_Exit(1));
}

TEST_F(NativeProfileDeathTest, DeepNestingInsideAProfileDoesNotCrash) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  for (const char* where : {"\"batch\": {", "\"noise_scale\": {", "\"speed\": {"}) {
    write("net.json", native(where, std::string(where) + "\"x\": " + deep + ", "));
    EXPECT_SURVIVES(static_cast<void>(read())) << where;
  }
}

// --- artifact folders ----------------------------------------------------------------------------

constexpr std::string_view kValidation =
    "epoch,progress,iteration,grad_sqr,grad_var\n0,10,10,1,2\n1,20,20,1,4\n";
constexpr std::string_view kPlacements =
    "placement,local_bsz,step_time,sync_time\n1,16,0.2,0\n1,32,0.3,0\n2,16,0.25,0.05\n"
    "2,32,0.35,0.05\n11,16,0.4,0.2\n11,32,0.5,0.2\n";

class ArtifactFolder : public Profiles {
 protected:
  ArtifactFolder() {
    write("net/validation-100.csv", kValidation);
    write("net/validation-200.csv",
          "progress,iteration,grad_sqr,grad_var\n9,5,2,4\n19,10,2,6\n30,15,2,8\n");
    write("net/placements.csv", kPlacements);
  }
  double one_device(const Applications& apps, std::int32_t type = 0) const {
    const SpeedModel* speed = apps.at("net")->speed(DeviceTypeId(type));
    if (speed == nullptr) return -1;
    return speed->step_time(Placement(DeviceTypeId(type), {1}), 16).step_s;
  }
  static std::string placements_with(double step) {
    return "placement,local_bsz,step_time,sync_time\n1,16," + std::to_string(step) + ",0\n";
  }
};

TEST_F(ArtifactFolder, IsRead) {
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  const Application& app = *apps->at("net");
  EXPECT_EQ(app.batch().initial, 100);
  EXPECT_EQ(app.batch().max, 200);
  EXPECT_EQ(app.batch().min_local, 16);
  EXPECT_EQ(app.batch().max_local, 32);
  EXPECT_EQ(app.epochs(), 2);  // as many as the shortest record
  EXPECT_EQ(app.progress_after(2), 19);
  EXPECT_EQ(app.noise(150, 1).variance, 5);
  EXPECT_EQ(one_device(*apps), 0.2);
}

TEST_F(ArtifactFolder, OtherFilesAreIgnored) {
  write("README.md", "not a profile");
  write("net.csv", "x");
  write("net/notes.txt", "x");
  write("net/validation-100.csv.bak", "x");
  write("net/placements-other.csv", "x");
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(apps->size(), 1U);
}

TEST_F(ArtifactFolder, TheDeviceTypeSelectsTheFile) {
  write("net/placements-aws.csv", placements_with(0.5));
  write("net/placements-dgx-ext.csv", placements_with(0.0625));
  write("net/placements-rtx.csv", placements_with(0.125));
  const auto apps = read("1x4:t4,1x8:a100,1x8:rtx,1x4:v100,1x4");
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(one_device(*apps, 0), 0.5);     // t4 -> -aws
  EXPECT_EQ(one_device(*apps, 1), 0.0625);  // a100 -> -dgx-ext
  EXPECT_EQ(one_device(*apps, 2), 0.125);   // rtx -> -rtx
  EXPECT_EQ(one_device(*apps, 3), -1);      // never recorded: does not run there
  EXPECT_EQ(one_device(*apps, 4), 0.2);     // gpu -> no suffix
}

TEST_F(ArtifactFolder, AFileNamedAfterTheTypeGoesFirst) {
  write("net/placements-aws.csv", placements_with(0.5));
  write("net/placements-t4.csv", placements_with(0.25));
  write("net/placements-dgx-ext.csv", placements_with(0.0625));
  write("net/placements-a100.csv", placements_with(0.03125));
  const auto apps = read("1x4:t4,1x8:a100");
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(one_device(*apps, 0), 0.25);
  EXPECT_EQ(one_device(*apps, 1), 0.03125);
}

TEST_F(ArtifactFolder, T4FallsBackToTheUnnamedFile) {
  const auto apps = read("1x4:t4,1x4:a100");
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(one_device(*apps, 0), 0.2);
  EXPECT_EQ(one_device(*apps, 1), -1);
}

TEST_F(ArtifactFolder, ScalabilityExtendsThePlacements) {
  const auto speed = [&] {
    const auto apps = read();
    EXPECT_TRUE(apps.ok());
    return apps->at("net")
        ->speed(DeviceTypeId(0))
        ->step_time(Placement(DeviceTypeId(0), {4, 4, 4, 4}), 32);
  };
  EXPECT_EQ(speed().confidence, Confidence::kExtrapolated);
  write("net/scalability.csv",
        "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,16,16,0.7,0.5\n4,16,32,0.9,0.5\n"
        "4,4,16,0.6,0.4\n");
  EXPECT_EQ(speed().confidence, Confidence::kInterpolated);
  EXPECT_NEAR(speed().step_s, 0.9, 1e-9);
  write("net/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time\n4,16,16,0.7\n");
  EXPECT_EQ(refused().substr(0, 56), "net/scalability.csv:1:1: column 'sync_time' is missing; ");
  write("net/scalability.csv",
        "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,0,16,0.7,0.5\n");
  EXPECT_EQ(refused(),
            "net/scalability.csv:2:3: num_replicas '0': expected a whole number from 1 to 1000000");
}

TEST_F(ArtifactFolder, SynchronisationLongerThanItsStepIsCut) {
  write("net/placements.csv", "placement,local_bsz,step_time,sync_time\n2,16,0.25,0.3\n");
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  const StepTime time =
      apps->at("net")->speed(DeviceTypeId(0))->step_time(Placement(DeviceTypeId(0), {2}), 16);
  EXPECT_EQ(time.step_s, 0.25);
  EXPECT_DOUBLE_EQ(time.sync_s, 0.999 * 0.25);
}

TEST_F(ArtifactFolder, WithoutAValidationIsRefused) {
  write("other/placements.csv", kPlacements);
  EXPECT_EQ(refused(), "other: no validation-BATCH.csv");
}

TEST_F(ArtifactFolder, ABadValidationIsRefused) {
  const auto with = [&](std::string_view content) {
    write("net/validation-100.csv", content);
    return refused();
  };
  EXPECT_EQ(with("progress,iteration,grad_sqr\n1,1,1\n").substr(0, 57),
            "net/validation-100.csv:1:1: column 'grad_var' is missing;");
  EXPECT_EQ(with("progress,iteration,grad_sqr,grad_var\n1,1,nan,1\n"),
            "net/validation-100.csv:2:5: grad_sqr 'nan': expected a number");
  EXPECT_EQ(with("progress,iteration,grad_sqr,grad_var\n1,1,1,-1\n"),
            "net/validation-100.csv:2:7: grad_var '-1': expected a number from 0 to 1e+300");
  EXPECT_EQ(
      with("progress,iteration,grad_sqr,grad_var\n5,1,1,1\n5,2,1,1\n"),
      "net/validation-100.csv:3:1: progress '5': expected a larger value than in the row before");
  EXPECT_EQ(
      with("progress,iteration,grad_sqr,grad_var\n0,1,1,1\n"),
      "net/validation-100.csv:2:1: progress '0': expected a larger value than in the row before");
  EXPECT_EQ(with("progress,iteration,grad_sqr,grad_var\n"),
            "net/validation-100.csv: no epoch recorded");
  EXPECT_EQ(with(""), "net/validation-100.csv:1:1: the file is empty; expected a header line");
}

TEST_F(ArtifactFolder, ABadNameOfAValidationIsRefused) {
  write("net/validation-large.csv", kValidation);
  EXPECT_EQ(refused(), "net/validation-large.csv: expected validation-BATCH.csv");
  std::filesystem::remove(folder_ + "/net/validation-large.csv");
  write("net/validation-0.csv", kValidation);
  EXPECT_EQ(refused(), "net/validation-0.csv: expected validation-BATCH.csv");
}

TEST_F(ArtifactFolder, BadPlacementsAreRefused) {
  const auto with = [&](std::string_view row) {
    write("net/placements.csv",
          "placement,local_bsz,step_time,sync_time\n" + std::string(row) + "\n");
    return refused();
  };
  EXPECT_EQ(with("102,16,0.2,0"),
            "net/placements.csv:2:1: placement '102': expected one digit from 1 to 9 per node");
  EXPECT_EQ(with("2-2,16,0.2,0"),
            "net/placements.csv:2:1: placement '2-2': expected one digit from 1 to 9 per node");
  EXPECT_EQ(with("1,16,nan,0"), "net/placements.csv:2:6: step_time 'nan': expected a number");
  EXPECT_EQ(with("1,16,0,0"),
            "net/placements.csv:2:6: step_time '0': expected a number from 1e-09 to 1000000");
  EXPECT_EQ(with("1,16,0.2,-1"),
            "net/placements.csv:2:10: sync_time '-1': expected a number from 0 to 1000000");
  EXPECT_EQ(with("1,0,0.2,0"),
            "net/placements.csv:2:3: local_bsz '0': expected a whole number from 1 to 1000000000");
  EXPECT_EQ(with("1,1.5,0.2,0"),
            "net/placements.csv:2:3: local_bsz '1.5': expected a whole number");
  write("net/placements.csv", "placement,local_bsz,step_time,sync_time\n");
  EXPECT_EQ(refused(), "net/placements.csv: no placement was measured");
  write("net/placements.csv", "placement,local_bsz,step\n1,1,1\n");
  EXPECT_EQ(refused().substr(0, 55), "net/placements.csv:1:1: column 'step_time' is missing; ");
}

TEST_F(ArtifactFolder, AnEmptyPlacementIsRefused) {
  write("net/placements.csv", std::string(kPlacements) + ",16,0.2,0\n");
  EXPECT_EQ(refused(),
            "net/placements.csv:8:1: placement '': expected one digit from 1 to 9 per node");
}

using ArtifactFolderDeathTest = ArtifactFolder;

TEST_F(ArtifactFolderDeathTest, AFileOfOneEmptyLineIsRefusedAndDoesNotCrash) {
  write("net/placements.csv", "\n");
  EXPECT_SURVIVES(if (read().ok()) std::_Exit(1));
  write("net/placements.csv", kPlacements);
  write("net/validation-100.csv", "\r\n");
  EXPECT_SURVIVES(if (read().ok()) std::_Exit(1));
}

TEST_F(ArtifactFolder, WhatTheArtifactsKnowAboutTheirApplications) {
  std::string ten = "progress,iteration,grad_sqr,grad_var\n";
  for (int i = 1; i <= 60; ++i) ten += std::to_string(i) + ",1,1,1\n";
  write("ncf/validation-256.csv", ten);
  write("ncf/placements.csv", kPlacements);
  write("yolov3/validation-8.csv", ten);
  write("yolov3/placements.csv", kPlacements);
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(apps->at("ncf")->epochs(), 10);  // of 60 recorded
  EXPECT_TRUE(apps->at("ncf")->fixed_batch());
  EXPECT_EQ(apps->at("ncf")->max_devices(), 1);
  EXPECT_EQ(apps->at("yolov3")->epochs(), 50);
  EXPECT_EQ(apps->at("yolov3")->batch().max_local, 8);
  EXPECT_FALSE(apps->at("yolov3")->fixed_batch());
  write("cifar10/validation-128.csv", ten);  // needs 100
  write("cifar10/placements.csv", kPlacements);
  EXPECT_EQ(refused(), "cifar10: 60 epochs recorded; expected at least 100");
}

// --- the directory -------------------------------------------------------------------------------

TEST_F(Profiles, ADirectoryWithoutAProfileIsRefused) {
  EXPECT_NE(refused().find("no application profile"), std::string::npos);
  write("README.md", "nothing here");
  EXPECT_NE(refused().find("no application profile"), std::string::npos);
  const auto missing = read_profiles(folder_ + "/none", *Cluster::parse("1x1"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST_F(Profiles, BothKindsLiveSideBySide) {
  write("a.json", native());
  write("b/validation-100.csv", kValidation);
  write("b/placements.csv", kPlacements);
  const auto apps = read();
  ASSERT_TRUE(apps.ok()) << apps.error().message;
  EXPECT_EQ(apps->size(), 2U);
}

}  // namespace
}  // namespace rubato
