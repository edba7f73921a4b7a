// Reads a scenario: a small workload and the schedule that a policy must produce for it. README.md
// describes the format.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "scenario/schedule.h"
#include "sim/simulator.h"

namespace rubato {

// A fact about one job that can be checked after the run.
struct FactKind {
  std::string_view name;
  double (*of)(const JobResult& job);
};
inline constexpr std::array kFactKinds{
    FactKind{"jct", [](const JobResult& job) { return job.finished() ? job.jct_s() : -1.0; }},
    FactKind{"waited", [](const JobResult& job) { return job.queue_s; }},
    FactKind{"resizes", [](const JobResult& job) { return static_cast<double>(job.resizes); }},
    FactKind{"dropped", [](const JobResult& job) { return job.dropped ? 1.0 : 0.0; }},
    FactKind{"lost", [](const JobResult& job) { return job.lost_device_s; }},
};

struct Scenario {
  template <typename T>
  struct AtLine {
    int line = 0;
    T value{};
  };
  struct Fact {
    const FactKind* kind = nullptr;
    std::size_t job = 0;
    double value = 0;  // -1: the job never finishes
  };

  Cluster cluster;
  const PolicyInfo* policy = nullptr;
  SimOptions options;
  Workload workload;
  std::vector<AtLine<ScheduleLine>> schedule;
  std::vector<AtLine<Fact>> facts;
  std::optional<AtLine<Seconds>> serving_wait;  // longest time that serving waits for devices
};

// Seconds of one update by number of devices, on any nodes.
class TableSpeed final : public SpeedModel {
 public:
  // With `more_work`, every device adds a batch of its own. Otherwise all devices share one batch.
  TableSpeed(std::vector<Seconds> update_s, bool more_work)
      : update_s_(std::move(update_s)), more_work_(more_work) {}

  StepTime step_time(const Placement& placement, std::int64_t) const override {
    const int devices = placement.devices();
    const Seconds step = update_s_.at(static_cast<std::size_t>(devices) - 1);
    const Seconds computing = more_work_ ? update_s_[0] : update_s_[0] / devices;
    return {.step_s = step,
            .sync_s = std::max(0.0, step - computing),
            .confidence = Confidence::kMeasured};
  }

 private:
  std::vector<Seconds> update_s_;
  bool more_work_;
};

// Seconds of a logical worker's micro-batch on a device of each type, and of one synchronisation.
class WorkerTableSpeed final : public SpeedModel {
 public:
  WorkerTableSpeed(Seconds worker_s, Seconds sync_s) : worker_s_(worker_s), sync_s_(sync_s) {}

  StepTime step_time(const Placement& placement, std::int64_t) const override {
    const Seconds sync = placement.devices() > 1 ? sync_s_ : 0.0;
    return {.step_s = worker_s_ + sync, .sync_s = sync, .confidence = Confidence::kMeasured};
  }

 private:
  Seconds worker_s_;
  Seconds sync_s_;
};

class ScenarioParser {
 public:
  // `shown_path` is the name of the file in messages.
  static Result<Scenario> parse(std::string_view text, const std::string& shown_path) {
    ScenarioParser parser;
    try {
      for (const std::string_view line : split(text, '\n')) {
        ++parser.line_;
        parser.read_line(line.substr(0, line.find('#')));
      }
      parser.finish();
    } catch (const Mistake& mistake) {
      return invalid_input(fmt::format("{}:{}: {}", shown_path, parser.line_, mistake.message));
    }
    return std::move(parser.scenario_);
  }

 private:
  struct Mistake {
    std::string message;
  };
  template <typename... Args>
  [[noreturn]] static void fail(fmt::format_string<Args...> format, Args&&... args) {
    throw Mistake{fmt::format(format, std::forward<Args>(args)...)};
  }

  // --- Words of the current line

  bool more() const { return next_word_ < words_.size(); }
  std::string word(std::string_view what) {
    if (!more()) fail("expected {} at the end of the line", what);
    return words_[next_word_++];
  }
  double number(std::string_view what) { return to_number(word(what), what); }
  int whole(std::string_view what) { return to_whole(word(what), what); }
  static double to_number(std::string_view text, std::string_view what) {
    const auto value = parse_double(text);
    if (!value || *value < 0) fail("{}: expected a number from 0, not '{}'", what, text);
    return *value;
  }
  static int to_whole(std::string_view text, std::string_view what) {
    const auto value = parse_int(text);
    if (!value || *value < 0 || *value > 1'000'000) {
      fail("{}: expected a whole number from 0, not '{}'", what, text);
    }
    return static_cast<int>(*value);
  }
  static std::pair<std::string, std::string> assignment(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) fail("expected name=value, not '{}'", text);
    return {text.substr(0, equals), text.substr(equals + 1)};
  }

