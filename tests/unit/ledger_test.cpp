// The ledger continues from the state and detects every lost or repeated sample.
#include "elastic/job/ledger.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "elastic/data/data_order.h"

namespace rubato::elastic {
namespace {

class LedgerFile : public testing::Test {
 protected:
  LedgerFile()
      : folder_(testing::TempDir() + "rubato_ledger_test_" + std::to_string(::getpid())),
        path_(folder_ + "/ledger.jsonl") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LedgerFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Ledger open(std::int64_t next_step) const {
    auto ledger = Ledger::open(path_, next_step);
    EXPECT_TRUE(ledger.ok()) << ledger.error().message;
    return std::move(*ledger);
  }
  static void append(Ledger& ledger, const DataOrder& order, std::int64_t step) {
    std::vector<std::vector<std::int64_t>> samples;
    MiniBatch share;
    for (int i = 0; i < order.options().logical_workers; ++i) {
      order.share(step, i, share);
      samples.push_back(share.samples);
    }
    ASSERT_TRUE(ledger.append(step, order.epoch_of(step), samples));
  }
  std::string open_refused(std::string_view content, std::int64_t next_step) const {
    EXPECT_TRUE(write_file(path_, content));
    const auto ledger = Ledger::open(path_, next_step);
    EXPECT_EQ(*read_file(path_), content) << "a refused file stays as it is";
    return ledger.ok() ? "(accepted)" : ledger.error().message.substr(folder_.size() + 1);
  }
  std::string check_refused(std::string_view content, std::int64_t samples) const {
    EXPECT_TRUE(write_file(path_, content));
    const auto summary = check_ledger(path_, samples);
    return summary.ok() ? "(accepted)" : summary.error().message.substr(folder_.size() + 1);
  }

  std::string folder_;
  std::string path_;
};

const DataOrder kOrder({.seed = 3, .samples = 11, .logical_workers = 2, .batch = 2});

TEST_F(LedgerFile, LinesAreAsDocumented) {
  Ledger ledger = open(0);
  EXPECT_EQ(ledger.next_step(), 0);
  const std::vector<std::vector<std::int64_t>> samples{{4, 12}, {}, {7}};
  ASSERT_TRUE(ledger.append(0, 0, samples));
  ASSERT_TRUE(ledger.append(1, 2, {}));
  EXPECT_EQ(ledger.next_step(), 2);
  EXPECT_EQ(*read_file(path_),
            "{\"step\":0,\"epoch\":0,\"samples\":[[4,12],[],[7]]}\n"
            "{\"step\":1,\"epoch\":2,\"samples\":[]}\n");
}

TEST_F(LedgerFile, ReopenedAtAnyStepItEndsUpTheSame) {
  Ledger whole = open(0);
  for (std::int64_t step = 0; step < 9; ++step) append(whole, kOrder, step);
  const std::string expected = *read_file(path_);
  for (std::int64_t again = 0; again <= 9; ++again) {
    Ledger ledger = open(again);
    EXPECT_EQ(ledger.next_step(), again);
    for (std::int64_t step = again; step < 9; ++step) append(ledger, kOrder, step);
    EXPECT_EQ(*read_file(path_), expected);
  }
  const auto summary = check_ledger(path_, 11);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 9);
  EXPECT_EQ(summary->epochs_complete, 3);
}

TEST_F(LedgerFile, ATornLastLineIsCutOffWhereverItWasTorn) {
  Ledger whole = open(0);
  for (std::int64_t step = 0; step < 4; ++step) append(whole, kOrder, step);
  const std::string expected = *read_file(path_);
  for (std::size_t length = 0; length < expected.size(); ++length) {
    ASSERT_TRUE(write_file(path_, expected.substr(0, length)));
    Ledger ledger = open(4);
    EXPECT_LT(ledger.next_step(), 4);  // shows which lines are missing
    for (std::int64_t step = ledger.next_step(); step < 4; ++step) append(ledger, kOrder, step);
    EXPECT_EQ(*read_file(path_), expected) << "torn at " << length;
  }
}

TEST_F(LedgerFile, AFormerLeaderThatWakesUpLateChangesNothing) {
  Ledger former = open(0);
  append(former, kOrder, 0);
  Ledger leader = open(1);
  append(leader, kOrder, 1);
  append(leader, kOrder, 2);
  const std::string expected = *read_file(path_);
  append(former, kOrder, 1);
  EXPECT_EQ(*read_file(path_), expected);
}

// The former leader was stopped on another machine, where nobody could end it, while it opened the
// file.
TEST_F(LedgerFile, WhatAFormerLeaderCutsOffIsNoticedAndWrittenAgain) {
  const std::vector<std::vector<std::int64_t>> samples{{7}};
  Ledger ledger = std::move(*Ledger::open(path_, 0));
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(ledger.append(step, 0, samples).ok());
  EXPECT_TRUE(ledger.intact());
  const std::string whole = *read_file(path_);
  {
    const Result<Ledger> former = Ledger::open(path_, 2);
    ASSERT_TRUE(former.ok());
  }
  EXPECT_FALSE(ledger.intact());
  ASSERT_TRUE(ledger.append(5, 0, samples).ok());
  EXPECT_FALSE(ledger.intact());
  Result<Ledger> again = Ledger::open(path_, 6);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->next_step(), 2);
  for (int step = 2; step < 5; ++step) ASSERT_TRUE(again->append(step, 0, samples).ok());
  EXPECT_TRUE(again->intact());
  EXPECT_EQ(*read_file(path_), whole);
}

