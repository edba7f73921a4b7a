#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/file.h"
#include "elastic/launch/warm_copy.h"
#include "elastic/worker/worker.h"
#include "rubato/train.h"
#include "train/environment.h"
#include "train/job_options.h"
#include "train/state_file.h"
#include "train/torch_program.h"

namespace rubato {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

[[noreturn]] void refuse(const std::string& program, const std::string& message) {
  fmt::print(stderr, "{}: {}\n", program, message);
  std::exit(kWrongInput);
}

int run(train::TorchProgram& program, const JobOptions& options, bool& finished) {
  int code = 0;
  const auto at_end = [&](std::span<const std::byte> private_state) {
    finished = true;
    // For code that uses the model afterwards: the buffers of logical worker 0, as with PyTorch's
    // DDP.
    program.load_private(private_state);
    if (options.dump.empty()) return;
    if (Status done = write_file(options.dump, program.parameter_bytes()); !done) {
      fmt::print(stderr, "{}: --dump: {}\n", options.spec.name, done.error().message);
      code = kFailed;
    }
  };
  const int result = elastic::run_worker(
      program, {.name = options.spec.name,
                // If given, only the number of steps counts; every epoch has at least one.
                .epochs = options.spec.steps >= 0 ? options.spec.steps + 1 : options.spec.epochs,
                .steps = options.spec.steps,
                .logical_workers = options.spec.logical,
                .logical_workers_asked = options.logical_asked,
                .at_end = at_end});
  return result != 0 ? result : code;
}

// For the launcher, see elastic/launch/program_mark.h. It has no other content.
[[gnu::used, gnu::section("rubato_program")]] const char program_mark = 1;

}  // namespace

Job::Job(int argc, char** argv, const JobDefaults& defaults, const std::vector<Flag>& flags) {
  const auto arguments = std::span<const char* const>(argv, static_cast<std::size_t>(argc));
  Result<JobOptions> parsed = parse_job_options(arguments.subspan(1), defaults, flags);
  if (parsed && parsed->help) {
    fmt::print("{}", job_help(defaults, flags));
    std::exit(0);
  }
  if (!parsed) {
    elastic::say_hello();
    refuse(arguments[0], parsed.error().message);
  }
  if (const char* const level = std::getenv("RUBATO_CONSISTENCY"); level != nullptr) {
    // The launcher's setting applies to all workers.
    const Result<elastic::Consistency> consistency = elastic::parse_consistency(level);
    if (!consistency) refuse(arguments[0], "RUBATO_CONSISTENCY: " + consistency.error().message);
    parsed->consistency = *consistency;
  }
  if (Status pinned = elastic::pin_environment(argv, parsed->consistency); !pinned) {
    refuse(arguments[0], pinned.error().message);
  }
  elastic::leave_warm_copy();  // LibTorch is loaded, and nothing of it was used
  elastic::say_hello();        // now the launcher starts the other workers
  if (parsed->cuda && !torch::cuda::is_available()) {
    refuse(arguments[0], fmt::format("--device cuda: LibTorch finds no CUDA device here; use "
                                     "--device cpu, or see what is missing: rubato doctor "
                                     "--program {}",
                                     arguments[0]));
  }
  train::pin_torch();
  torch::manual_seed(parsed->spec.seed);
  options_ = std::make_unique<JobOptions>(std::move(*parsed));
}

Job::~Job() = default;

torch::Device Job::device() const {
  return options_->cuda ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
}

int Job::train(const Training& training) {
  const JobDefaults& spec = options_->spec;
  try {
    if (!options_->init.empty() && training.model) {
      if (Status loaded = train::load_state(*training.model, options_->init); !loaded) {
        fmt::print(stderr, "{}: --init: {}\n", spec.name, loaded.error().message);
        return kWrongInput;
      }
    }
    auto program =
        train::TorchProgram::make(training, {.seed = spec.seed,
                                             .batch = spec.batch,
                                             .epochs = spec.epochs,
                                             .steps = spec.steps,
                                             .pace = std::chrono::milliseconds(options_->pace_ms),
                                             .device = device()});
    if (!program) {
      fmt::print(stderr, "{}: {}\n", spec.name, program.error().message);
      return kWrongInput;
    }
    program_ = std::move(*program);
    return run(*program_, *options_, finished_);
  } catch (const c10::Error& error) {
    fmt::print(stderr, "{}: LibTorch: {}\n", spec.name, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", spec.name, error.what());
  }
  return kFailed;
}

bool Job::leads() const { return program_ == nullptr || program_->leads(); }

void Job::report(const std::string& name, double value) {
  if (program_ == nullptr) return;
  const Status reported = program_->report(name, value);
  if (!reported) throw std::invalid_argument(reported.error().message);
}

}  // namespace rubato
