// What the daemon reads of a job's folder: for anything that is there, the reader returns bounded
// data, in time, and does not throw.
#include "control/job_files.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "control/event_tail.h"
#include "control/hostile_bytes.h"
#include "control/job_errors.h"
#include "control/job_progress.h"
#include "control/job_registry.h"
#include "control/temporary_folder.h"
#include "elastic/job/job_folder.h"
#include "elastic/memory/board.h"
#include "elastic/memory/board_glance.h"

namespace rubato::control {
namespace {

std::uint64_t first_seed() {
  const char* given = std::getenv("RUBATO_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

class JobFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(job_ + "/registry"); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(job_ + "/" + name, std::ios::binary) << text;
  }
  TemporaryFolder root_;
  const std::string job_ = root_.path() + "/7";
};

TEST_F(JobFilesTest, ReadsAFileOfTheJob) {
  write("status.json", "{\"state\":\"running\"}");
  write("registry/view.1", "text");
  ASSERT_TRUE(read_job_object(job_, "status.json", 100).ok());
  EXPECT_EQ(*read_job_file(job_, "registry/view.1", 100), "text");
  EXPECT_EQ(read_job_file(job_, "nothing", 100).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_job_file(job_ + "0", "nothing", 100).error().code, ErrorCode::kNotFound);
  const auto large = read_job_file(job_, "status.json", 5);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message, job_ + "/status.json: has 19 bytes; expected at most 5");
}

TEST_F(JobFilesTest, RefusesWhatIsNoFile) {
  symlink("/etc/passwd", (job_ + "/link").c_str());
  symlink("/etc", (job_ + "/folder").c_str());
  mkfifo((job_ + "/fifo").c_str(), 0600);
  for (const char* name : {"link", "folder/passwd", "fifo", "registry"}) {
    const auto read = read_job_file(job_, name, 1 << 20);
    ASSERT_FALSE(read.ok()) << name;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidInput) << read.error().message;
    EXPECT_EQ(last_line_of(job_, name), "");
    EXPECT_FALSE(is_job_file(job_, name));
  }
  EXPECT_TRUE(list_job_folder(job_, "folder").empty());
  // Nor is the job's folder itself.
  symlink(job_.c_str(), (root_.path() + "/8").c_str());
  write("status.json", "{}");
  EXPECT_FALSE(read_job_file(root_.path() + "/8", "status.json", 100).ok());
}

TEST_F(JobFilesTest, MovesAsideWhatIsNoFile) {
  mkfifo((job_ + "/fifo").c_str(), 0600);
  std::filesystem::create_directories(job_ + "/full/more");
  write("file", "text");
  for (const char* name : {"fifo", "full", "file", "nothing"}) clear_way(job_, name);
  EXPECT_FALSE(std::filesystem::exists(job_ + "/fifo"));
  EXPECT_FALSE(std::filesystem::exists(job_ + "/full"));
  EXPECT_TRUE(is_job_file(job_, "file"));
}

TEST_F(JobFilesTest, DepthIsBoundedBeforeAnythingIsBuilt) {
  EXPECT_TRUE(parse_untrusted("[[1]]", 2).is_array());
  EXPECT_TRUE(parse_untrusted("[[[1]]]", 2).is_discarded());
  EXPECT_TRUE(parse_untrusted("[\"[[[[\\\"[[[\"]", 2).is_array());
  EXPECT_TRUE(parse_untrusted(std::string(10'000'000, '[')).is_discarded());
}

TEST_F(JobFilesTest, PlainTextCanBeStored) {
  EXPECT_EQ(plain_text("a\nb\x01\xff"
                       "c"),
            "a\nb??c");
  EXPECT_EQ(plain_text("na\xc3\xafve", 3), "na");
  Random random(first_seed());
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random.below(60), '\0');
    for (char& c : bytes) c = static_cast<char>(random.below(256));
    const std::string plain = plain_text(bytes, 40);
    ASSERT_LE(plain.size(), 40u);
    ASSERT_NO_THROW(static_cast<void>(nlohmann::json(plain).dump()));
  }
}