  // --- Lines

  void read_line(std::string_view line) {
    words_.clear();
    next_word_ = 0;
    std::string spaced;
    for (const char c : line) {
      const bool own_word = c == '(' || c == ')';
      spaced += own_word ? std::string{' ', c, ' '} : std::string{c == '\t' ? ' ' : c};
    }
    for (const std::string_view part : split(spaced, ' ')) {
      if (!trim(part).empty()) words_.emplace_back(trim(part));
    }
    if (words_.empty()) return;
    if (words_[0].find_first_not_of("0123456789.") == std::string::npos) {
      read_schedule_line();
    } else {
      read_statement(word("a statement"));
    }
    if (more()) fail("unexpected '{}'", words_[next_word_]);
  }

  void read_statement(const std::string& name) {
    const auto fact = std::find_if(kFactKinds.begin(), kFactKinds.end(),
                                   [&](const FactKind& kind) { return kind.name == name; });
    if (name == "cluster") {
      scenario_.cluster = valid(Cluster::parse(word("the cluster")));
    } else if (name == "policy") {
      scenario_.policy = valid(find_policy(word("the policy")));
    } else if (name == "set") {
      while (more()) scenario_.options.settings.insert(assignment(word("a setting")));
    } else if (name == "round") {
      scenario_.options.round_s = number("round");
    } else if (name == "resize-cost") {
      scenario_.options.resize.stop_s = number(name);
    } else if (name == "stop-free") {
      scenario_.options.resize.stop_free_s = number(name);
    } else if (name == "app") {
      read_app();
    } else if (name == "job") {
      read_job();
    } else if (name == "node-down" || name == "node-up") {
      read_node_event(name == "node-down");
    } else if (name == "serving") {
      read_serving();
    } else if (name == "give-back") {
      scenario_.options.give_back_s = number(name);
    } else if (name == "serving-wait") {
      scenario_.serving_wait = {line_, number(name)};
    } else if (name == "expect") {
      expecting_ = true;
    } else if (fact != kFactKinds.end()) {
      while (more()) read_fact(*fact, word("a job"));
    } else {
      static const std::vector<std::string> kKnown{
          "cluster", "policy",  "set",     "round",     "resize-cost", "stop-free", "app",
          "job",     "node-up", "serving", "node-down", "expect",      "jct",       "waited",
          "lost",    "resizes", "dropped", "give-back", "serving-wait"};
      fail("unknown statement '{}'{}", name, did_you_mean(name, kKnown));
    }
  }

  template <typename T>
  static T valid(Result<T> result) {
    if (!result) fail("{}", result.error().message);
    return std::move(*result);
  }

  void read_app() {
    Application::Description d{.name = word("the application's name"), .epochs = 1};
    double updates = 0;
    std::vector<Seconds> update_s;
    bool grows = false;
    Seconds sync_s = 0;
    std::vector<Seconds> worker_s(scenario_.cluster.type_count(), 0.0);
    bool workers = false;
    while (more()) {
      const std::string key = word("a property");
      if (key == "updates") {
        updates = number(key);
      } else if (key == "sync") {
        sync_s = number(key);
      } else if (key == "worker-seconds") {
        workers = true;
        const std::string list = word(key);  // must outlive its parts
        for (const std::string_view text : split(list, ',')) {
          const auto [name, seconds] = assignment(std::string(text));
          worker_s[type(name).index()] = to_number(seconds, key);
        }
      } else if (key == "update-seconds") {
        const std::string list = word(key);  // must outlive its parts
        for (const std::string_view text : split(list, ',')) {
          update_s.push_back(to_number(text, key));
        }
      } else if (key == "grow-batch") {
        grows = true;
      } else {
        fail("app: expected updates, update-seconds, grow-batch, worker-seconds or sync, not '{}'",
             key);
      }
    }
    if (updates <= 0 || update_s.empty() != workers) {
      fail("app: needs updates and either update-seconds or worker-seconds");
    }
    if (scenario_.cluster.type_count() == 0) fail("app: must come after the cluster");
    // Either a fixed batch of 60 samples, where more would not help, or 32 samples on each device,
    // all of which help.
    d.max_devices = workers ? scenario_.cluster.devices() : static_cast<int>(update_s.size());
    d.batch = grows ? BatchLimits{32, 32LL * d.max_devices, 32, 32} : BatchLimits{60, 60, 1, 60};
    d.fixed_batch = !grows;
    const GradientNoise noise{.squared_norm = grows ? 0.0 : 1.0, .variance = grows ? 1.0 : 0.0};
    d.records[d.batch.initial] = {.progress = {updates}, .iteration = {updates}, .noise = {noise}};
    for (const Seconds seconds : worker_s) {
      if (workers) {
        d.speed.push_back(std::make_shared<WorkerTableSpeed>(seconds, sync_s));
      } else {
        d.speed.push_back(std::make_shared<TableSpeed>(update_s, grows));
      }
    }
    const std::string name = d.name;
    applications_[name] = std::make_shared<const Application>(std::move(d));
  }

