// A daemon with a long history: makes one, and measures what a decision costs with it and without.
//   history_speed make FOLDER JOBS               a state folder with so many finished jobs
//   history_speed decide SUPERVISOR WITH WITHOUT how long decisions about 100 active jobs take in
//   the
//                                                state folders WITH and WITHOUT a history, by turns
// scripts/bench-history runs it and measures the rest from outside.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "control/controller.h"
#include "control/sqlite.h"
#include "control/store.h"

namespace {

using namespace rubato;
using namespace rubato::control;

constexpr int kActive = 100;
constexpr int kDevices = 4;
constexpr int kRounds = 40;
constexpr int kTurns = 3;  // of each folder

[[noreturn]] void fail(const std::string& message) {
  fmt::print(stderr, "history_speed: {}\n", message);
  std::exit(1);
}
void check(const Status& status) {
  if (!status.ok()) fail(status.error().message);
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// --- make ---------------------------------------------------------------------------------------

constexpr double kApart = 2;  // seconds between two submissions

// The first job, as the daemon would record it. Returns its number of events.
std::int64_t record_first(const std::string& folder, double at) {
  auto store = Store::open(folder);
  if (!store.ok()) fail(store.error().message);
  const auto about = [&](double after, const char* type, nlohmann::json body) {
    return Event{.at = at + after, .type = type, .job = 1, .tenant = "tenant-1", .body = body};
  };
  std::vector<Event> events{
      about(0, "submitted",
            {{"document",
              {{"name", "job 1"},
               {"run", {"python3", "train.py", "--epochs", "90", "--rate", "0.1"}},
               {"dir", "/home/somebody/experiments/vision"},
               {"devices", "1..8"},
               {"env", {{"DATA", "/data/imagenet"}}}}},
             {"key", "key-1"},
             {"uid", std::string(32, 'a')}}),
      about(1, "granted",
            {{"devices", 4}, {"reason", "started"}, {"facts", {{"before", 0}, {"after", 4}}}}),
      about(2, "held", {{"devices", 4}}),
      about(3, "progress", {{"step", 900}, {"total_steps", 1000}, {"loss", 0.25}, {"workers", 4}}),
      about(4, "finished",
            {{"result",
              {{"steps", 1000}, {"final_loss", 0.2}, {"state_sha256", "0123456789abcdef"}}}}),
      about(5, "held", {{"devices", 0}})};
  check((*store)->append(events));
  return std::ssize(events);
}

// The others differ in number, name, tenant, key and time.
std::string copies(JobNumber jobs, std::int64_t events) {
  const std::string numbers = fmt::format(
      "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {}) ", jobs);
  const std::string later = fmt::format("{} * (i - 1)", kApart);
  const std::string tenant = "'tenant-' || (i % 20)";
  const std::string name = "'job ' || (i % 5000)";
  return "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;" + numbers +
         fmt::format(
             "INSERT INTO jobs SELECT i, {1}, phase, json_set(document, '$.name', {2}), "
             "json_set(record, '$.number', i, '$.id', 'j' || i, '$.name', {2}, '$.tenant', {1}, "
             "'$.key', 'key-' || i, '$.uid', printf('%032x', i), "
             "'$.submitted_at', submitted_at + {0}, '$.started_at', submitted_at + 1 + {0}, "
             "'$.ended_at', ended_at + {0}, '$.held_at', ended_at + 1 + {0}), "
             "{2}, submitted_at + {0}, ended_at + {0}, rest, kept "
             "FROM n, (SELECT * FROM jobs WHERE number = 1);",
             later, tenant, name) +
         numbers +
         fmt::format(
             "INSERT INTO events SELECT seq + (i - 1) * {3}, at + {0}, type, i, {1}, "
             "CASE type WHEN 'submitted' THEN json_set(body, '$.document.name', {2}, '$.key', "
             "'key-' || i, '$.uid', printf('%032x', i)) ELSE body END, version, given_by, "
             "given_from FROM n, (SELECT * FROM events WHERE seq <= {3}) ORDER BY 1;",
             later, tenant, name, events) +
         numbers +
         fmt::format(
             "INSERT INTO keys SELECT {1}, 'key-' || i, i, at + {0} "
             "FROM n, (SELECT at FROM keys WHERE job = 1);",
             later, tenant) +
         fmt::format(
             "UPDATE settings SET record = json_set(record, '$.job', {0} + 1, '$.ended.finished', "
             "{0}) WHERE name = 'next'; UPDATE meta SET value = {0} * {1} WHERE name = 'view_seq';"
             "COMMIT; PRAGMA journal_mode = WAL",
             jobs, events);
}

int make(const std::string& folder, JobNumber jobs) {
  const double last = kApart * static_cast<double>(jobs) + 3600;
  const std::int64_t events = record_first(folder, std::floor(unix_now() - last));
  auto database = Database::open(folder + "/rubato.db");
  if (!database.ok()) fail(database.error().message);
  check(database->execute(copies(jobs, events)));
  fmt::print("{} finished jobs, {} events\n", jobs, jobs * events);
  return 0;
}

// --- decide -------------------------------------------------------------------------------------

struct Times {
  std::vector<double> rounds;
  std::vector<double> turns;
};

double median(std::vector<double> values) {
  if (values.empty()) fail("nothing was decided");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Condition>
void wait_until(const char* what, const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) fail(fmt::format("{} takes too long", what));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Starts a daemon there, submits jobs of which some run, and makes it decide again and again.
void decide_in(const std::string& supervisor, const std::string& folder, Times& times) {
  const Caller admin{.tenant = "", .admin = true};
  auto started = Controller::start({.folder = folder,
                                    .supervisor = supervisor,
                                    .machine = {.type = "cpu", .devices = kDevices}});
  if (!started.ok()) fail(started.error().message);
  Controller& controller = **started;
  const auto document = parse_job_json(
      {{"name", "active"}, {"run", {"/bin/sleep", "100000"}}, {"mode", "opaque"}, {"devices", 1}});
  if (!document.ok()) fail(document.error().message);
  std::vector<JobNumber> jobs;
  for (int i = 0; i < kActive; ++i) {
    const auto job = controller.submit(admin, *document, "");
    if (!job.ok()) fail(job.error().message);
    jobs.push_back(job->number);
  }
  wait_until("the start of jobs", [&] { return controller.metrics().held == kDevices; });
  const ControllerMetrics before = controller.metrics();
  for (int i = 0; i < kRounds; ++i) {
    const std::int64_t rounds = controller.metrics().rounds;
    check(controller.change(admin, jobs.back(), {{"priority", 1 + i % 2}}));
    wait_until("a decision", [&] { return controller.metrics().rounds > rounds; });
  }
  const ControllerMetrics after = controller.metrics();
  const auto newest = [](const std::vector<double>& values, std::int64_t count) {
    const auto size = std::ssize(values);
    return std::vector<double>(values.end() - std::min<std::int64_t>(size, count), values.end());
  };
  for (const double each : newest(after.round_total_s, after.rounds - before.rounds)) {
    times.rounds.push_back(each);
  }
  // The turns that did the most: those with a decision.
  std::vector<double> turns = newest(after.turn_s, after.turns - before.turns);
  std::sort(turns.rbegin(), turns.rend());
  turns.resize(std::min<std::size_t>(turns.size(), kRounds));
  times.turns.insert(times.turns.end(), turns.begin(), turns.end());
  for (const JobNumber job : jobs) check(controller.cancel(admin, job));
  wait_until("the end of jobs", [&] { return controller.metrics().held == 0; });
}

int decide(const std::string& supervisor, const std::string& with, const std::string& without) {
  Times long_history;
  Times no_history;
  for (int i = 0; i < kTurns; ++i) {
    decide_in(supervisor, with, long_history);
    decide_in(supervisor, without, no_history);
  }
  const double round_with = median(long_history.rounds);
  const double round_without = median(no_history.rounds);
  const double turn_with = median(long_history.turns);
  const double turn_without = median(no_history.turns);
  fmt::print("decision {:.3f} ms {:.3f} ms {:.3f}\n", 1e3 * round_with, 1e3 * round_without,
             round_with / round_without);
  fmt::print("turn {:.3f} ms {:.3f} ms {:.3f}\n", 1e3 * turn_with, 1e3 * turn_without,
             turn_with / turn_without);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "make") {
    return make(words[1], parse_int(words[2]).value_or(1'000'000));
  }
  if (words.size() == 4 && words[0] == "decide") return decide(words[1], words[2], words[3]);
  fail("usage: history_speed make FOLDER JOBS | decide SUPERVISOR WITH WITHOUT");
}