TEST_F(LedgerFile, LongLinesAndManyLinesAreRead) {
  const DataOrder order({.seed = 1, .samples = 200'000, .logical_workers = 4, .batch = 25'000});
  {
    Ledger ledger = open(0);
    for (std::int64_t step = 0; step < 4; ++step) append(ledger, order, step);
  }
  EXPECT_EQ(open(4).next_step(), 4);
  EXPECT_EQ(check_ledger(path_, 200'000)->epochs_complete, 2);
}

TEST_F(LedgerFile, OtherFilesAreRefusedWithTheLine) {
  EXPECT_EQ(open_refused("my notes\n", 5).find("ledger.jsonl:1: not a ledger line"), 0U);
  EXPECT_EQ(open_refused("my notes\n", 0).find("ledger.jsonl:1: not a ledger line"), 0U);
  const std::string good = "{\"step\":0,\"epoch\":0,\"samples\":[[0]]}\n";
  EXPECT_EQ(open_refused(good + "garbage\n", 5).find("ledger.jsonl:2: not a ledger line"), 0U);
  EXPECT_EQ(open_refused(good + "\n" + good, 5).find("ledger.jsonl:2: not a ledger line"), 0U);
  EXPECT_EQ(open_refused(good + good, 5).find("ledger.jsonl:2: step 0; expected step 1"), 0U);
  EXPECT_EQ(open_refused("{\"step\":-1,\"epoch\":0,\"samples\":[]}\n", 5).find("ledger.jsonl:1: "),
            0U);
  EXPECT_EQ(open_refused("{\"step\":99999999999999999999,\"epoch\":0,\"samples\":[]}\n", 5)
                .find("ledger.jsonl:1: "),
            0U);
}

TEST_F(LedgerFile, AFileThatCannotBeOpenedIsNamed) {
  const auto below = Ledger::open(folder_ + "/none/l", 0);
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.error().code, ErrorCode::kNotFound);
  EXPECT_NE(below.error().message.find(folder_ + "/none/l: cannot open the ledger"),
            std::string::npos);
  EXPECT_FALSE(Ledger::open(folder_, 0).ok());
  EXPECT_FALSE(check_ledger(folder_ + "/none", 3).ok());
}

TEST_F(LedgerFile, AFullDiskIsAnErrorAndTheLineCanBeTriedAgain) {
  Ledger ledger = open(0);
  append(ledger, kOrder, 0);
  const std::string before = *read_file(path_);
  // Files longer than this cannot be written while the limit is set.
  auto* const handler_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit_before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_before), 0);
  rlimit low = limit_before;
  low.rlim_cur = before.size() + 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const std::vector<std::vector<std::int64_t>> samples{{1, 2, 3}};
  const Status full = ledger.append(1, 0, samples);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit_before), 0);
  std::signal(SIGXFSZ, handler_before);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().message.find(path_ + ": cannot append step 1 to the ledger"), 0U);
  EXPECT_EQ(ledger.next_step(), 1);
  ASSERT_TRUE(ledger.append(1, 0, samples));
  EXPECT_EQ(*read_file(path_), before + "{\"step\":1,\"epoch\":0,\"samples\":[[1,2,3]]}\n");
}

TEST_F(LedgerFile, ThingsThatAreNoFilesAreRefused) {
  EXPECT_FALSE(Ledger::open("/dev/zero", 3).ok());  // endless
}

TEST_F(LedgerFile, LostAndRepeatedSamplesAreFound) {
  const auto line = [](int step, int epoch, const std::string& samples) {
    return "{\"step\":" + std::to_string(step) + ",\"epoch\":" + std::to_string(epoch) +
           ",\"samples\":" + samples + "}\n";
  };
  EXPECT_EQ(check_refused("", 3), "(accepted)");
  EXPECT_EQ(check_refused(line(0, 0, "[[2],[0,1]]") + line(1, 1, "[[1]]"), 3), "(accepted)");
  EXPECT_EQ(check_refused(line(0, 0, "[[2],[0,2]]"), 3),
            "ledger.jsonl:1: epoch 0 uses sample 2 twice, in steps 0 and 0");
  EXPECT_EQ(check_refused(line(0, 0, "[[2],[0]]") + line(1, 0, "[[0]]"), 3),
            "ledger.jsonl:2: epoch 0 uses sample 0 twice, in steps 0 and 1");
  EXPECT_EQ(check_refused(line(0, 0, "[[2],[0]]") + line(1, 1, "[[0]]"), 3),
            "ledger.jsonl:2: epoch 1; expected 0, which lacks sample 1");
  EXPECT_EQ(check_refused(line(0, 0, "[[3]]"), 3),
            "ledger.jsonl:1: epoch 0 uses sample 3; there are only 3");
  EXPECT_EQ(check_refused(line(0, 0, "[[-1]]"), 3),
            "ledger.jsonl:1: epoch 0 uses sample -1; there are only 3");
  EXPECT_EQ(check_refused(line(0, 1, "[[0]]"), 3).find("ledger.jsonl:1: epoch 1; expected 0"), 0U);
  EXPECT_EQ(check_refused(line(1, 0, "[[0]]"), 3), "ledger.jsonl:1: step 1; expected 0");
  EXPECT_EQ(check_refused(line(0, 0, "[0]"), 3).find("ledger.jsonl:1: "), 0U);
  EXPECT_EQ(check_refused(line(0, 0, "[[\"a\"]]"), 3).find("ledger.jsonl:1: "), 0U);
  EXPECT_EQ(check_refused(line(0, 0, "[[1.5]]"), 3).find("ledger.jsonl:1: "), 0U);
  EXPECT_EQ(check_refused("nothing\n", 3).find("ledger.jsonl:1: not a ledger line"), 0U);
  EXPECT_EQ(check_refused(line(0, 0, "[[0]]") + "{\"step\":1", 3).find("ledger.jsonl:2: the line"),
            0U);
}

}  // namespace
}  // namespace rubato::elastic
