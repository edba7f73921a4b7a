// membership_sim: plays fault schedules in the simulated world and says which promise was violated.
//
//   --seed S --count N      the schedules of seeds S, S+1, ... (default: 1, one)
//   --nodes N --workers W --faults F  of each (default: 1, 4, 30)
//   --mixed                 the numbers of nodes and workers follow from the seed
//   --trace                 tell what happens
//   --until-found           end with the first violation
//   --scenario FILE         plays a scenario file and tells what happens
//   --shrink                of the schedule of --seed, prints the smallest one that fails alike
//   --write                 prints the schedule of --seed as a scenario file
//   --search                one planned change with one fault at every point: --nodes, --workers
#include <fmt/format.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "membership/scenario.h"
#include "membership/search.h"
#include "membership/shrink.h"

using namespace rubato::elastic::membership::sim;

namespace {

struct Options {
  std::uint64_t seed = 1;
  std::int64_t count = 1;
  int nodes = 1;
  int workers = 4;
  int faults = 30;
  bool mixed = false;
  bool trace = false;
  bool until_found = false;
  bool shrinks = false;
  bool writes = false;
  bool searches = false;
  std::string scenario;
};

[[noreturn]] void usage(const std::string& problem) {
  fmt::print(stderr, "membership_sim: {}; tests/membership/membership_sim.cpp lists the options\n",
             problem);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto number = [&] {
      if (i + 1 >= argc) usage(fmt::format("{} needs a number", name));
      char* end = nullptr;
      const long long value = std::strtoll(argv[++i], &end, 10);
      if (*end != '\0' || end == argv[i]) usage(fmt::format("'{}' is not a number", argv[i]));
      return value;
    };
    if (name == "--seed") {
      options.seed = static_cast<std::uint64_t>(number());
    } else if (name == "--count") {
      options.count = number();
    } else if (name == "--nodes") {
      options.nodes = static_cast<int>(number());
    } else if (name == "--workers") {
      options.workers = static_cast<int>(number());
    } else if (name == "--faults") {
      options.faults = static_cast<int>(number());
    } else if (name == "--mixed") {
      options.mixed = true;
    } else if (name == "--trace") {
      options.trace = true;
    } else if (name == "--until-found") {
      options.until_found = true;
    } else if (name == "--shrink") {
      options.shrinks = true;
    } else if (name == "--write") {
      options.writes = true;
    } else if (name == "--search") {
      options.searches = true;
    } else if (name == "--scenario" && i + 1 < argc) {
      options.scenario = argv[++i];
    } else {
      usage(fmt::format("unknown option {}", name));
    }
  }
  return options;
}

Schedule schedule_of(const Options& options, std::uint64_t seed) {
  struct Size {
    int nodes;
    int workers;
  };
  constexpr std::array kSizes = {Size{1, 2}, Size{1, 4}, Size{2, 2}, Size{1, 3},
                                 Size{2, 4}, Size{1, 6}, Size{3, 4}, Size{2, 3}};
  const Size size =
      options.mixed ? kSizes[seed % kSizes.size()] : Size{options.nodes, options.workers};
  return random_schedule(seed, size.nodes, size.workers, options.faults);
}

// The schedule that is played, for the case that the code ends or hangs in it.
std::uint64_t playing = 0;
std::uint64_t first = 0;

void on_signal(int signal) {
  const char* const what = signal == SIGVTALRM ? "the protocol is caught in a loop"
                           : signal == SIGABRT ? "a check in the protocol's code failed"
                                               : "the protocol's code crashed";
  const std::string text =
      fmt::format("seed {}: {}\nfound after {}: {}\n", playing, what, playing - first + 1, what);
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, text.data(), text.size());
  _exit(1);
}