// The property: whatever is at the place of a file, every reader returns, and returns bounded data.
TEST_F(JobFilesTest, AnythingCanBeRead) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 2000; ++seed) {
    SCOPED_TRACE(fmt::format("repeat with RUBATO_SEED={}", seed));
    Random random(seed);
    const std::string name = random.below(2) == 0 ? "events.jsonl" : "registry/view.1";
    place_hostile(job_ + "/" + name, root_ / "elsewhere", random);
    const auto text = read_job_file(job_, name, 1000);
    ASSERT_LE(text.ok() ? text->size() : 0, 1000u);
    const auto object = read_job_object(job_, name, kMostRecordBytes);
    if (object.ok()) {
      const std::string problem = status_problem(*object) + result_problem(*object) +
                                  record_problem("view", *object) +
                                  record_problem("target", *object) + line_problem(*object);
      ASSERT_LE(problem.size(), 5000u);
    }
    ASSERT_LE(last_line_of(job_, name).size(), kMostText);
    EventTail tail(job_, name, static_cast<std::int64_t>(random.below(100)), kMostLineBytes);
    for (int turn = 0; turn < 5; ++turn) {
      const EventTail::Piece piece = tail.read();
      ASSERT_LE(piece.bytes, 4 * kMostLineBytes);
      for (const EventTail::Line& line : piece.lines) {
        ASSERT_TRUE(line.value.is_object());
        ASSERT_LE(line_problem(line.value).size(), 2000u);
      }
    }
    JobRegistry registry(job_);
    const auto view = elastic::newest_view(registry);
    ASSERT_LE(view.ok() ? view->logical_workers() : 0, elastic::kMostLogicalWorkers);
    static_cast<void>(elastic::newest_target(registry));
    JobProgress progress(job_);
    static_cast<void>(progress.look(registry));
    ASSERT_NO_THROW(static_cast<void>(progress.body().dump()));
    remove_anything(job_ + "/" + name);
  }
}

TEST_F(JobFilesTest, AFileMayChangeWhileItIsRead) {
  std::atomic<bool> enough{false};
  std::thread writer([&] {
    Random random(first_seed());
    while (!enough) place_hostile(job_ + "/events.jsonl", "/dev/null", random);
  });
  EventTail tail(job_, "events.jsonl", 0, kMostLineBytes);
  for (int i = 0; i < 3000; ++i) {
    for (const EventTail::Line& line : tail.read().lines) ASSERT_TRUE(line.value.is_object());
    static_cast<void>(read_job_object(job_, "events.jsonl", kMostResultBytes));
  }
  enough = true;
  writer.join();
}

TEST_F(JobFilesTest, TheRegistryIsTheOneOfTheWorkers) {
  auto theirs = elastic::FileRegistry::open(job_ + "/registry");
  ASSERT_TRUE(theirs.ok());
  JobRegistry ours(job_);
  for (int workers = 1; workers <= 9; ++workers) {
    elastic::Registry& one = workers % 2 == 0 ? static_cast<elastic::Registry&>(ours) : **theirs;
    elastic::Registry& other = workers % 2 == 0 ? **theirs : static_cast<elastic::Registry&>(ours);
    ASSERT_TRUE(elastic::change_target(one, [&](elastic::Target& target) {
                  target.workers = workers;
                  return ok_status();
                }).ok());
    std::int64_t version = 0;
    const auto target = elastic::newest_target(other, &version);
    ASSERT_TRUE(target.ok()) << target.error().message;
    EXPECT_EQ(target->workers, workers);
    EXPECT_EQ(version, workers);
  }
  EXPECT_FALSE(*ours.compare_and_swap("target", 3, "{}"));
  write("registry/target.10", "{\"workers\":\"all\"}");
  EXPECT_EQ(elastic::newest_target(ours).error().code, ErrorCode::kInvalidInput);
  remove_anything(job_ + "/registry");
  EXPECT_EQ(elastic::newest_target(ours).error().code, ErrorCode::kInvalidInput);
}

