// Labels, dependencies and arrays as documents, records and consequences. The property at the end
// plays random graphs against a model that knows nothing of events.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "control/arrays.h"
#include "control/dependencies.h"
#include "control/eta.h"
#include "control/explain.h"
#include "control/job_filter.h"
#include "control/store.h"
#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

using nlohmann::json;

JobDocument document_of(json fields) {
  fields["run"] = "/bin/true";
  const Result<JobDocument> document = parse_job_json(fields);
  EXPECT_TRUE(document.ok()) << document.error().message;
  return document.ok() ? *document : JobDocument{};
}
std::string refusal(json fields) {
  fields["run"] = "/bin/true";
  const Result<JobDocument> document = parse_job_json(fields);
  return document.ok() ? "accepted" : document.error().message;
}

TEST(Labels, AreReadWrittenAndBounded) {
  const JobDocument document = document_of({{"labels", {{"team", "vision"}, {"run", 7}}}});
  EXPECT_EQ(document.labels, (Labels{{"team", "vision"}, {"run", "7"}}));
  EXPECT_EQ(parse_job_json(to_json(document))->labels, document.labels);
  EXPECT_EQ(labels_text(document.labels), "run=7,team=vision");
  const Result<JobDocument> yaml =
      parse_job_yaml("run: /bin/true\nlabels: {team: vision, run: 7, on: true}\n", "job.yaml");
  ASSERT_TRUE(yaml.ok()) << yaml.error().message;
  EXPECT_EQ(yaml->labels.at("on"), "true");
  EXPECT_EQ(refusal({{"labels", "team"}}),
            "/labels: \"team\"; expected labels, such as {team: vision, run: 7}");
  EXPECT_NE(refusal({{"labels", {{"a b", "c"}}}}).find("at most 63 letters"), std::string::npos);
  EXPECT_NE(refusal({{"labels", {{"a", "b,c"}}}}).find("/labels/a"), std::string::npos);
  EXPECT_NE(refusal({{"labels", {{"a", ""}}}}).find("/labels/a"), std::string::npos);
  json many = json::object();
  for (int i = 0; i < 33; ++i) many[std::to_string(i)] = "x";
  EXPECT_EQ(refusal({{"labels", many}}), "/labels: 33 labels; expected at most 32");
}

TEST(Labels, AreParsedFromTheCommandLine) {
  EXPECT_EQ(*parse_label("team=a=b"), std::pair(std::string("team"), std::string("a=b")));
  for (const char* wrong : {"team", "=x", "team=", "te am=x", "team=a,b"}) {
    EXPECT_FALSE(parse_label(wrong).ok()) << wrong;
  }
  EXPECT_EQ(*parse_labels("a=1,b=2"), (Labels{{"a", "1"}, {"b", "2"}}));
  EXPECT_TRUE(parse_labels("")->empty());
  EXPECT_FALSE(parse_labels("a=1,a=2").ok());
  EXPECT_TRUE(has_labels({{"a", "1"}, {"b", "2"}}, {{"b", "2"}}));
  EXPECT_FALSE(has_labels({{"a", "1"}}, {{"b", "2"}}));
  EXPECT_FALSE(has_labels({{"a", "1"}}, {{"a", "2"}}));
}

TEST(After, IsReadInEveryForm) {
  EXPECT_EQ(document_of({{"after", "prep"}}).after, (std::vector<After>{{.job = "prep"}}));
  EXPECT_EQ(document_of({{"after", {{"job", "j7"}, {"when", "ended"}}}}).after,
            (std::vector<After>{{.job = "j7", .when = When::kEnded}}));
  const JobDocument both =
      document_of({{"after", {"prep", {{"job", "eval"}, {"when", "failed"}}}}});
  EXPECT_EQ(both.after,
            (std::vector<After>{{.job = "prep"}, {.job = "eval", .when = When::kFailed}}));
  EXPECT_EQ(parse_job_json(to_json(both))->after, both.after);
  EXPECT_EQ(refusal({{"after", {{"job", "a"}, {"when", "done"}}}}),
            "/after/when: \"done\"; expected finished | failed | ended");
  EXPECT_EQ(refusal({{"after", {"a", "a"}}}), "/after/1: 'a' is named twice");
  EXPECT_NE(refusal({{"after", {{"when", "ended"}}}}).find("`job` is missing"), std::string::npos);
  EXPECT_NE(refusal({{"after", {{"jobs", "a"}}}}).find("unknown field"), std::string::npos);
  EXPECT_NE(refusal({{"after", true}}).find("expected the id or name of a job"), std::string::npos);
  EXPECT_EQ(refusal({{"after", json::array()}}), "accepted");
  EXPECT_EQ(refusal({{"after", json(std::vector<int>(101, 1))}}),
            "/after: 101 jobs; expected at most 100");
  EXPECT_EQ(*parse_after("prep:failed"), (After{.job = "prep", .when = When::kFailed}));
  EXPECT_EQ(*parse_after("prep"), After{.job = "prep"});
  EXPECT_FALSE(parse_after("prep:soon").ok());
  EXPECT_FALSE(parse_after(":ended").ok());
}

