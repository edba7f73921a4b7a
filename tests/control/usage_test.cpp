// Accounts: the tables always say what the log says, however it was written and whoever died.
#include "control/usage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "control/json_fields.h"
#include "control/random_events.h"
#include "control/sqlite.h"
#include "control/store.h"
#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

using nlohmann::json;

constexpr double kEvening = 1'794'700'800 - 100;  // 100 s before a day begins
constexpr double kMidnight = kEvening + 100;

// By day, tenant and job.
using Account = std::map<std::tuple<Day, std::string, JobNumber>, DeviceTime>;

struct Step {
  double from = 0;
  double to = 0;
  int held = 0;
  double trained = 0;       // devices
  double idle_from = 1e18;  // the time from which nothing was trained
};

bool counts(const Event& event) {
  const std::string what = text_of(event.body, "type");
  return event.type == "held" || event.type == "stalled" || event.type == "recovered" ||
         event.type == "restarted" || event.type == "finished" || event.type == "failed" ||
         event.type == "cancelled" ||
         (event.type == "view" && (what == "view" || what == "started"));
}

// What one job held and trained, from all its events, without any table.
std::vector<Step> steps_of(const std::vector<Event>& events) {
  std::vector<Step> steps;
  double now = 0;
  int held = 0;
  int members = 0;
  bool stalled = false;
  bool over = false;
  bool spoke = false;
  bool opaque = false;
  bool begun = false;
  for (const Event& event : events) {
    if (event.type == "submitted") opaque = event.body["document"].value("mode", "") == "opaque";
    if (!counts(event)) continue;
    const bool holds = event.type == "held" && event.body["devices"] > 0;
    if (!begun && !holds) continue;
    if (!begun) now = event.at;
    begun = true;
    const double at = std::max(now, event.at);
    Step step{now, at, held, stalled || over ? 0.0 : std::min(members, held)};
    if (opaque) step.trained = held;
    if (event.type == "stalled" && !opaque) {
      step.idle_from = event.at - event.body["for_s"].get<double>();
    }
    steps.push_back(step);
    now = at;
    if (event.type == "held") held = event.body["devices"].get<int>();
    if (event.type == "held" && held == 0) members = 0;
    if (event.type == "view" && !over) spoke = true;
    if (event.type == "view" && event.body["type"] == "view") members = event.body["workers"];
    if (event.type == "restarted") members = 0;
    if (event.type == "stalled") stalled = true;
    if (event.type == "recovered" || event.type == "restarted" || held == 0) stalled = false;
    over = over || event.type == "finished" || event.type == "failed" || event.type == "cancelled";
    if (over && held == 0) break;
  }
  for (Step& step : steps) {
    if (over && !spoke) {
      step.trained = step.held;
      step.idle_from = 1e18;
    }
  }
  return steps;
}

Account account_of(const Store& store) {
  std::map<JobNumber, std::vector<Event>> by_job;
  const auto events = store.read_events(0, 1'000'000, 0, "");
  EXPECT_TRUE(events.ok());
  for (const Event& event : *events) by_job[event.job].push_back(event);
  Account account;
  for (const auto& [job, own] : by_job) {
    if (job == 0) continue;
    for (const Step& step : steps_of(own)) {
      for (double at = step.from; at < step.to;) {
        const auto day = static_cast<Day>(std::floor(at / 86400));
        const double end = std::min(step.to, static_cast<double>(day + 1) * 86400);
        if (step.held > 0) {
          DeviceTime& time = account[{day, own.front().tenant, job}];
          time.held_s += step.held * (end - at);
          time.trained_s += step.trained * std::max(0.0, std::min(end, step.idle_from) - at);
        }
        at = end;
      }
    }
  }
  return account;
}

Account tables_of(const std::string& folder) {
  Account account;
  auto database = Database::open(folder + "/rubato.db");
  EXPECT_TRUE(database.ok());
  auto rows = database->prepare("SELECT day, tenant, job, held_s, trained_s FROM usage");
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  while (*rows->next()) {
    account[{rows->integer(0), std::string(rows->text(1)), rows->integer(2)}] = {rows->number(3),
                                                                                 rows->number(4)};
  }
  return account;
}

void expect_same(const Account& expected, const Account& found, const std::string& where) {
  ASSERT_EQ(expected.size(), found.size()) << where;
  for (const auto& [key, time] : expected) {
    const auto& [day, tenant, job] = key;
    const auto at = found.find(key);
    ASSERT_NE(at, found.end()) << where << ": day " << day << " job " << job;
    EXPECT_NEAR(time.held_s, at->second.held_s, 1e-6 * (1 + time.held_s))
        << where << " job " << job;
    EXPECT_NEAR(time.trained_s, at->second.trained_s, 1e-6 * (1 + time.held_s))
        << where << " job " << job;
    EXPECT_LE(at->second.trained_s, at->second.held_s * (1 + 1e-9)) << where;
  }
}

