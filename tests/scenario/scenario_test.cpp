// Runs every tests/scenario/*.txt through the simulator and compares the schedule line by line.
// Each file is a test case: tests/scenario/fifo_blocks.txt is Scenario.fifo_blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "scenario/scenario_file.h"
#include "sched/placement.h"
#include "sched/validate.h"
#include "test_paths.h"

namespace rubato {
namespace {

const std::string kFolder = test_paths::in_source_tree("tests/scenario");

// --- Recording -----------------------------------------------------------------------------------

// The devices of a job from this time on.
struct DeviceChange {
  Seconds time_s;
  JobId job;
  Allocation after;
};

struct Recording {
  std::vector<DeviceChange> changes;
};
thread_local Recording recording;

// Decides like the recorded policy and records the resulting changes.
class RecordingPolicy final : public Policy {
 public:
  explicit RecordingPolicy(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

  Plan decide(const PolicyInput& input) override {
    // Devices that jobs lost to failures and serving since the last decision.
    for (const JobState* job : input.jobs) note(job->changed_at_s, job->spec.id, job->allocation);
    Plan plan = policy_->decide(input);
    if (validate(plan, input)) return plan;  // the scheduler rejects it and says why
    for (PlacementChange& change : place(plan, input)) {
      note(input.now_s, input.jobs[change.job]->spec.id, std::move(change.after));
    }
    return plan;
  }

 private:
  void note(Seconds time_s, JobId job, Allocation allocation) {
    if (allocation.shares == last_[job].shares) return;
    last_[job] = allocation;
    recording.changes.push_back({time_s, job, std::move(allocation)});
  }

  std::unique_ptr<Policy> policy_;
  std::unordered_map<JobId, Allocation> last_;
};

// --- Schedule ------------------------------------------------------------------------------------

HeldDevices held(const Allocation& allocation) {
  HeldDevices devices;
  for (const NodeShare& share : allocation.shares) {
    devices.total += share.devices;
    devices.by_node[share.node.value] += share.devices;
  }
  return devices;
}

// Combines arrivals, recorded changes and completions: one line for each moment at which something
// changes.
std::vector<ScheduleLine> build_schedule(const Scenario& scenario, const SimResult& result) {
  enum Order { kArrival, kChange, kEnd };
  struct Event {
    Milliseconds time_ms;
    Order order;
    std::size_t job;
    HeldDevices devices{};
  };
  std::vector<Event> events;
  const std::vector<WorkloadJob>& jobs = scenario.workload.jobs;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    events.push_back({to_ms(jobs[i].spec.submit_s), kArrival, i});
    const JobResult& job = result.jobs[i];
    if (job.finished()) events.push_back({to_ms(job.finish_s), kEnd, i});
    if (job.dropped) events.push_back({to_ms(job.submit_s + job.queue_s), kEnd, i});
  }
  for (const DeviceChange& change : recording.changes) {
    events.push_back({to_ms(change.time_s), kChange, change.job.index(), held(change.after)});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time_ms != b.time_ms ? a.time_ms < b.time_ms : a.order < b.order;
  });

  std::vector<ScheduleLine> lines;
  ScheduleLine now;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    const std::string& job = jobs[event.job].spec.name;
    now.time_ms = event.time_ms;
    now.running.erase(job);
    now.waiting.erase(job);
    if (event.devices.total > 0) {
      now.running[job] = event.devices;
    } else if (event.order != kEnd) {
      now.waiting.insert(job);
    }
    if (i + 1 < events.size() && events[i + 1].time_ms == event.time_ms) continue;
    if (lines.empty() || !lines.back().same_state(now)) lines.push_back(now);
  }
  return lines;
}

// The simulator keeps its own timeline, which must agree.
testing::AssertionResult agrees_with_timeline(const std::vector<ScheduleLine>& schedule,
                                              const SimResult& result) {
  for (const ScheduleLine& line : schedule) {
    const auto after = std::find_if(
        result.timeline.begin(), result.timeline.end(),
        [&](const TimelinePoint& point) { return to_ms(point.time_s) > line.time_ms; });
    if (after == result.timeline.begin()) {
      return testing::AssertionFailure() << "the timeline starts after " << to_text(line, true);
    }
    const TimelinePoint& point = *std::prev(after);
    int allocated = 0;
    for (const auto& [job, devices] : line.running) allocated += devices.total;
    if (point.allocated != allocated || point.running != static_cast<int>(line.running.size()) ||
        point.waiting != static_cast<int>(line.waiting.size())) {
      return testing::AssertionFailure()
             << "recorded: " << to_text(line, true) << ", but the timeline has " << point.allocated
             << " devices in use, " << point.running << " jobs running and " << point.waiting
             << " waiting";
    }
  }
  return testing::AssertionSuccess();
}

// --- Comparison ----------------------------------------------------------------------------------

// What the simulator did, in the format of the file, and how to repeat it.
std::string report(const Scenario& scenario, const std::string& name,
                   const std::vector<ScheduleLine>& actual, const SimResult& result) {
  const bool with_nodes = scenario.cluster.nodes().size() > 1;
  std::string text = "The whole schedule, as simulated:\n\nexpect\n";
  for (const ScheduleLine& line : actual) text += "  " + to_text(line, with_nodes) + "\n";
  for (const FactKind& kind : kFactKinds) {
    text += kind.name;
    for (const JobResult& job : result.jobs) {
      const double value = kind.of(job);
      text += fmt::format(" {}={}", job.name, value < 0 ? "never" : time_text(to_ms(value)));
    }
    text += "\n";
  }
  return text + fmt::format(
                    "\nRepeat with: scenario_tests --gtest_filter=Scenario.{0}\n"
                    "         or: ctest --preset release -R 'Scenario.{0}$'\n",
                    name);
}