  void read_job() {
    WorkloadJob job;
    JobSpec& spec = job.spec;
    spec.id = JobId(scenario_.workload.jobs.size());
    spec.name = word("the job's name");
    bool submitted = false;
    bool sized = false;
    std::optional<int> requested;
    while (more()) {
      const std::string key = word("a property");
      if (key == "submit") {
        spec.submit_s = number(key);
        submitted = true;
      } else if (key == "devices") {
        read_range(word(key), spec);
        sized = true;
      } else if (key == "requested") {
        requested = whole(key);
      } else if (key == "duration") {
        job.duration_s = number(key);
      } else if (key == "app") {
        spec.application = word(key);
        const auto found = applications_.find(spec.application);
        if (found == applications_.end())
          fail("job: no application '{}' is defined above", spec.application);
        job.application = found->second;
      } else if (key == "priority") {
        spec.priority = whole(key);
      } else if (key == "type") {
        spec.allowed_types = 1U << type(word(key)).index();
      } else if (key == "resize-cost") {
        spec.resize_cost_s = number(key);
      } else if (key == "workers") {
        spec.logical_workers = whole(key);
      } else if (key == "mixes") {
        spec.mixes_types = true;
      } else {
        static const std::vector<std::string> kKnown{
            "submit",   "devices", "requested",   "duration", "app",
            "priority", "type",    "resize-cost", "workers",  "mixes"};
        fail("job: unknown property '{}'{}", key, did_you_mean(key, kKnown));
      }
    }
    if (!submitted || !sized) fail("job: needs submit and devices");
    if ((job.duration_s > 0) == (job.application != nullptr)) {
      fail("job: needs either a duration above 0 or an app");
    }
    spec.requested_devices = requested.value_or(spec.min_devices);
    complete_and_check(job);
    scenario_.workload.jobs.push_back(std::move(job));
  }

  static void read_range(std::string_view text, JobSpec& spec) {
    const std::size_t dots = text.find("..");
    spec.min_devices = to_whole(text.substr(0, dots), "devices");
    spec.max_devices = dots == std::string_view::npos ? spec.min_devices
                                                      : to_whole(text.substr(dots + 2), "devices");
    if (spec.min_devices < 1 || spec.max_devices < spec.min_devices) {
      fail("devices: expected N or MIN..MAX from 1, not '{}'", text);
    }
  }

  void complete_and_check(WorkloadJob& job) const {
    JobSpec& spec = job.spec;
    spec.mode =
        spec.min_devices == spec.max_devices ? ElasticMode::kRigid : ElasticMode::kConsistent;
    if (job.application != nullptr) {
      const Application& app = *job.application;
      spec.batch = app.batch();
      spec.epochs = app.epochs();
      spec.requested_batch =
          app.fixed_batch() ? spec.batch.initial : spec.batch.initial * spec.requested_devices;
      if (spec.mode == ElasticMode::kConsistent && !app.fixed_batch()) {
        spec.mode = ElasticMode::kAdaptive;
      }
      if (spec.max_devices > app.max_devices()) {
        fail("job: {} devices, but update-seconds of '{}' has {} numbers", spec.max_devices,
             app.name(), app.max_devices());
      }
    }
    if (spec.requested_devices < spec.min_devices || spec.requested_devices > spec.max_devices) {
      fail("requested: expected a number within devices, not {}", spec.requested_devices);
    }
    if ((spec.logical_workers > 0 || spec.mixes_types) &&
        (spec.logical_workers < spec.max_devices || spec.mode != ElasticMode::kConsistent)) {
      fail("job: workers need an elastic job with at most as many devices");
    }
    int largest = 0;
    for (std::size_t i = 0; i < scenario_.cluster.type_count(); ++i) {
      if (!spec.allows(DeviceTypeId(i))) continue;
      const int devices = scenario_.cluster.capacity()[DeviceTypeId(i)];
      largest = spec.mixes_types ? largest + devices : std::max(largest, devices);
    }
    if (spec.max_devices > largest) {
      fail("devices: {}, but the cluster (given above the jobs) has {} of a type", spec.max_devices,
           largest);
    }
    for (const WorkloadJob& other : scenario_.workload.jobs) {
      if (other.spec.name == spec.name) fail("duplicate job '{}'", spec.name);
      if (other.spec.submit_s > spec.submit_s) fail("jobs must be listed in order of submission");
    }
  }

