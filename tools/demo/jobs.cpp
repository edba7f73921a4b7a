#include "demo/jobs.h"

#include <fmt/format.h>

namespace rubato::demo {

namespace {

constexpr double kFirstShort = 4;  // seconds
constexpr double kShortEvery = 3;
constexpr int kShortJobs = 10;

DemoJob job(double at, std::string name, std::vector<std::string> run) {
  DemoJob made{.at = at, .name = std::move(name), .paced = {.run = run}, .unpaced = {.run = run}};
  made.paced.run.insert(made.paced.run.end(), {"--pace", std::to_string(kPaceMs)});
  return made;
}

}  // namespace

std::vector<DemoJob> demo_jobs(const std::string& examples) {
  std::vector<DemoJob> jobs;
  const auto add = [&](double at, std::string name, const char* program, const char* epochs) {
    jobs.push_back(job(at, std::move(name), {examples + "/" + program, "--epochs", epochs}));
  };
  // A step has four mini-batches. An epoch of the language model has 78 steps, which is 7.8 s on
  // one slot; one of the images has 24, one of the table 64.
  add(0.0, "language", "train_lm", "5");
  add(1.0, "vision", "train_cnn", "15");
  add(2.0, "tabular", "train_mlp", "6");
  for (DemoJob& each : jobs) each.is_long = true;
  // Two small programs that are submitted again and again, as tests and retrainings are.
  for (int i = 0; i < kShortJobs; ++i) {
    const bool table = i % 2 == 0;
    add(kFirstShort + kShortEvery * i,
        fmt::format("{}-{}", table ? "small-tabular" : "small-vision", 1 + i / 2),
        table ? "train_mlp" : "train_cnn", table ? "1" : "3");
  }
  return jobs;
}

}  // namespace rubato::demo
