// How fast the store is, compared with the disk: durable appends one at a time and in groups,
// opening with many jobs, reading from a long log. The unit is a plain write and fdatasync of 4 KiB
// to a file in the same folder, in the same run.
//   build/bin/store_speed [FOLDER] [JOBS] [EVENTS]
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "control/store.h"

namespace {

using namespace rubato;
using namespace rubato::control;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

[[noreturn]] void fail(const std::string& message) {
  fmt::print(stderr, "store_speed: {}\n", message);
  std::exit(1);
}

std::unique_ptr<Store> open_store(const std::string& folder) {
  auto store = Store::open(folder);
  if (!store) fail(store.error().message);
  return std::move(*store);
}

void append(Store& store, std::span<Event> events) {
  if (const auto status = store.append(events); !status) fail(status.error().message);
}

Event submission(JobNumber number) {
  Event event{.at = 1e9 + static_cast<double>(number),
              .type = "submitted",
              .job = number,
              .tenant = fmt::format("tenant-{}", number % 10)};
  event.body = {{"document",
                 {{"name", fmt::format("job {}", number)},
                  {"run", {"python3", "train.py", "--seed", std::to_string(number)}},
                  {"dir", "/home/somebody/experiments/vision"},
                  {"devices", "1..8"},
                  {"epochs", 90}}},
                {"key", fmt::format("key-{}", number)}};
  return event;
}

Event progress(const State& state, std::int64_t i) {
  const JobNumber number = 1 + i % (state.next_job - 1);
  Event event{.at = 2e9 + static_cast<double>(i), .type = "progress", .job = number};
  event.tenant = state.jobs.at(number).tenant;
  event.body = {{"step", i},        {"total_steps", 100'000}, {"epoch", 3.5},    {"epochs", 90},
                {"loss", 0.123456}, {"workers", 4},           {"step_s", 0.0123}};
  return event;
}

// Repeats a write of 4 KiB with fdatasync. Returns the seconds of each.
std::vector<double> sync_times(const std::string& path, int count) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail(path + ": cannot open");
  const std::string page(4096, 'x');
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const Stopwatch watch;
    if (::write(file, page.data(), page.size()) != 4096 || ::fdatasync(file) != 0) {
      fail(path + ": cannot write");
    }
    times.push_back(watch.seconds());
  }
  ::close(file);
  return times;
}

std::vector<double> append_times(Store& store, int count, int group) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    std::vector<Event> events;
    for (int k = 0; k < group; ++k) events.push_back(submission(store.state().next_job + k));
    const Stopwatch watch;
    append(store, events);
    times.push_back(watch.seconds());
  }
  return times;
}

double report(const std::string& what, std::vector<double> times, int group, double unit) {
  double sum = 0;
  for (const double time : times) sum += time;
  const double mean = sum / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  fmt::print("{:34} {:9.0f} /s  mean {:7.3f} ms  p50 {:7.3f} ms  p99 {:7.3f} ms", what,
             group / mean, 1e3 * mean, 1e3 * times[times.size() / 2],
             1e3 * times[times.size() * 99 / 100]);
  if (unit > 0) fmt::print("  {:5.2f} syncs", mean / unit);
  fmt::print("\n");
  return mean;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/tmp/rubato-store-speed";
  const auto jobs = argc > 2 ? parse_int(argv[2]).value_or(10'000) : 10'000;
  const auto events = argc > 3 ? parse_int(argv[3]).value_or(1'000'000) : 1'000'000;
  remove_tree(folder);
  if (const auto status = make_directories(folder); !status) fail(status.error().message);

  {
    auto store = open_store(folder + "/appends");
    const double unit =
        report("write + fdatasync of 4 KiB", sync_times(folder + "/plain", 500), 1, 0);
    report("append, 1 event", append_times(*store, 500, 1), 1, unit);
    report("append, 50 events", append_times(*store, 100, 50), 50, unit);
    report("write + fdatasync of 4 KiB again", sync_times(folder + "/plain", 500), 1, 0);
  }
  const std::string large = folder + "/large";
  auto store = open_store(large);
  while (store->state().next_job <= jobs) append_times(*store, 1, 500);
  {
    store.reset();
    const Stopwatch watch;
    store = open_store(large);
    fmt::print("open with {} jobs{:>14} {:9.1f} ms\n", store->state().jobs.size(), "",
               1e3 * watch.seconds());
  }
  for (std::int64_t i = store->state().last_seq; i < events;) {
    std::vector<Event> group;
    for (int k = 0; k < 2000; ++k) group.push_back(progress(store->state(), i++));
    append(*store, group);
  }
  {
    store.reset();
    const Stopwatch watch;
    store = open_store(large);
    fmt::print("open with {} jobs, {} events {:6.1f} ms\n", store->state().jobs.size(),
               store->state().last_seq, 1e3 * watch.seconds());
  }
  const auto read = [&](const char* what, std::int64_t after, JobNumber job,
                        const std::string& tenant) {
    const Stopwatch watch;
    const auto found = store->read_events(after, 100, job, tenant);
    if (!found) fail(found.error().message);
    fmt::print("{:34} {:9.3f} ms ({} events)\n", what, 1e3 * watch.seconds(), found->size());
  };
  read("read 100 events from the middle", events / 2, 0, "");
  read("read a job's events", 0, 17, "");
  read("read 100 events of a tenant", events / 2, 0, "tenant-3");
  report("append, 1 event, to the long log", append_times(*store, 300, 1), 1, 0);
  {
    const Stopwatch watch;
    const auto state = Store::replay(large);
    if (!state) fail(state.error().message);
    fmt::print("replay of {} events {:20.1f} ms\n", state->last_seq, 1e3 * watch.seconds());
    if (to_json(*state) != to_json(store->state())) fail("the replay differs from the state");
  }
  store.reset();
  remove_tree(folder);
  return 0;
}