  DeviceTypeId type(const std::string& name) const {
    const DeviceTypeId found = scenario_.cluster.find_type(name);
    if (!found.valid()) fail("the cluster has no device type '{}'", name);
    return found;
  }

  void read_node_event(bool down) {
    const double time = number("time");
    const NodeId node(whole("node"));
    if (node.index() >= scenario_.cluster.nodes().size()) {
      fail("the cluster has no node {}", node.value);
    }
    auto& events = scenario_.options.node_events;
    if (!events.empty() && events.back().time_s > time)
      fail("node events must be in order of time");
    events.push_back({.time_s = time, .node = node, .down = down});
  }

  void read_serving() {
    const double time = number("time");
    const int devices = whole("devices");
    const DeviceTypeId of = more() ? type(word("type")) : DeviceTypeId(std::size_t{0});
    auto& load = scenario_.options.serving_load;
    if (!load.empty() && load.back().time_s > time) fail("serving lines must be in order of time");
    load.push_back({.time_s = time, .type = of, .devices = devices});
  }

  // TIME job=devices ... (waiting ...), or TIME - if there are no jobs.
  void read_schedule_line() {
    if (!expecting_) fail("schedule line before 'expect'");
    ScheduleLine line{.time_ms = to_ms(number("time"))};
    if (!scenario_.schedule.empty() && scenario_.schedule.back().value.time_ms >= line.time_ms) {
      fail("schedule lines must be in order of time");
    }
    if (!more()) fail("expected jobs, or '-' if there are none");
    bool in_parentheses = false;
    while (more()) {
      const std::string text = word("a job");
      if (text == "(" || text == ")") {
        if (in_parentheses == (text == "(")) fail("unexpected '{}'", text);
        in_parentheses = text == "(";
      } else if (in_parentheses) {
        job_index(text);
        line.waiting.insert(text);
      } else if (text != "-") {
        const auto [job, devices] = assignment(text);
        job_index(job);
        line.running[job] = read_devices(devices);
      }
    }
    if (in_parentheses) fail("expected ')' at the end of the line");
    scenario_.schedule.push_back({line_, std::move(line)});
  }

  // "4", or "2@0+2@1" with nodes.
  HeldDevices read_devices(std::string_view text) const {
    HeldDevices devices;
    for (const std::string_view share : split(text, '+')) {
      const std::size_t at = share.find('@');
      const int count = to_whole(share.substr(0, at), "devices");
      devices.total += count;
      if (at == std::string_view::npos) continue;
      const int node = to_whole(share.substr(at + 1), "node");
      if (static_cast<std::size_t>(node) >= scenario_.cluster.nodes().size()) {
        fail("the cluster has no node {}", node);
      }
      devices.by_node[node] += count;
    }
    return devices;
  }

  void read_fact(const FactKind& kind, const std::string& text) {
    const auto [job, value] = assignment(text);
    const double number = value == "never" ? -1 : to_number(value, kind.name);
    scenario_.facts.push_back({line_, {.kind = &kind, .job = job_index(job), .value = number}});
  }

  std::size_t job_index(const std::string& name) const {
    std::vector<std::string> names;
    for (const WorkloadJob& job : scenario_.workload.jobs) {
      if (job.spec.name == name) return names.size();
      names.push_back(job.spec.name);
    }
    fail("no job '{}' is defined above{}", name, did_you_mean(name, names));
  }

  void finish() const {
    if (scenario_.policy == nullptr) fail("the policy is missing");
    if (scenario_.workload.jobs.empty()) fail("there are no jobs");
    if (scenario_.schedule.empty()) fail("the expected schedule is missing");
  }

  ScenarioParser() {
    // Defaults that keep the arithmetic on paper easy.
    scenario_.options.resize.stop_s = 0;
    scenario_.options.law = {.exponent = 1.0};
  }

  Scenario scenario_;
  Applications applications_;
  int line_ = 0;
  bool expecting_ = false;
  std::vector<std::string> words_;
  std::size_t next_word_ = 0;
};

}  // namespace rubato