TEST(Arrays, AreReadAndBecomeJobs) {
  EXPECT_EQ(*parse_array("0-99%10"), (ArrayRange{.low = 0, .high = 99, .at_once = 10}));
  EXPECT_EQ(array_text({.low = 3, .high = 5}), "3-5");
  for (const char* wrong : {"", "5", "5-3", "-1-3", "0-99%", "0-99%0", "0-9%x", "1-2-3", "0-1000",
                            "999999-1000000", "0-9999999999999"}) {
    EXPECT_FALSE(parse_array(wrong).ok()) << wrong;
  }
  EXPECT_TRUE(parse_array("0-999").ok());
  const JobDocument document = document_of({{"name", "sweep"}, {"array", "2-4%1"}});
  ASSERT_TRUE(check_array(document).ok());
  const std::vector<NewJob> jobs = jobs_of(document, 7);
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[1].document.name, "sweep[3]");
  EXPECT_EQ(jobs[1].document.env.at("RUBATO_ARRAY_INDEX"), "3");
  EXPECT_EQ(jobs[1].document.env.at("RUBATO_ARRAY_SIZE"), "3");
  EXPECT_EQ(jobs[1].place.first, 7);
  EXPECT_EQ(jobs[1].place.index, 3);
  EXPECT_LT(jobs[1].document.array.size(), 1);
  EXPECT_TRUE(is_named(jobs[1].place, parse_array_name("sweep")));
  EXPECT_TRUE(is_named(jobs[1].place, parse_array_name("j7[]")));
  EXPECT_TRUE(is_named(jobs[1].place, parse_array_name("j7[3]")));
  EXPECT_FALSE(is_named(jobs[1].place, parse_array_name("j7[2]")));
  EXPECT_FALSE(is_named({}, parse_array_name("")));
  EXPECT_EQ(jobs_of(document_of({}), 7).size(), 1u);
  // What would be too much.
  JobDocument long_name = document;
  long_name.name = std::string(195, 'x');
  EXPECT_FALSE(check_array(long_name).ok());
  JobDocument large = document_of({{"array", "0-999"}});
  large.env["X"] = std::string(20'000, 'x');
  EXPECT_FALSE(check_array(large).ok());
}

JobRecord member(JobNumber number, int at_once, int granted = 0, double started_at = 0) {
  JobRecord job;
  job.number = number;
  job.array = {.first = 1, .name = "a", .index = static_cast<int>(number), .size = 9};
  job.array.at_once = at_once;
  job.granted = granted;
  job.started_at = started_at;
  return job;
}

TEST(Arrays, GiveTurnsInOrderAndKeepThoseThatWereGiven) {
  ArrayTurns turns;
  for (JobNumber i = 1; i <= 4; ++i) EXPECT_EQ(turns.join(member(i, 2)), i <= 2);
  EXPECT_EQ(turns.leave(4), std::nullopt) << "it had no turn";
  EXPECT_EQ(turns.leave(1), 3);
  EXPECT_TRUE(turns.join(member(3, 2)));
  EXPECT_FALSE(turns.join(member(1, 2))) << "resumed, and others have the turns";
  EXPECT_EQ(turns.leave(2), 1);
  EXPECT_EQ(turns.leave(3), std::nullopt);
  EXPECT_TRUE(turns.join(member(5, 0))) << "no limit";
  // After a restart, whoever holds devices keeps its turn.
  const std::vector<JobRecord> jobs{member(1, 2), member(2, 2, 0, 5), member(3, 2, 1, 7)};
  std::vector<const JobRecord*> records;
  for (const JobRecord& job : jobs) records.push_back(&job);
  ArrayTurns again;
  again.begin(records);
  EXPECT_FALSE(again.join(jobs[0]));
  EXPECT_TRUE(again.join(jobs[1]));
  EXPECT_TRUE(again.join(jobs[2]));
}

