// Which files of a job its owner gets, and what a job cannot make the daemon read.
#include "control/result_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

class ResultFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"results/model", "logs", "checkpoints", "registry"}) {
      std::filesystem::create_directories(place_.folder + "/" + name);
    }
    std::filesystem::create_directories(root_ / "8/outputs");
    write("results/a.txt", "alpha");
    write("results/model/w.bin", "weights");
    write("result.json", "{}");
    write("secret", "hidden");
    write("supervise.json", "environment");
    std::ofstream(root_ / "8/outputs/other") << "of another job";
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(place_.folder + "/" + name, std::ios::binary) << text;
  }
  std::string read(const std::string& path) const {
    const Result<OpenFile> file = open_result(place_, path);
    return file.ok() ? file->read(0, 1000) : file.error().message;
  }
  std::string names(const std::string& path) const {
    const Result<ResultList> list = list_results(place_, path, "", 100);
    if (!list.ok()) return list.error().message;
    std::string text;
    for (const ResultEntry& entry : list->entries) {
      text += entry.name;
      text += entry.kind == ResultEntry::Kind::kFolder ? "/ "
              : entry.kind == ResultEntry::Kind::kLink ? "@ "
                                                       : " ";
    }
    return text;
  }
  TemporaryFolder root_;
  const ResultPlace place_{.folder = root_ / "7", .outputs = "results"};
};

TEST_F(ResultFilesTest, HaveTheirNames) {
  EXPECT_EQ(names(""), "checkpoints/ logs/ outputs/ result.json ");
  EXPECT_EQ(names("outputs"), "a.txt model/ ");
  EXPECT_EQ(names("outputs/model/"), "w.bin ");
  EXPECT_EQ(read("outputs/a.txt"), "alpha");
  EXPECT_EQ(read("a.txt"), "alpha") << "what begins with none of the names is one of the outputs";
  EXPECT_EQ(read("model/w.bin"), "weights");
  EXPECT_EQ(read("result.json"), "{}");
  EXPECT_EQ(list_results(place_, "model", "", 10)->path, "outputs/model");
  const Result<ResultList> file = list_results(place_, "model/w.bin", "", 10);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->is_file);
  EXPECT_EQ(file->entries.at(0).size, 7);
}

TEST_F(ResultFilesTest, NothingElseIsServed) {
  for (const char* path :
       {"../8/outputs/other", "outputs/../../8/outputs/other", "outputs/../secret", "/etc/passwd",
        "outputs//etc", "./secret", "outputs/.", ".."}) {
    EXPECT_FALSE(open_result(place_, path).ok()) << path;
    EXPECT_FALSE(list_results(place_, path, "", 10).ok()) << path;
  }
  EXPECT_FALSE(open_result(place_, std::string_view("a.txt\0b", 7)).ok());
  EXPECT_EQ(read("secret"), "outputs/secret: no such file");
  EXPECT_EQ(read("supervise.json"), "outputs/supervise.json: no such file");
  EXPECT_EQ(read("registry"), "outputs/registry: no such file");
  EXPECT_EQ(open_result(place_, "secret").error().code, ErrorCode::kNotFound);
}

TEST_F(ResultFilesTest, LinksAreShownAndNotFollowed) {
  symlink("/etc/passwd", (place_.folder + "/results/link").c_str());
  symlink("../../8/outputs", (place_.folder + "/results/folder").c_str());
  symlink("a.txt", (place_.folder + "/results/inside").c_str());
  mkfifo((place_.folder + "/results/fifo").c_str(), 0600);
  EXPECT_EQ(names("outputs"), "a.txt fifo folder@ inside@ link@ model/ ");
  for (const char* path : {"link", "folder/other", "inside", "fifo"}) {
    const Result<OpenFile> file = open_result(place_, path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.error().code, ErrorCode::kInvalidInput) << file.error().message;
    EXPECT_EQ(file.error().message.find(root_.path()), std::string::npos) << file.error().message;
  }
  EXPECT_FALSE(list_results(place_, "folder", "", 10).ok());
  // The folder of outputs itself may be a link.
  std::filesystem::remove_all(place_.folder + "/results");
  symlink("../8/outputs", (place_.folder + "/results").c_str());
  EXPECT_FALSE(list_results(place_, "outputs", "", 10).ok());
  EXPECT_FALSE(open_result(place_, "outputs/other").ok());
  EXPECT_EQ(names(""), "checkpoints/ logs/ result.json ");
}

TEST_F(ResultFilesTest, LargeFoldersComeInPages) {
  for (int i = 0; i < 25; ++i) write("checkpoints/c" + std::to_string(100 + i), "x");
  write("checkpoints/\xff", "not UTF-8");
  write("checkpoints/\x1b[31m", "a terminal would obey it");
  std::vector<std::string> seen;
  std::string after;
  for (int page = 0; page < 4; ++page) {
    const Result<ResultList> list = list_results(place_, "checkpoints", after, 10);
    ASSERT_TRUE(list.ok());
    EXPECT_EQ(list->unnamed, 2);
    EXPECT_LE(list->entries.size(), 10U);
    for (const ResultEntry& entry : list->entries) seen.push_back(entry.name);
    if (!list->more) break;
    after = seen.back();
  }
  ASSERT_EQ(seen.size(), 25U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(OutputsField, TakesAFolderOfTheJob) {
  for (const char* good : {"outputs", "results", "work/results", "a/b/c", "model-1"}) {
    EXPECT_EQ(outputs_problem(good), "") << good;
  }
  for (const char* bad : {"", "/data", "..", "a/../b", "logs", "logs/x", "registry", "work",
                          "secret", "result.json", "checkpoints", "a//b", "."}) {
    EXPECT_NE(outputs_problem(bad), "") << bad;
  }
}

}  // namespace
}  // namespace rubato::control