std::unique_ptr<Store> open_store(const std::string& folder) {
  auto store = Store::open(folder);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return store.ok() ? std::move(*store) : nullptr;
}

// A random event that is likely to be about device time.
Event random_event(RandomEvents& events, Random& random, const State& state) {
  Event event = events.next(state);
  event.at = kEvening + (event.at - 1000) * 300;
  if (event.type == "view" && event.body.is_object()) {
    event.body["type"] = random.chance(0.2) ? "started" : random.chance(0.8) ? "view" : "lost";
    event.body["workers"] = random.between(0, 8);
  }
  if (event.type == "submitted" && event.body.is_object() && random.chance(0.3)) {
    event.body["document"] = {{"run", {"train"}}, {"mode", "opaque"}, {"devices", 2}};
  }
  return event;
}

TEST(Usage, TheTablesSayWhatTheLogSays) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const std::string where = fmt::format("seed {}", seed);
    const TemporaryFolder folder;
    auto store = open_store(folder / "state");
    RandomEvents events(seed);
    Random random(seed + 1000);
    int accepted = 0;
    for (int i = 0; i < 400; ++i) {
      std::vector<Event> group;
      for (int n = 0; n < random.between(1, 3); ++n) {
        group.push_back(random_event(events, random, store->state()));
        if (random.chance(0.5)) continue;
        // Many events about devices: others change nothing here.
        Event& last = group.back();
        if (last.job > 0 && last.type != "submitted") {
          last.type = "held";
          last.body = {{"devices", random.between(0, 4)}};
        }
      }
      accepted += store->append(group).ok() ? 1 : 0;
      if (random.chance(0.01)) {
        store.reset();
        store = open_store(folder / "state");
      }
    }
    ASSERT_GT(accepted, 100) << where;
    const Account expected = account_of(*store);
    ASSERT_GT(expected.size(), 20U) << where;
    expect_same(expected, tables_of(folder / "state"), where);
    // Sums of the report are those of the rows, whatever the grouping.
    double held_s = 0;
    for (const auto& [key, time] : expected) held_s += time.held_s;
    for (const UsageBy by : {UsageBy::kTenant, UsageBy::kUser, UsageBy::kJob, UsageBy::kLabel}) {
      const auto report = store->usage({.by = by, .from = 0, .to = 100'000, .now = 0});
      ASSERT_TRUE(report.ok()) << report.error().message;
      double sum = 0;
      for (const UsageRow& row : report->rows) sum += row.time.held_s;
      EXPECT_NEAR(sum, held_s, 1e-6 * held_s);
      EXPECT_NEAR(report->total.held_s, held_s, 1e-6 * held_s);
    }
    double of_tenants = 0;
    for (const auto& [tenant, time] : store->usage_totals(0)) of_tenants += time.held_s;
    EXPECT_NEAR(of_tenants, held_s, 1e-6 * held_s);
    // Made anew from the log, they are the same.
    store.reset();
    {
      auto database = Database::open((folder / "state") + "/rubato.db");
      ASSERT_TRUE(database->execute("UPDATE meta SET value = 3 WHERE name = 'usage_seq'").ok());
    }
    store = open_store(folder / "state");
    expect_same(expected, tables_of(folder / "state"), where + ", made anew");
  }
}