TEST(JobFilter, FindsJobsByEveryProperty) {
  JobRecord job;
  job.number = 3;
  job.document = document_of({{"name", "sweep-12"}, {"labels", {{"team", "vision"}}}});
  job.document.user = "ann";
  job.tenant = "red";
  job.submitted_at = 100;
  job.phase = Phase::kRunning;
  EXPECT_TRUE(JobFilter{}.any());
  EXPECT_TRUE(matches({}, job));
  EXPECT_TRUE(matches({.labels = {{"team", "vision"}}}, job));
  EXPECT_FALSE(matches({.labels = {{"team", "audio"}}}, job));
  EXPECT_TRUE(matches({.name = "sweep-*"}, job));
  EXPECT_FALSE(matches({.name = "sweep-?"}, job));
  EXPECT_TRUE(matches({.phases = {Phase::kQueued, Phase::kRunning}}, job));
  EXPECT_FALSE(matches({.phases = {Phase::kQueued}}, job));
  EXPECT_FALSE(matches({.tenant = "blue"}, job));
  EXPECT_TRUE(matches({.user = "ann"}, job));
  EXPECT_FALSE(matches({.user = "bob"}, job));
  EXPECT_FALSE(matches({.array = "sweep-12"}, job));
  EXPECT_TRUE(matches({.since = 100, .before = 101}, job));
  EXPECT_FALSE(matches({.since = 101}, job));
  EXPECT_FALSE(matches({.before = 100}, job));
}