// True if the schedule is as expected.
bool compare_schedule(const Scenario& scenario, const std::string& path,
                      const std::vector<ScheduleLine>& actual, const std::string& report) {
  const bool with_nodes = scenario.cluster.nodes().size() > 1;
  for (std::size_t i = 0; i < scenario.schedule.size(); ++i) {
    const auto& [number, expected] = scenario.schedule[i];
    const bool both = i < actual.size();
    if (both && matches(expected, actual[i])) continue;
    ADD_FAILURE_AT(path.c_str(), number)
        << "  expected: " << to_text(expected, true)
        << "\n    actual: " << (both ? to_text(actual[i], with_nodes) : "nothing more happens")
        << "\n\n"
        << report;
    return false;  // later lines would only repeat the difference
  }
  if (actual.size() > scenario.schedule.size()) {
    ADD_FAILURE_AT(path.c_str(), scenario.schedule.back().line)
        << "  expected: nothing more happens\n    actual: "
        << to_text(actual[scenario.schedule.size()], with_nodes) << "\n\n"
        << report;
    return false;
  }
  return true;
}

void compare_facts(const Scenario& scenario, const std::string& path, const SimResult& result,
                   const std::string& report) {
  if (scenario.serving_wait) {
    const auto& [number, expected] = *scenario.serving_wait;
    const Seconds actual = result.summary.serving_wait_max_s;
    if (to_ms(actual) != to_ms(expected)) {
      ADD_FAILURE_AT(path.c_str(), number)
          << "  expected: serving waits at most " << expected << " s\n    actual: " << actual;
    }
  }
  for (const auto& [number, fact] : scenario.facts) {
    const double actual = fact.kind->of(result.jobs[fact.job]);
    if (to_ms(actual) == to_ms(fact.value)) continue;
    const auto text = [](double value) {
      return value < 0 ? std::string("never") : time_text(to_ms(value));
    };
    ADD_FAILURE_AT(path.c_str(), number)
        << "  " << fact.kind->name << " of " << result.jobs[fact.job].name
        << "\n  expected: " << text(fact.value) << "\n    actual: " << text(actual) << "\n\n"
        << report;
  }
}

class ScenarioCase final : public testing::Test {
 public:
  explicit ScenarioCase(std::string name) : name_(std::move(name)) {}

  void TestBody() override {  // NOLINT(readability-identifier-naming): googletest's name
    const std::string path = kFolder + "/" + name_ + ".txt";
    const auto text = read_file(path);
    ASSERT_TRUE(text) << text.error().message;
    const auto scenario = ScenarioParser::parse(*text, path);
    ASSERT_TRUE(scenario) << scenario.error().message;
    recording = {};
    const SimOptions& options = scenario->options;
    auto policy = make_policy(*scenario->policy, options.settings, options.seed);
    ASSERT_TRUE(policy) << path << ": " << policy.error().message;
    const auto result = simulate(scenario->cluster, scenario->workload, *scenario->policy,
                                 std::make_unique<RecordingPolicy>(std::move(*policy)), options);
    ASSERT_TRUE(result) << path << ": " << result.error().message;

    const std::vector<ScheduleLine> actual = build_schedule(*scenario, *result);
    const std::string shown = report(*scenario, name_, actual, *result);
    EXPECT_TRUE(agrees_with_timeline(actual, *result)) << path;
    if (compare_schedule(*scenario, path, actual, shown)) {
      compare_facts(*scenario, path, *result, shown);
    }
  }

 private:
  std::string name_;
};

// Googletest must know all cases before main() runs them.
const int kCases = [] {
  const auto files = list_directory(kFolder);
  int count = 0;
  for (const std::string& file : files ? *files : std::vector<std::string>{}) {
    const std::filesystem::path path(file);
    if (path.extension() != ".txt") continue;
    ++count;
    const std::string name = path.stem().string();
    testing::RegisterTest("Scenario", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [name]() -> testing::Test* { return new ScenarioCase(name); });
  }
  return count;
}();

TEST(ScenarioFolder, HoldsScenariosForEveryPolicy) {
  EXPECT_GE(kCases, 15) << kFolder;
  const auto files = list_directory(kFolder);
  ASSERT_TRUE(files) << files.error().message;
  for (const PolicyInfo& policy : policy_table()) {
    const bool covered = std::any_of(files->begin(), files->end(), [&](const std::string& file) {
      const auto text = read_file(kFolder + "/" + file);
      return file.ends_with(".txt") && text &&
             text->find("\npolicy " + policy.name + "\n") != std::string::npos;
    });
    EXPECT_TRUE(covered) << "no scenario for policy " << policy.name;
  }
}

TEST(ScenarioFolder, NamesCanBeUsedInATestFilter) {
  const auto files = list_directory(kFolder);
  ASSERT_TRUE(files) << files.error().message;
  for (const std::string& file : *files) {
    if (!file.ends_with(".txt")) continue;
    EXPECT_EQ(file.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.txt"),
              std::string::npos)
        << file << ": expected lower-case letters, digits and _ (a filter treats - as 'except')";
  }
}

}  // namespace
}  // namespace rubato