// SIGVTALRM after so many seconds of processor time: a process that is stopped for a while, or has
// a busy machine, is not caught in a loop.
void set_limit(int seconds) {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

int play(const Options& options) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGVTALRM}) std::signal(signal, on_signal);
  const std::clock_t began = std::clock();
  std::int64_t events = 0;
  std::int64_t views = 0;
  std::int64_t played = 0;
  int failed = 0;
  first = options.seed;
  while (played < options.count) {
    playing = options.seed + static_cast<std::uint64_t>(played++);
    set_limit(60);
    World world(schedule_of(options, playing));
    const Outcome outcome = world.run(options.trace);
    events += outcome.events;
    views += outcome.views;
    if (outcome.violation.empty()) continue;
    fmt::print("seed {}: {}\n", playing, outcome.violation);
    if (options.until_found) fmt::print("found after {}: {}\n", played, outcome.violation);
    if (++failed >= (options.until_found ? 1 : 10)) break;
  }
  set_limit(0);
  const double s = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  fmt::print(
      "{} schedules, {} events, {} views, {} violations, {:.2f} s: {:.0f} schedules/s and core\n",
      played, events, views, failed, s, static_cast<double>(played) / s);
  return failed > 0 ? 1 : 0;
}

// --- Scenarios -----------------------------------------------------------------------------------

int play_scenario(const std::string& file) {
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  if (!stream.is_open()) usage("cannot read " + file);
  const auto scenario = parse_scenario(text, file);
  if (!scenario) usage(scenario.error().message);
  fmt::print("{}", scenario->story);
  const Outcome outcome = World(scenario->schedule).run(true);
  fmt::print("views: {} ({}); processes: {}; repeated steps: {}; members at the end: {}\n{}",
             outcome.views, outcome.causes, outcome.processes, outcome.repeated, outcome.members,
             outcome.violation.empty() ? "" : "violation " + outcome.violation + "\n");
  const std::string unmet = play(*scenario);
  fmt::print("{}\n", unmet.empty() ? "as expected" : unmet);
  return unmet.empty() ? 0 : 1;
}

// What the schedule violates, played in a process of its own: it may crash or hang.
std::string violation_apart(const Schedule& schedule) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) usage("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    set_limit(20);
    std::freopen("/dev/null", "w", stderr);
    const std::string violation = World(schedule).run().violation;
    [[maybe_unused]] const auto written = write(ends[1], violation.data(), violation.size());
    _exit(0);
  }
  close(ends[1]);
  std::string violation;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    violation.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) return violation;
  return WTERMSIG(status) == SIGVTALRM ? "the protocol is caught in a loop"
                                       : "a check in the protocol's code failed";
}

int shrink_schedule(const Schedule& schedule) {
  const std::string violation = violation_apart(schedule);
  if (violation.empty()) usage("this schedule violates nothing");
  std::vector<Fault> as_it_was;
  if (violation.starts_with("at ")) as_it_was = World(schedule).run().faults;
  const Shrunk shrunk = shrink(schedule, as_it_was, violation_apart);
  Scenario scenario;
  scenario.story = fmt::format("# Shrunk from {} faults, {} workers in {} runs.\n",
                               schedule.faults.size(), schedule.workers, shrunk.runs);
  scenario.schedule = shrunk.schedule;
  scenario.expected.violation = shrunk.violation.substr(0, shrunk.violation.find('\n'));
  fmt::print("{}", to_text(scenario));
  return 0;
}

int search_all(const Options& options) {
  const SearchBounds bounds{.nodes = options.nodes, .workers = options.workers};
  const auto began = std::chrono::steady_clock::now();
  const SearchResult result = search(bounds);
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fmt::print("{} nodes, {} workers: {} points, {} runs, {} states, {:.1f} s\n", bounds.nodes,
             bounds.workers, result.points, result.runs, result.states, s);
  if (result.violation.empty()) {
    fmt::print("complete: every fault at every point, every event postponed behind up to {}\n",
               bounds.behind);
    return 0;
  }
  Scenario scenario;
  scenario.schedule = result.failing;
  scenario.expected.violation = result.violation;
  fmt::print("violation {}\n{}", result.violation, to_text(scenario));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.scenario.empty()) return play_scenario(options.scenario);
  if (options.shrinks) return shrink_schedule(schedule_of(options, options.seed));
  if (options.searches) return search_all(options);
  if (options.writes) {
    fmt::print(
        "{}",
        to_text({.story = "", .schedule = schedule_of(options, options.seed), .expected = {}}));
    return 0;
  }
  return play(options);
}
