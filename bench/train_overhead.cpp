// What the runtime costs compared to the same loop in plain LibTorch:
//   8 logical workers on one worker    against gradient accumulation of 8 micro-batches
//   1 logical worker                   against a plain training loop
// how memory grows from 1 to 16 logical workers, in units of the gradient's size, and what
// consistency d2 (common subset of processors) costs compared to d1.
//
// Each job is a real one, launched like 'rubato run --workers 1': registry, board, membership
// thread, records, checkpoints. Inside its worker, steps of the job and steps of the plain loop
// alternate, because other load on a machine changes from second to second.
//
// usage: train_overhead [SECONDS per comparison, default 20]
// The worker of such a job: train_overhead WHAT REPORT SECONDS
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/launch/launcher.h"
#include "elastic/worker/pinned_environment.h"
#include "elastic/worker/worker.h"
#include "observed_program.h"
#include "plain_loop.h"
#include "train/environment.h"
#include "train/torch_program.h"

namespace bench {
namespace {

namespace elastic = rubato::elastic;
using rubato::train::TorchProgram;

// --- In the worker -------------------------------------------------------------------------------

std::unique_ptr<TorchProgram> make_program(
    torch::nn::Sequential& model, std::function<torch::Tensor(const rubato::Batch&)> loss) {
  return std::move(*TorchProgram::make({.model = model.ptr(),
                                        .optimizer = make_sgd(model),
                                        .samples = kSamples,
                                        .loss = std::move(loss)},
                                       {.batch = kBatch, .device = device()}));
}

std::unique_ptr<TorchProgram> make_cnn_program(const Data& data) {
  torch::nn::Sequential model = make_cnn();
  return make_program(model, [=](const rubato::Batch& batch) mutable {
    return torch::cross_entropy_loss(model->forward(data.images.index_select(0, batch.indices)),
                                     data.labels.index_select(0, batch.indices));
  });
}

elastic::JobFolder folder() { return elastic::JobFolder(std::getenv(elastic::kJobFolderVariable)); }

// Leaves the figures for the launching process and stops the job.
void finish(const std::string& report, const nlohmann::json& figures) {
  const rubato::Status written = rubato::write_file(report, rubato::compact_json(figures));
  if (!written.ok()) fmt::print(stderr, "{}\n", written.error().message);
  auto registry = elastic::FileRegistry::open(folder().registry_folder());
  static_cast<void>(elastic::change_target(**registry, [](elastic::Target& target) {
    target.stop = true;
    return rubato::ok_status();
  }));
}

int run(elastic::Program& program) {
  return elastic::run_worker(program, {.name = "overhead", .epochs = 1'000'000});
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
double thread_seconds() { return cpu_seconds(CLOCK_THREAD_CPUTIME_ID); }
double other_threads() { return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - thread_seconds(); }

// Runs blocks of the job's steps and of the plain loop's steps in turn.
class Comparison {
 public:
  Comparison(std::string report, double seconds, int logical_workers)
      : report_(std::move(report)),
        seconds_(seconds),
        program_(make_cnn_program(data_)),
        plain_(data_, logical_workers),
        observed_(*program_, [this](std::int64_t step) { step_begins(step); }) {}

  int measure() { return run(observed_); }

 private:
  void step_begins(std::int64_t step) {
    if (step % block_ != 0 || over_) return;
    wait_for_device();
    const std::int64_t warm = step / block_ - kWarmUp;
    if (warm > 0) {
      ours_.push_back(since(mark_) / static_cast<double>(block_));
      ratios_.push_back(ours_.back() / theirs_.back());
      cpu_ratios_.push_back((thread_seconds() - cpu_mark_) / plain_cpu_);
    }
    if (warm == 0) {
      began_ = Clock::now();
      others_ = other_threads();
      observed_.forget_times();
      plain_.forget_times();
    }
    if (warm > 0 && since(began_) >= seconds_) {
      over_ = true;
      finish(report_, figures());
      return;
    }
    const auto start = Clock::now();
    const double cpu_start = thread_seconds();
    for (std::int64_t i = 0; i < block_; ++i) plain_.step();
    wait_for_device();
    cpu_mark_ = thread_seconds();
    plain_cpu_ = cpu_mark_ - cpu_start;
    if (warm >= 0) theirs_.push_back(since(start) / static_cast<double>(block_));
    mark_ = Clock::now();
  }

  nlohmann::json figures() const {
    const double blocks = static_cast<double>(ours_.size());
    const double steps = blocks * static_cast<double>(block_);
    const auto split = [&](const std::vector<double>& times, double compute, double wait,
                           double merge, double update) {
      double all = 0;
      for (const double time : times) all += time;
      all /= blocks;
      const double known = (compute + wait + merge + update) / steps;
      return nlohmann::json{{"compute", compute / steps}, {"wait", wait / steps},
                            {"merge", merge / steps},     {"update", update / steps},
                            {"rest", all - known},        {"all", all}};
    };
    const ObservedProgram::Seconds& s = observed_.seconds();
    return {{"device", device().str()},
            {"ours", median(ours_)},
            {"plain", median(theirs_)},
            {"ratio", median(ratios_)},
            {"cpu_ratio", median(cpu_ratios_)},
            {"pairs", ratios_.size()},
            {"steps", block_},
            {"others", (other_threads() - others_) / since(began_)},
            {"split", split(ours_, s.compute, s.settle, s.other, s.update)},
            {"plain_split", split(theirs_, plain_.compute, plain_.read_loss, 0, plain_.update)}};
  }

  static constexpr std::int64_t kWarmUp = 3;  // blocks
  std::string report_;
  double seconds_;
  Data data_;
  std::unique_ptr<TorchProgram> program_;
  Plain plain_;
  ObservedProgram observed_;
  // The end of a block waits for the device, which neither loop does between its steps.
  const std::int64_t block_ = torch::cuda::is_available() ? 20 : 1;
  std::vector<double> ours_;  // seconds per step, by block
  std::vector<double> theirs_;
  std::vector<double> ratios_;
  std::vector<double> cpu_ratios_;  // processor time of this thread
  double cpu_mark_ = 0;
  double plain_cpu_ = 0;
  Clock::time_point mark_;
  Clock::time_point began_;
  double others_ = 0;
  bool over_ = false;
};

// Bytes used by the job: anonymous memory of its worker, and its shared memory.
double job_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kib = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kib;
  }
  double bytes = kib * 1024;
  const std::string prefix = fmt::format("rubato.{}.", folder().read_settings()->token);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    struct stat file {};
    if (::stat(entry.path().c_str(), &file) == 0) {
      bytes += static_cast<double>(file.st_blocks) * 512;
    }
  }
  return bytes;
}