class OneJob : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = open_store(folder_ / "state");
    submit(1, "red", json::object());
  }
  void submit(JobNumber job, const std::string& tenant, json fields) {
    fields["run"] = {"train"};
    fields["devices"] = fields.value("mode", "") == "opaque" ? json(2) : json("1..4");
    say(job, tenant, 0, "submitted", {{"document", fields}});
  }
  void say(JobNumber job, const std::string& tenant, double after, const std::string& type,
           json body) {
    Event event{.at = kEvening + after, .type = type, .job = job, .tenant = tenant};
    event.body = std::move(body);
    const Status done = store_->append({&event, 1});
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  void say(double after, const std::string& type, json body) {
    say(1, "red", after, type, std::move(body));
  }
  void view(double after, int workers) {
    say(after, "view", {{"type", "view"}, {"workers", workers}});
  }
  DeviceTime total(double now_after = 0) const {
    const auto report = store_->usage(
        {.by = UsageBy::kTenant, .from = 0, .to = 100'000, .now = kEvening + now_after});
    EXPECT_TRUE(report.ok()) << report.error().message;
    return report.ok() ? report->total : DeviceTime{};
  }
  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(OneJob, StartingLeavingAndStandingStillIsNotTraining) {
  say(0, "granted", {{"devices", 2}, {"reason", "started"}});
  say(0, "held", {{"devices", 2}});
  say(5, "view", {{"type", "started"}});
  view(10, 2);                                        // 20 s of devices went into starting
  say(20, "held", {{"devices", 4}});                  // 20 trained
  view(30, 4);                                        // 20 trained, 20 starting
  say(70, "stalled", {{"for_s", 25}, {"step", 3}});   // 15 s of training, 25 s idle
  say(80, "recovered", {{"step", 4}});                // 40 idle
  view(90, 1);                                        // 40 trained
  say(95, "held", {{"devices", 1}});                  // 5 trained, 15 leaving
  say(97, "restarted", {{"message", "x"}});           // 2 trained
  say(99, "finished", {{"result", json::object()}});  // 2 starting again
  say(100, "held", {{"devices", 0}});                 // 1 leaving
  const DeviceTime time = total();
  EXPECT_NEAR(time.held_s, 2 * 20 + 4 * 75 + 1 * 5, 1e-4);
  EXPECT_NEAR(time.trained_s, 20 + 20 + 4 * 15 + 40 + 5 + 2, 1e-4);
  EXPECT_NEAR(time.held_s, store_->state().jobs.at(1).device_s, 1e-4);
}

TEST_F(OneJob, TimeBelongsToItsDayAndPassesWhileNothingHappens) {
  say(0, "held", {{"devices", 2}});
  view(0, 2);
  const Day first = day_of(kEvening);
  const auto days = [&](Day from, Day to, double now_after) {
    return store_->usage({.from = from, .to = to, .now = kEvening + now_after})->total.held_s;
  };
  EXPECT_NEAR(days(first, first, 60), 120, 1e-4);
  EXPECT_NEAR(days(first, first, 3600), 200, 1e-4);
  EXPECT_NEAR(days(first + 1, first + 1, 3600), 2 * 3500, 1e-4);
  EXPECT_NEAR(days(first + 2, first + 9, 3600), 0, 1e-9);
  say(2 * 86'400, "held", {{"devices", 0}});
  EXPECT_NEAR(days(first, first, 1e6), 200, 1e-4);
  EXPECT_NEAR(days(first + 1, first + 1, 1e6), 2 * 86'400, 1e-4);
  EXPECT_NEAR(days(first + 2, first + 2, 1e6), 2 * (86'400 - 100), 1e-4);
  EXPECT_EQ(day_text(first + 1), day_text(day_of(kMidnight)));
}

TEST_F(OneJob, AnOrdinaryProgramTrainsAllTheTime) {
  say(0, "held", {{"devices", 2}});
  EXPECT_NEAR(total(10).trained_s, 0, 1e-9) << "it may be starting";
  say(200, "held", {{"devices", 0}});
  say(200, "finished", {{"result", json::object()}});
  EXPECT_NEAR(total().trained_s, 400, 1e-4) << "now it is known that it was none of ours";
  submit(2, "blue", {{"mode", "opaque"}});
  say(2, "blue", 300, "held", {{"devices", 2}});
  const auto report =
      store_->usage({.by = UsageBy::kTenant, .from = 0, .to = 100'000, .now = kEvening + 310});
  ASSERT_EQ(report->rows.size(), 2U);
  EXPECT_EQ(report->rows[0].key, "red");
  EXPECT_NEAR(report->rows[1].time.trained_s, 20, 1e-4);
  const auto jobs = store_->usage(
      {.by = UsageBy::kJob, .from = 0, .to = 100'000, .tenant = "blue", .now = kEvening + 310});
  ASSERT_EQ(jobs->rows.size(), 1U);
  EXPECT_EQ(jobs->rows[0].key, "j2");
  EXPECT_EQ(jobs->rows[0].name, "train");
  const auto totals = store_->usage_totals(kEvening + 310);
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals[0].first, "red");
  EXPECT_NEAR(totals[0].second.trained_s, 400, 1e-4);
  EXPECT_NEAR(totals[1].second.held_s, 20, 1e-4);
}

TEST_F(OneJob, ARowLimitSaysSo) {
  for (JobNumber job = 2; job < 6; ++job) {
    submit(job, "red", json::object());
    say(job, "red", 10, "held", {{"devices", 1}});
  }
  const auto report = store_->usage(
      {.by = UsageBy::kJob, .from = 0, .to = 100'000, .now = kEvening + 20, .limit = 2});
  EXPECT_EQ(report->rows.size(), 2U);
  EXPECT_TRUE(report->more);
  EXPECT_EQ(report->jobs, 4);
  EXPECT_NEAR(report->total.held_s, 40, 1e-4);
}

TEST(UsageDays, AreReadAndWritten) {
  EXPECT_EQ(parse_day("1970-01-01"), 0);
  EXPECT_EQ(parse_day("2026-11-16"), day_of(1'794'816'609));
  EXPECT_EQ(day_text(*parse_day("2024-02-29")), "2024-02-29");
  for (const char* wrong : {"", "2026", "2026-1-01", "2026-02-30", "2026-13-01", "2026-11-00",
                            "1969-12-31", "2026-11-1x", "-026-11-01", "2026/11/01"}) {
    EXPECT_FALSE(parse_day(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace rubato::control