TEST(JobFilter, PatternsMatchAsInAShell) {
  for (const char* pattern : {"*", "abc", "a*", "*c", "a?c", "*b*", "**", "a**c"}) {
    EXPECT_TRUE(matches_pattern(pattern, "abc")) << pattern;
  }
  for (const char* pattern : {"", "ab", "abcd", "?", "b*", "a?", "*d*"}) {
    EXPECT_FALSE(matches_pattern(pattern, "abc")) << pattern;
  }
  EXPECT_TRUE(matches_pattern("", ""));
  // Takes no exponential time.
  EXPECT_FALSE(matches_pattern("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST(Dependencies, AreSaidInWords) {
  EXPECT_EQ(waits_text({{3, When::kFinished}}), "waits for j3 to finish");
  EXPECT_EQ(waits_text({{3, When::kFinished}, {5, When::kEnded}, {7, When::kFailed}}),
            "waits for j3 to finish, j5 to end and j7 to fail");
  WaitsFor many;
  for (JobNumber i = 1; i <= 12; ++i) many[i] = When::kEnded;
  EXPECT_TRUE(waits_text(many).ends_with("j10 to end and 2 other jobs")) << waits_text(many);
  EXPECT_EQ(never_text(3, When::kFinished, Phase::kFailed),
            "j3 failed, and this job was to start after j3 had finished");
  EXPECT_EQ(never_text(3, When::kFailed, Phase::kCancelled),
            "j3 was cancelled, and this job was to start after j3 had failed");
}

TEST(Dependencies, EndsAreEstimatedOneAfterAnother) {
  const std::vector<EtaJob> running{{.job = 1, .devices = 2, .left_s = 100}};
  const std::vector<EtaJob> waiting{{.job = 2, .needs = 2, .left_s = 50}};
  const std::vector<EtaJob> later{{.job = 3, .needs = 1, .left_s = 10, .after = {2}},
                                  {.job = 4, .needs = 2, .left_s = 10, .after = {1, 3}},
                                  {.job = 5, .needs = 1, .left_s = 10, .after = {9}}};
  const auto etas = estimate_ends(running, waiting, 0, later);
  EXPECT_EQ(etas.at(2).start_s, 100);
  EXPECT_EQ(etas.at(3).start_s, 150);
  EXPECT_EQ(etas.at(4).start_s, 160);
  EXPECT_FALSE(etas.contains(5)) << "nobody knows when j9 ends";
}

// --- Random graphs

class Graph {
 public:
  Graph(std::uint64_t seed, const std::string& folder) : random_(seed), folder_(folder) {
    restart();
  }

  void play() {
    for (int i = 0; i < 60; ++i) {
      const int what = pick(10);
      if (what < 4) {
        submit();
      } else if (what < 9) {
        end_some();
      } else {
        restart();
      }
      compare();
    }
    while (!active().empty()) end_some();
    restart();
    compare();
  }

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  void restart() {
    store_.reset();
    auto opened = Store::open(folder_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    store_ = std::move(*opened);
    dependents_ = {};
    for (const auto& [number, job] : store_->state().jobs) {
      if (!ended(job.phase)) dependents_.note(job);
    }
  }
  // As LiveController::append does.
  void append(std::vector<Event> events) {
    std::vector<Event> follow = dependents_.consequences(events, store_->state());
    events.insert(events.end(), follow.begin(), follow.end());
    const Status done = store_->append(events);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  std::vector<JobNumber> active() const {
    std::vector<JobNumber> jobs;
    for (const auto& [number, phase] : model_) {
      if (!ended(phase)) jobs.push_back(number);
    }
    return jobs;
  }
  void submit() {
    const JobNumber number = store_->state().next_job;
    WaitsFor waits_for;
    const std::vector<JobNumber> others = active();
    for (int i = 0; i < pick(4) && !others.empty(); ++i) {
      waits_for[others[static_cast<std::size_t>(pick(static_cast<int>(others.size())))]] =
          static_cast<When>(pick(3));
    }
    Event event{.at = 1, .type = "submitted", .job = number, .tenant = "t"};
    event.body = {{"document", to_json(document_of({}))}, {"waits_for", waits_json(waits_for)}};
    append({event});
    dependents_.note(store_->state().jobs.at(number));
    model_[number] = Phase::kQueued;
    awaits_[number] = waits_for;
  }
  // One or several jobs end at once; a job that waits for another can only be cancelled.
  void end_some() {
    std::vector<Event> events;
    std::map<JobNumber, Phase> fates;
    for (int i = 0; i < 1 + pick(3); ++i) {
      const std::vector<JobNumber> jobs = active();
      if (jobs.empty()) break;
      const JobNumber number = jobs[static_cast<std::size_t>(pick(static_cast<int>(jobs.size())))];
      Phase phase = std::array{Phase::kFinished, Phase::kFailed,
                               Phase::kCancelled}[static_cast<std::size_t>(pick(3))];
      if (!store_->state().jobs.at(number).waits_for.empty()) phase = Phase::kCancelled;
      if (!fates.try_emplace(number, phase).second) continue;
      Event event{.at = 2, .type = std::string(to_string(phase)), .job = number, .tenant = "t"};
      if (phase == Phase::kFinished) event.body["result"] = json::object();
      if (phase == Phase::kFailed) event.body["message"] = "it failed";
      events.push_back(event);
    }
    append(events);
    for (const auto& [number, phase] : fates) model_[number] = phase;
    // Whoever can never start ends too, until nothing changes.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [number, phase] : model_) {
        if (ended(phase)) continue;
        for (const auto& [other, when] : awaits_[number]) {
          if (verdict(when, model_.at(other)) != Verdict::kNever) continue;
          phase = Phase::kCancelled;
          changed = true;
        }
      }
    }
  }
  void compare() const {
    for (const auto& [number, phase] : model_) {
      const auto found = store_->state().jobs.find(number);
      if (found == store_->state().jobs.end()) {
        ASSERT_TRUE(ended(phase)) << "j" << number;
        continue;
      }
      const JobRecord& job = found->second;
      ASSERT_EQ(to_string(job.phase), to_string(phase)) << "j" << number;
      if (ended(phase)) continue;
      WaitsFor open;
      for (const auto& [other, when] : awaits_.at(number)) {
        if (!ended(model_.at(other))) open[other] = when;
      }
      ASSERT_EQ(job.waits_for, open) << "j" << number;
    }
  }

  std::mt19937_64 random_;
  std::string folder_;
  std::unique_ptr<Store> store_;
  DependentJobs dependents_;
  std::map<JobNumber, Phase> model_;
  std::map<JobNumber, WaitsFor> awaits_;
};

TEST(Dependencies, RandomGraphsEndAsTheirConditionsSay) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TemporaryFolder folder;
    Graph(seed, folder.path()).play();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace rubato::control
