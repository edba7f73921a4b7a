// The store under faults: its process is killed, the disk is full, the file is damaged.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/json_text.h"
#include "base/random.h"
#include "control/random_events.h"
#include "control/sqlite.h"
#include "control/store.h"
#include "control/temporary_folder.h"
#include "control/whole_state.h"

namespace rubato::control {
namespace {

using nlohmann::json;

// Runs `body` in its own process. The return value of the body becomes the exit code.
pid_t start(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

// --- kill -9 ------------------------------------------------------------------------------------

// Appends random groups forever. After each append() it writes the group's events to the pipe, one
// per line. From then on they must never be lost.
int append_and_acknowledge(const std::string& folder, std::uint64_t seed, int pipe) {
  auto store = Store::open(folder);
  if (!store.ok()) return 2;
  RandomEvents events(seed);
  Random random(seed + 1'000'000);
  while (true) {
    std::vector<Event> group;
    const int size = random.between(1, 3);
    for (int i = 0; i < size; ++i) group.push_back(events.next((*store)->state()));
    if (!(*store)->append(group).ok()) continue;
    std::string lines;
    for (const Event& event : group) lines += compact_json(to_json(event)) + "\n";
    if (::write(pipe, lines.data(), lines.size()) < 0) return 3;
  }
}

// Kills the process some time after its first acknowledgement. Returns what was acknowledged.
std::string run_and_kill(const std::string& folder, std::uint64_t seed) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = start([&] { return append_and_acknowledge(folder, seed, ends[1]); });
  ::close(ends[1]);
  std::string acknowledged;
  Random random(seed);
  const std::size_t enough = 1 + random.below(20'000);
  bool killed = false;
  char buffer[4096];
  for (ssize_t size = 1; size > 0;) {
    if (!killed && acknowledged.size() >= enough) {
      ::usleep(random.below(3000));  // anywhere inside an append
      ::kill(child, SIGKILL);
      killed = true;
    }
    size = ::read(ends[0], buffer, sizeof buffer);
    if (size > 0) acknowledged.append(buffer, static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(killed && WIFSIGNALED(status)) << "the process ended by itself: " << status;
  return acknowledged;
}

TEST(StoreFaults, KilledAtAnyMomentItLosesNothingThatWasAcknowledged) {
  const TemporaryFolder folder;
  std::int64_t total = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string acknowledged = run_and_kill(folder.path(), seed);
    const auto replayed = Store::replay(folder.path());
    ASSERT_TRUE(replayed.ok()) << replayed.error().message;
    const auto store = Store::open(folder.path());
    ASSERT_TRUE(store.ok()) << store.error().message;
    ASSERT_EQ(to_json(whole_state(**store)), to_json(*replayed));
    for (std::size_t at = 0; at < acknowledged.size();) {
      const std::size_t end = acknowledged.find('\n', at);
      const json expected = parse_json_or_throw(acknowledged.substr(at, end - at));
      at = end + 1;
      const auto seq = expected.at("seq").get<std::int64_t>();
      const auto found = (*store)->read_events(seq - 1, 1, 0, "");
      ASSERT_TRUE(found.ok());
      ASSERT_EQ(found->size(), 1U) << "event " << seq << " is lost";
      ASSERT_EQ(to_json(found->front()), expected);
      ++total;
    }
  }
  EXPECT_GT(total, 200);
}

// --- A full disk --------------------------------------------------------------------------------

// Fills the file up to a size limit and beyond. Returns what went wrong, or "".
std::string overfill(const std::string& folder) {
  std::signal(SIGXFSZ, SIG_IGN);
  auto opened = Store::open(folder);
  if (!opened.ok()) return opened.error().message;
  Store& store = **opened;
  const auto append = [&]() -> Status {
    Event event{.at = 1, .type = "submitted", .job = store.state().next_job, .tenant = "red"};
    event.body = {{"document", {{"run", {"train", std::string(5000, 'x')}}}}};
    return store.append({&event, 1});
  };
  if (!append().ok()) return "the first append failed";
  struct rlimit limit {};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const struct rlimit unlimited = limit;
  limit.rlim_cur = 300'000;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  Status status = ok_status();
  json before;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    before = to_json(store.state());
    status = append();
  }
  if (status.ok()) return "nothing failed";
  if (status.error().code != ErrorCode::kIo) return "not kIo: " + status.error().message;
  if (to_json(store.state()) != before) return "a failed append changed the state";
  if (append().ok()) return "the second append beyond the limit succeeded";
  const auto still = Store::replay(folder);
  if (!still.ok()) return still.error().message;
  if (to_json(*still) != before) return "a failed append is in the log";
  // Now there is space again.
  ::setrlimit(RLIMIT_FSIZE, &unlimited);
  if (status = append(); !status.ok()) return "later: " + status.error().message;
  const auto replayed = Store::replay(folder);
  if (!replayed.ok()) return replayed.error().message;
  if (to_json(*replayed) != to_json(store.state())) return "the log differs from the state";
  return "";
}

TEST(StoreFaults, AFullDiskIsAnErrorThatChangesNothing) {
  const TemporaryFolder folder;
  const std::string said = folder / "said";
  const pid_t child = start([&] {
    const std::string problem = overfill(folder / "state");
    std::signal(SIGXFSZ, SIG_IGN);
    return write_file(said, problem).ok() && problem.empty() ? 0 : 1;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << *read_file(said);
}

// --- A damaged file -----------------------------------------------------------------------------

// The daemon's loop waited up to 10 s for it.
TEST(StoreFaults, ALockOfAnotherProgramIsAnErrorThatPasses) {
  const TemporaryFolder folder;
  auto store = Store::open(folder.path());
  ASSERT_TRUE(store.ok()) << store.error().message;
  RandomEvents events(1);
  auto other = Database::open(folder / "rubato.db");
  ASSERT_TRUE(other.ok()) << other.error().message;
  ASSERT_TRUE(other->execute("BEGIN IMMEDIATE").ok());
  std::vector<Event> group{events.next((*store)->state())};
  const Status refused = (*store)->append(group);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_EQ((*store)->state().last_seq, 0);
  ASSERT_TRUE(other->execute("ROLLBACK").ok());
  const Status appended = (*store)->append(group);
  EXPECT_TRUE(appended.ok()) << appended.error().message;
}

TEST(StoreFaults, ADamagedFileIsRefusedAndLeftAsItIs) {
  const TemporaryFolder folder;
  const std::string path = folder / "state/rubato.db";
  {
    const auto store = Store::open(folder / "state");
    ASSERT_TRUE(store.ok());
    for (JobNumber job = 1; job <= 200; ++job) {
      Event event{.at = 1, .type = "submitted", .job = job, .tenant = "red"};
      event.body = {{"document", {{"run", {"train", std::string(300, 'x')}}}}};
      ASSERT_TRUE((*store)->append({&event, 1}).ok());
    }
  }
  const std::string sound = *read_file(path);
  ASSERT_GT(sound.size(), 100'000U);
  const auto overwritten = [&](std::size_t at, std::size_t size, char c) {
    return std::string(sound).replace(at, size, std::string(size, c));
  };
  const std::vector<std::pair<std::string, std::string>> damages{
      {"cut in half", sound.substr(0, sound.size() / 2)},
      {"cut in a page", sound.substr(0, sound.size() / 2 + 100)},
      {"no header", overwritten(0, 100, 'x')},
      {"first page zero", overwritten(0, 4096, '\0')},
      {"a page of zeros", overwritten(3 * 4096, 4096, '\0')},
      {"a page of noise", overwritten(20 * 4096, 4096, '\xa5')},
      {"not a database", "run: train\n"},
  };
  for (const auto& [name, bytes] : damages) {
    ASSERT_TRUE(write_file(path, bytes).ok());
    const auto store = Store::open(folder / "state");
    ASSERT_FALSE(store.ok()) << name;
    EXPECT_TRUE(store.error().message.starts_with(path)) << name << store.error().message;
    EXPECT_NE(store.error().message.find("was left unchanged"), std::string::npos)
        << name << ": " << store.error().message;
    EXPECT_EQ(*read_file(path), bytes) << name;
  }
  ASSERT_TRUE(write_file(path, sound).ok());
  const auto store = Store::open(folder / "state");
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ((*store)->state().jobs.size(), 200U);
}

// Random damage leads to an error or to a store that works, never to a crash.
TEST(StoreFaults, RandomDamageNeverCrashes) {
  const TemporaryFolder folder;
  const std::string path = folder / "state/rubato.db";
  {
    const auto store = Store::open(folder / "state");
    ASSERT_TRUE(store.ok());
    RandomEvents events(1);
    for (int i = 0; i < 300; ++i) {
      Event event = events.next((*store)->state());
      static_cast<void>((*store)->append({&event, 1}));
    }
  }
  const std::string sound = *read_file(path);
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::string bytes = sound;
    const int changes = random.between(1, 200);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(bytes.size()));
      bytes[at] = static_cast<char>(random.below(256));
    }
    remove_tree(path + "-wal");
    ASSERT_TRUE(write_file(path, bytes).ok());
    const auto replayed = Store::replay(folder / "state");
    const auto store = Store::open(folder / "state");
    if (!store.ok()) {
      ++refused;
      EXPECT_EQ(*read_file(path), bytes) << store.error().message;
      continue;
    }
    Event event{.at = 1, .type = "started"};
    static_cast<void>((*store)->append({&event, 1}));
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace rubato::control
