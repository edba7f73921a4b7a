// One job through thousands of view changes: memory and descriptors of the worker that stays must
// not grow, and the bits must equal those of the undisturbed run.
//
//   soak [--views 2000]
//
// Prints a line every hundred views and finally whether the promises held.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/random.h"
#include "elastic/job_runner.h"

namespace rubato::elastic {
namespace {

struct Usage {
  long rss_kb = 0;
  long descriptors = 0;
  long mappings = 0;
};

Usage usage_of(pid_t pid) {
  Usage usage;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) usage.rss_kb = std::atol(line.c_str() + 8);
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it(fmt::format("/proc/{}/fd", pid), error), end;
       !error && it != end; it.increment(error)) {
    ++usage.descriptors;
  }
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) ++usage.mappings;
  return usage;
}

int run(int views) {
  std::string root = (std::filesystem::temp_directory_path() / "rubato-soak-XXXXXX").string();
  if (mkdtemp(root.data()) == nullptr) return 1;
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string rubato = (here / "rubato").string();
  const std::string toy = (here / "toy_train").string();
  const std::string steps = std::to_string(views * 25);
  RunningJob undisturbed(rubato, root + "/undisturbed",
                         {"--workers", "1", "--logical", "4", "--", toy, "--steps", steps});
  RunningJob job(rubato, root + "/job",
                 {"--workers", "1", "--logical", "4", "--checkpoint-every", "5", "--", toy,
                  "--steps", steps, "--compute-us", "1000"});
  if (!job.until([&] { return job.step() > 10; })) {
    fmt::print("the job did not start\n{}", job.logs());
    return 1;
  }
  const auto leader = static_cast<pid_t>(job.view().members.front().address.pid);
  Random random(1);
  Usage first;
  Usage last;
  std::int64_t reported = 0;
  for (;;) {
    const View view = job.view();
    if (view.number >= views) break;
    if (view.number >= reported + 100) {
      reported = view.number;
      last = usage_of(leader);
      if (first.rss_kb == 0 && view.number >= views / 4) first = last;  // all threads have run once
      fmt::print("view {:>5} step {:>7} private memory {} KiB, {} descriptors, {} mappings\n",
                 view.number, job.step(), last.rss_kb, last.descriptors, last.mappings);
      std::fflush(stdout);
    }
    // The worker that stays leads; the others come and go, as planned or by force.
    const int wanted = random.between(1, 4);
    const bool by_force = random.chance(0.2) && view.members.size() > 1;
    if (by_force) {
      kill(static_cast<pid_t>(view.members.back().address.pid), SIGKILL);
    } else {
      job.change([&](Target& target) { target.workers = wanted; });
    }
    if (!by_force && static_cast<int>(view.members.size()) == wanted) continue;
    if (!job.until([&] { return job.view().number > view.number; })) {
      fmt::print("no view followed view {}\n{}", view.number, job.logs());
      return 1;
    }
  }
  const bool ended = job.wait() == 0 && undisturbed.wait() == 0;
  const bool same = ended && job.hash() == undisturbed.hash();
  const bool flat = last.rss_kb <= first.rss_kb + 1024 &&
                    last.descriptors <= first.descriptors + 8 &&
                    last.mappings <= first.mappings + 16;
  fmt::print(
      "{} views: {}; from the first quarter to the end: private memory {:+} KiB, descriptors {:+}, "
      "mappings {:+}: {}\n",
      job.result().value("views", 0), same ? "same bits" : "DIFFERENT BITS",
      last.rss_kb - first.rss_kb, last.descriptors - first.descriptors,
      last.mappings - first.mappings, flat ? "flat" : "GROWING");
  if (!same || !flat) return 1;
  std::filesystem::remove_all(root);
  return 0;
}

}  // namespace
}  // namespace rubato::elastic

int main(int argc, char** argv) {
  return rubato::elastic::run(argc == 3 ? std::atoi(argv[2]) : 2000);
}