// A model of 33 MiB, so that gradients stand out from everything else.
int measure_memory(const std::string& report) {
  torch::nn::Sequential model(torch::nn::Linear(2048, 2048), torch::nn::ReLU(),
                              torch::nn::Linear(2048, 2048), torch::nn::BatchNorm1d(2048));
  const torch::Tensor inputs = torch::randn({kBatch, 2048}).to(device());
  auto program = make_program(
      model, [&](const rubato::Batch&) { return model->forward(inputs).pow(2).mean(); });
  double most = 0;
  ObservedProgram observed(
      *program,
      [&](std::int64_t step) {
        if (step != 5) return;
        finish(report, {{"host", most},
                        {"device", rubato::train::compat::most_device_bytes()},
                        {"gradient", program->shape().gradient_floats * sizeof(float)},
                        {"private", program->shape().private_bytes}});
      },
      [&] { most = std::max(most, job_bytes()); });
  return run(observed);
}

int measure_step(const std::string& report) {
  const Data data;
  auto program = make_cnn_program(data);
  std::vector<double> times;
  Clock::time_point mark;
  ObservedProgram observed(*program, [&](std::int64_t step) {
    if (step > 3) times.push_back(since(mark));
    if (step == 43) finish(report, {{"step", median(times)}});
    mark = Clock::now();
  });
  return run(observed);
}

// --- Outside -------------------------------------------------------------------------------------

// Launches a job on one worker that measures `what`. Returns its report, or an empty object.
nlohmann::json measure(const std::string& self, const std::string& what, int logical_workers,
                       double seconds, const std::string& consistency = "d1") {
  std::string place = (std::filesystem::temp_directory_path() / "rubato-overhead-XXXXXX").string();
  if (::mkdtemp(place.data()) == nullptr) return nlohmann::json::object();
  ::setenv("RUBATO_HOME", (place + "/home").c_str(), 1);
  const std::string report = place + "/report.json";
  elastic::LaunchOptions options{.folder = place + "/job",
                                 .workers = 1,
                                 .command = {self, what, report, fmt::format("{}", seconds)},
                                 .quiet = true};
  options.settings.name = "overhead";
  options.settings.logical_workers = logical_workers;
  options.settings.consistency = consistency;
  const auto result = elastic::launch(options);
  if (!result.ok()) fmt::print(stderr, "{}\n", result.error().message);
  const auto text = rubato::read_file(report);
  auto figures = rubato::parse_json(text.ok() ? *text : "{}");
  if (figures.empty()) {
    const auto log = rubato::read_file(elastic::JobFolder(options.folder).log_file(0));
    fmt::print("the job that measures '{}' failed:\n{}\n", what, log.ok() ? *log : "");
  }
  rubato::remove_tree(place);
  return figures;
}

