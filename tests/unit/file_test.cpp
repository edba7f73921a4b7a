// Whole-file helpers and the strict CSV reader.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"

namespace rubato {
namespace {

// Each case has a folder of its own, because cases run in parallel.
class InFolder : public testing::Test {
 protected:
  InFolder() : folder_(testing::TempDir() + "rubato_file_test_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~InFolder() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(std::string_view content) const {
    const Status written = write_file(path("t.csv"), content);
    EXPECT_TRUE(written.ok());
    return path("t.csv");
  }
  std::string folder_;
};

// --- files ---------------------------------------------------------------------------------------

using File = InFolder;

TEST_F(File, WhatWasWrittenIsReadBack) {
  const std::string content("a\0b\r\n\xff end", 10);
  ASSERT_TRUE(write_file(path("f"), content));
  EXPECT_EQ(*read_file(path("f")), content);
  ASSERT_TRUE(write_file(path("f"), ""));  // replaces
  EXPECT_EQ(*read_file(path("f")), "");
  const std::string large(300'001, 'z');  // longer than the read buffer
  ASSERT_TRUE(write_file(path("f"), large));
  EXPECT_EQ(*read_file(path("f")), large);
}

TEST_F(File, NothingIsLeftBesideTheTarget) {
  ASSERT_TRUE(write_file(path("f"), "x"));
  ASSERT_TRUE(write_file(path("f"), "y"));
  EXPECT_EQ(*list_directory(folder_), std::vector<std::string>{"f"});
}

TEST_F(File, AFailedWriteIsAnErrorAndLeavesNothing) {
  const Status nowhere = write_file(path("missing/f"), "x");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
  EXPECT_NE(nowhere.error().message.find("missing/f"), std::string::npos);

  ASSERT_TRUE(write_file(path("f"), "x"));
  const Status below_a_file = write_file(path("f/g"), "x");
  ASSERT_FALSE(below_a_file.ok());
  EXPECT_EQ(below_a_file.error().code, ErrorCode::kIo);

  // The target is a folder: the content is written beside it but cannot replace it.
  ASSERT_TRUE(make_directories(path("d")));
  const Status over_a_folder = write_file(path("d"), "x");
  ASSERT_FALSE(over_a_folder.ok());
  EXPECT_NE(over_a_folder.error().message.find("cannot replace"), std::string::npos);
  EXPECT_EQ(*list_directory(folder_), (std::vector<std::string>{"d", "f"}));
}

TEST_F(File, ADiskThatTakesOnlyAPartIsAnError) {
  // The process may write no file that is larger than this.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status full = write_file(path("f"), std::string(1 << 20, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(full.ok());
  EXPECT_NE(full.error().message.find("cannot write"), std::string::npos);
  EXPECT_TRUE(list_directory(folder_)->empty());
}

TEST_F(File, ReadingNamesTheProblem) {
  const auto missing = read_file(path("nothing"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const auto folder = read_file(folder_);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(folder.error().message.find("is a directory"), std::string::npos);
}

TEST_F(File, FoldersAreMadeAndListedSorted) {
  ASSERT_TRUE(make_directories(path("a/b/c")));
  ASSERT_TRUE(make_directories(path("a/b/c")));  // again is not an error
  EXPECT_TRUE(is_directory(path("a/b/c")));
  EXPECT_FALSE(is_file(path("a")));
  ASSERT_TRUE(write_file(path("z"), ""));
  ASSERT_TRUE(write_file(path("m"), ""));
  EXPECT_TRUE(is_file(path("z")));
  EXPECT_FALSE(is_directory(path("z")));
  EXPECT_EQ(*list_directory(folder_), (std::vector<std::string>{"a", "m", "z"}));
  EXPECT_FALSE(list_directory(path("none")).ok());
  EXPECT_FALSE(list_directory(path("z")).ok());
  EXPECT_FALSE(make_directories(path("z/below")).ok());
}

// --- comma-separated tables ----------------------------------------------------------------------

class Csv : public InFolder {
 protected:
  // The error message for this content, without the folder.
  std::string refused(std::string_view content, const std::vector<std::string>& required = {"a"}) {
    const auto table = CsvTable::read(write(content), required);
    if (table.ok()) return "(accepted)";
    EXPECT_EQ(table.error().code, ErrorCode::kInvalidInput);
    return table.error().message.substr(folder_.size() + 1);
  }
};

TEST_F(Csv, ReadsATable) {
  const auto table = CsvTable::read(write("a,b,c\n1,x,2.5\n-3,,1e3\n"), {"c", "a"});
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->rows(), 2U);
  EXPECT_EQ(table->column("b"), 1);
  EXPECT_EQ(table->column("B"), -1);
  EXPECT_TRUE(table->has_column("c"));
  EXPECT_FALSE(table->has_column(""));
  EXPECT_EQ(table->cell(0, 1), "x");
  EXPECT_EQ(table->cell(1, 1), "");
  EXPECT_EQ(*table->integer(1, 0, {-3, 3}), -3);
  EXPECT_EQ(*table->number(1, 2, {0, 1000}), 1000);
  EXPECT_EQ(table->where(1, 0), path("t.csv:3:1"));
  EXPECT_EQ(table->where(1, 2), path("t.csv:3:5"));
  EXPECT_EQ(table->path(), path("t.csv"));
}

TEST_F(Csv, CellsSurviveAMoveOfTheTable) {
  auto table = CsvTable::read(write("a\nhello\n"), {"a"});
  ASSERT_TRUE(table.ok());
  const CsvTable moved = std::move(*table);
  EXPECT_EQ(moved.cell(0, 0), "hello");
}

TEST_F(Csv, LineEndingsAndTheLastLineMayDiffer) {
  for (const char* content : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\n3,4",
                              "a,b\r\n1,2\n3,4\r", "a,b\n1,2\n3,4\n\n"}) {
    const auto table = CsvTable::read(write(content), {"a", "b"});
    ASSERT_TRUE(table.ok()) << table.error().message;
    ASSERT_EQ(table->rows(), 2U) << content;
    EXPECT_EQ(table->cell(1, 1), "4") << content;
  }
}

TEST_F(Csv, AHeaderAloneIsATableWithoutRows) {
  for (const char* content : {"a,b", "a,b\n"}) {
    const auto table = CsvTable::read(write(content), {"a"});
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table->rows(), 0U);
  }
}

TEST_F(Csv, AMissingFileIsNotFound) {
  const auto table = CsvTable::read(path("none.csv"), {"a"});
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::kNotFound);
}

TEST_F(Csv, AFileWithoutAHeaderIsRefused) {
  EXPECT_EQ(refused(""), "t.csv:1:1: the file is empty; expected a header line");
  // Only an empty line: the required column is missing, too, and without columns rows() would
  // divide by 0.
  EXPECT_NE(refused("\n"), "(accepted)");
  EXPECT_NE(refused("\r\n"), "(accepted)");
  EXPECT_EQ(refused("\na\n1\n"), "t.csv:1:1: the line is empty; expected a header line");
}

TEST_F(Csv, AMissingColumnIsNamed) {
  EXPECT_EQ(refused("x,y\n1,2\n", {"x", "z"}),
            "t.csv:1:1: column 'z' is missing; the header has: 'x,y'");
}

TEST_F(Csv, ARowMustHaveAsManyCellsAsTheHeader) {
  EXPECT_EQ(refused("a,b\n1,2\n1,2,3\n"), "t.csv:3:6: 3 cells; expected 2 as in the header");
  EXPECT_EQ(refused("a,b\n12\n"), "t.csv:2:3: 1 cells; expected 2 as in the header");
  EXPECT_EQ(refused("a,b\n1,2\n3"),
            "t.csv:3:2: 1 cells; expected 2 as in the header (the file ends in the middle of this "
            "line: is it truncated?)");
}

TEST_F(Csv, EmptyLinesInTheMiddleAreRefused) {
  EXPECT_EQ(refused("a\n1\n\n2\n"), "t.csv:3:1: the line is empty");
}

TEST_F(Csv, QuotesAndZeroBytesAreRefused) {
  EXPECT_EQ(refused("a,b\n1,\"2\"\n"),
            "t.csv:2:3: a quote or a zero byte; expected plain comma-separated text");
  EXPECT_EQ(refused(std::string_view("a\nx\0y\n", 6)),
            "t.csv:2:2: a quote or a zero byte; expected plain comma-separated text");
  EXPECT_EQ(refused("\"a\"\n1\n"),
            "t.csv:1:1: a quote or a zero byte; expected plain comma-separated text");
}

TEST_F(Csv, VeryLongLinesAreRefused) {
  EXPECT_EQ(refused("a\n" + std::string(10'000'000, '1') + "\n"),
            "t.csv:2:1: the line has 10000000 characters; expected at most 65536");
  EXPECT_EQ(refused(std::string(10'000'000, 'a')),
            "t.csv:1:1: the line has 10000000 characters; expected at most 65536");
  EXPECT_TRUE(CsvTable::read(write("a\n" + std::string(65536, '1')), {"a"}).ok());
}

TEST_F(Csv, CellsThatAreNoNumbersInRangeNameTheirPlace) {
  const auto table = CsvTable::read(write("a,b\n1.5,nan\n7, 3\n"), {"a"});
  ASSERT_TRUE(table.ok());
  const std::string file = path("t.csv");
  EXPECT_EQ(table->integer(0, 0, {0, 9}).error().message,
            file + ":2:1: a '1.5': expected a whole number");
  EXPECT_EQ(table->number(0, 1, {0, 9}).error().message, file + ":2:5: b 'nan': expected a number");
  EXPECT_EQ(table->number(1, 1, {0, 9}).error().message, file + ":3:3: b ' 3': expected a number");
  EXPECT_EQ(table->number(1, 0, {0, 6.5}).error().message,
            file + ":3:1: a '7': expected a number from 0 to 6.5");
  EXPECT_EQ(table->integer(1, 0, {8, 9}).error().message,
            file + ":3:1: a '7': expected a whole number from 8 to 9");
  EXPECT_TRUE(table->integer(1, 0, {7, 7}).ok());  // the bounds are inclusive
}

TEST_F(Csv, LongCellsAreShownShortened) {
  const auto table = CsvTable::read(write("a\n" + std::string(50, 'q') + "\n"), {"a"});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(
      table->number(0, 0, {0, 1}).error().message,
      path("t.csv:2:1: a '") + std::string(40, 'q') + "...' (50 characters): expected a number");
}

TEST_F(Csv, ManyCommasAreNoProblem) {
  EXPECT_EQ(refused("a\n" + std::string(60'000, ',') + "\n"),
            "t.csv:2:60001: 60001 cells; expected 1 as in the header");
}

}  // namespace
}  // namespace rubato