// Touching a mapping of this board would kill with SIGBUS.
TEST_F(JobFilesTest, ABoardMayBeGarbageAndBecomeShorter) {
  const std::string name = fmt::format("rubato.test{}.local.board.0", getpid());
  auto board = elastic::Board::create(name, {.logical_workers = 2, .gradient_floats = 10});
  ASSERT_TRUE(board.ok()) << board.error().message;
  board->start_block(1, 1, 0);
  board->block(1).rows[0].step_us = 1500;
  board->completed() = 4;
  board->slot(0, 5) = {.loss = 2, .samples = 1};
  board->slot(1, 5) = {.loss = 4, .samples = 1};
  auto glance = elastic::BoardGlance::open(name);
  ASSERT_TRUE(glance.ok()) << glance.error().message;
  EXPECT_EQ(glance->progress()->completed, 4);
  EXPECT_EQ(glance->step_us(1, 0), 1500);
  EXPECT_EQ(glance->mean_loss(2, 4), elastic::mean_loss(*board, 2, 4));
  board->block(1).rows[0].step_us = -7;
  EXPECT_FALSE(glance->step_us(1, 0));
  EXPECT_FALSE(glance->step_us(2, 0));
  EXPECT_FALSE(glance->step_us(1, 100'000));
  board->completed() = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(glance->progress());
  const int memory = shm_open(("/" + name).c_str(), O_RDWR, 0);
  Random random(first_seed());
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(8 + random.below(300), '\0');
    for (char& c : bytes) c = static_cast<char>(random.below(256));
    const auto at = static_cast<off_t>(8 + random.below(400));
    ASSERT_EQ(pwrite(memory, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
    static_cast<void>(glance->progress());
    const auto loss = glance->mean_loss(elastic::kMostLogicalWorkers, random.below(2));
    EXPECT_TRUE(std::isfinite(loss.value_or(0)));
  }
  for (const off_t size : {5000, 100, 8, 0}) {
    ASSERT_EQ(ftruncate(memory, size), 0);
    EXPECT_FALSE(glance->step_us(1, 0));
    EXPECT_FALSE(glance->mean_loss(2, 4));
  }
  EXPECT_FALSE(glance->progress());
  EXPECT_FALSE(elastic::BoardGlance::open(name).ok());
  close(memory);
  elastic::remove_segment(name);
}

TEST(JobSchemas, EachFieldOfEachLineHasATypeAndARange) {
  for (const FileSchema& schema : line_schemas()) {
    nlohmann::json sound = {{"type", schema.name}};
    for (const FileField& field : schema.fields) {
      sound[std::string(field.name)] = parse_json(sound_value(field));
    }
    EXPECT_EQ(line_problem(sound), "");
    for (const FileField& field : schema.fields) {
      const std::string name(field.name);
      const bool numbers = field.kind == FileFieldKind::kNumbers;
      for (const char* value : {"null", "true", numbers ? R"({"a": {}})" : "{}", "1e300", "-2",
                                R"({"a b": 1})", R"({"a": "x"})", R"({"": 1})"}) {
        nlohmann::json confused = sound;
        confused[name] = parse_json(value);
        EXPECT_TRUE(
            line_problem(confused).starts_with(fmt::format("{}: `{}` is ", schema.name, name)))
            << name << " " << value;
      }
      nlohmann::json without = sound;
      without.erase(name);
      EXPECT_EQ(line_problem(without).empty(), !field.required) << name;
    }
  }
  EXPECT_EQ(line_problem({{"type", "new"}}), "`type` is \"new\", which this version does not know");
}

TEST(JobErrors, AreToldOncePerKindAndSummedUp) {
  JobErrors errors;
  for (int i = 0; i < 1000; ++i) errors.note("events", "here", "wrong");
  errors.note("status", "there", "wrong");
  auto told = errors.take();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0]["place"], "here");
  EXPECT_TRUE(errors.take().empty());
  errors.sum_up();
  told = errors.take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["count"], 1000);
  JobErrors next;  // of the next daemon
  next.know({{"events", {{"place", "here"}, {"message", "wrong"}, {"count", 1000}}}});
  next.note("events", "here", "wrong");
  EXPECT_TRUE(next.take().empty());
}

TEST(LineBudget, AllowsABurstAndThenARate) {
  LineBudget budget;
  auto now = std::chrono::steady_clock::time_point(std::chrono::seconds(1000));
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) taken += budget.take(100, now) ? 1 : 0;
  EXPECT_EQ(taken, LineBudget::kLineBurst);
  now += std::chrono::seconds(10);
  for (int i = 0; i < 100; ++i) taken += budget.take(100, now) ? 1 : 0;
  EXPECT_EQ(taken, LineBudget::kLineBurst + 10 * LineBudget::kLinesPerSecond);
  now += std::chrono::seconds(10);
  EXPECT_FALSE(budget.take(11 * LineBudget::kLineUnit, now)) << "a long line counts as several";
  EXPECT_TRUE(budget.take(10 * LineBudget::kLineUnit, now));
}

}  // namespace
}  // namespace rubato::control