// Returns the device of the measurement; empty if it failed.
std::string compare_loops(const std::string& self, const std::string& what, int logical_workers,
                          double target, double seconds) {
  const nlohmann::json f = measure(self, "loop", logical_workers, seconds);
  if (f.empty()) return "";
  const auto ms = [](const nlohmann::json& value) { return value.get<double>() * 1e3; };
  fmt::print("{:<34} {:>9.3f} ms {:>9.3f} ms   {:.4f} (target {:.2f}, {} pairs of {} steps)\n",
             what, ms(f["ours"]), ms(f["plain"]), f["ratio"].get<double>(), target,
             f["pairs"].get<int>(), f["steps"].get<int>());
  for (const char* part : {"compute", "wait", "merge", "update", "rest", "all"}) {
    fmt::print("    mean {:<27} {:>9.3f} ms {:>9.3f} ms\n", part, ms(f["split"][part]),
               ms(f["plain_split"][part]));
  }
  fmt::print("    processor time of the training thread: {:.4f} of the plain loop's\n",
             f["cpu_ratio"].get<double>());
  fmt::print("    other threads of the worker: {:.2f} % of a core\n",
             100 * f["others"].get<double>());
  std::fflush(stdout);
  return f["device"];
}

bool compare_memory(const std::string& self) {
  double host = 0;
  double device = 0;
  for (const int logical : {1, 2, 4, 8, 16}) {
    const nlohmann::json f = measure(self, "memory", logical, 0);
    if (f.empty()) return false;
    const double gradient = f["gradient"];
    if (logical == 1) {
      host = f["host"];
      device = f["device"];
    }
    fmt::print("{:>2} logical workers: {:>7.1f} MiB of memory, {:+.2f} gradients of {:.1f} MiB",
               logical, f["host"].get<double>() / 1048576,
               (f["host"].get<double>() - host) / gradient, gradient / 1048576);
    if (f["device"].get<double>() > 0) {
      fmt::print("; {:>7.1f} MiB on the device, {:+.2f} gradients",
                 f["device"].get<double>() / 1048576,
                 (f["device"].get<double>() - device) / gradient);
    }
    fmt::print(" (target {}; private state {:.2f} MiB each)\n",
               std::bit_width(static_cast<unsigned>(logical)),
               f["private"].get<double>() / 1048576);
    std::fflush(stdout);
  }
  return true;
}

bool compare_consistency(const std::string& self) {
  std::vector<double> d1;
  std::vector<double> d2;
  for (int round = 0; round < 6; ++round) {
    const bool second = round % 2 == 1;
    const nlohmann::json f = measure(self, "step", 1, 0, second ? "d2" : "d1");
    if (f.empty()) return false;
    (second ? d2 : d1).push_back(f["step"].get<double>() * 1e3);
  }
  fmt::print("{:<34} {:>9.2f} ms {:>9.2f} ms   {:.2f} times as long\n", "consistency d2 vs. d1",
             median(d2), median(d1), median(d2) / median(d1));
  return true;
}

// This process only launches jobs; it does not touch the device, which the workers use.
int compare_all(const std::string& self, double seconds) {
  fmt::print("CNN, batch {} per logical worker; a job launched on 1 worker\n", kBatch);
  fmt::print("{:<34} {:>12} {:>12}   ratio\n", "median step", "rubato", "plain");
  std::fflush(stdout);
  const std::string device = compare_loops(self, "8 logical workers on 1 worker", 8, 1.02, seconds);
  bool all = !compare_loops(self, "1 logical worker", 1, 1.01, seconds).empty();
  fmt::print("on {}\n", device);
  all = compare_memory(self) && all;
  if (device == "cpu") all = compare_consistency(self) && all;
  return all && !device.empty() ? 0 : 1;
}

int work(const std::string& what, const std::string& report, double seconds) {
  rubato::train::pin_torch();
  if (what == "memory") return measure_memory(report);
  if (what == "step") return measure_step(report);
  return Comparison(report, seconds, folder().read_settings()->logical_workers).measure();
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc == 4 && std::getenv(rubato::elastic::kJobFolderVariable) != nullptr) {
    return bench::work(argv[1], argv[2], std::atof(argv[3]));
  }
  return bench::compare_all(std::filesystem::canonical("/proc/self/exe"),
                            argc > 1 ? std::atof(argv[1]) : 20);
}
