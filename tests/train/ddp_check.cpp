// Same bits as PyTorch: compares two logical workers, in jobs of one and of two worker processes,
// with DistributedDataParallel on two processes (ddp_reference.py).
//
// usage: ddp_check PYTHON SCRIPT RUBATO
// Exit code 77 (skipped, for ctest) if PYTHON has no torch. This program is also the training
// program of the jobs: ddp_check worker mlp|cnn DUMP
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/job/checkpoint.h"
#include "elastic/job/job_description.h"
#include "elastic/job_runner.h"
#include "elastic/worker/pinned_environment.h"
#include "elastic/worker/worker.h"
#include "train/environment.h"
#include "train/models.h"

namespace rubato::train {
namespace {

constexpr std::int64_t kSteps = 50;
constexpr std::int64_t kBatch = 8;
constexpr int kSkipped = 77;

ProgramSpec spec_of(const std::string& name) {
  const bool mlp = name == "mlp";
  return {.model = mlp ? ModelKind::kMlp : ModelKind::kCnn,
          .optimizer = mlp ? OptimizerKind::kAdam : OptimizerKind::kMomentum,
          .samples = 400,
          .batch = kBatch};
}

bool command(const std::string& text) {
  const int status = std::system(text.c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void write(const std::string& path, const void* data, std::size_t bytes) {
  const Status done = write_file(path, {static_cast<const char*>(data), bytes});
  if (!done) throw std::runtime_error(done.error().message);
}

std::string read(const std::string& path) {
  Result<std::string> content = read_file(path);
  if (!content) throw std::runtime_error(content.error().message);
  return std::move(*content);
}

void write_case(const std::string& prefix, const ProgramSpec& spec) {
  const TestData data = make_data(spec.model, spec.samples);
  write(prefix + ".inputs", data.inputs.data_ptr(), data.inputs.nbytes());
  write(prefix + ".labels", data.labels.data_ptr(), data.labels.nbytes());
  const std::string initial = make_program(spec)->parameter_bytes();
  write(prefix + ".initial", initial.data(), initial.size());
  const elastic::DataOrder order(
      {.seed = spec.seed, .samples = spec.samples, .logical_workers = 2, .batch = spec.batch});
  std::vector<std::int64_t> samples;
  std::vector<std::uint64_t> seeds;
  elastic::MiniBatch batch;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (int logical = 0; logical < 2; ++logical) {
      order.share(step, logical, batch);
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
      seeds.push_back(batch.random_seed);
    }
  }
  write(prefix + ".order", samples.data(), samples.size() * sizeof(samples[0]));
  write(prefix + ".seeds", seeds.data(), seeds.size() * sizeof(seeds[0]));
}

// The floating-point statistics in the private state of the CNN: two buffers of 6 floats, each at a
// multiple of 64 bytes.
std::string statistics(const std::string& private_state) {
  return private_state.substr(0, 24) + private_state.substr(64, 24);
}

bool check(const std::string& what, const std::string& ours, const std::string& theirs) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < ours.size() && i < theirs.size(); ++i) {
    different += ours[i] != theirs[i] ? 1U : 0U;
  }
  const bool equal = ours == theirs;
  fmt::print("{}: {} bytes, {}\n", what, ours.size(),
             equal ? "equal" : fmt::format("{} differ ({} there)", different, theirs.size()));
  return equal;
}

// Runs the job as a user would. The final parameters of every worker and the private states of the
// logical workers must equal those of the reference.
bool check_job(const std::string& rubato, const std::string& prefix, const std::string& name,
               int workers) {
  const std::string here = fmt::format("{}, {} worker{}", name, workers, workers == 1 ? "" : "s");
  const std::string dump = fmt::format("{}.{}", prefix, workers);
  elastic::RunningJob job(
      rubato, fmt::format("{}.job{}", prefix, workers),
      {"--quiet", "--workers", std::to_string(workers), "--logical", "2", "--failure-timeout", "60",
       "--checkpoint-steps", std::to_string(kSteps), "--",
       std::filesystem::canonical("/proc/self/exe"), "worker", name, dump});
  if (const int code = job.wait(); code != 0) {
    fmt::print("{}: the job ended with code {}\n{}\n", here, code, job.logs());
    return false;
  }
  for (const nlohmann::json& event : job.events()) {
    const std::string type = event.value("type", "");
    // Straggler and recovered only report speed: a busy machine causes them, and no worker moves.
    if (type == "started" || type == "straggler" || type == "recovered") continue;
    if (type == "audit" && event.value("same", false)) continue;
    if (type == "view" && event.value("workers", 0) == workers) continue;
    fmt::print("{}: the job was disturbed: {}\n", here, compact_json(event));
    return false;
  }
  bool equal = true;
  for (int worker = 0; worker < workers; ++worker) {
    equal = check(fmt::format("{}: parameters of worker {}", here, worker),
                  read(fmt::format("{}.{}", dump, worker)), read(prefix + ".final")) &&
            equal;
  }
  const ProgramSpec spec = spec_of(name);
  if (spec.model != ModelKind::kCnn) return equal;
  const auto program = make_program(spec);
  elastic::DataOrder::Options data = program->data();
  data.logical_workers = 2;
  const auto checkpoints = elastic::CheckpointFolder::open(job.folder().checkpoint_folder(), 1);
  const auto found =
      checkpoints->load_newest(elastic::describe_job(program->shape(), data, kSteps));
  if (!found.ok() || !found->newest || found->newest->step != kSteps) {
    fmt::print("{}: no checkpoint of step {}\n", here, kSteps);
    return false;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<std::byte>& state = found->newest->parts[1 + i];
    equal = check(fmt::format("{}: statistics of logical worker {}", here, i),
                  statistics({reinterpret_cast<const char*>(state.data()), state.size()}),
                  read(fmt::format("{}.statistics{}", prefix, i))) &&
            equal;
  }
  return equal;
}

// A worker of the job.
int work(const std::string& name, const std::string& dump) {
  pin_torch();
  const auto program = make_program(spec_of(name));
  const auto at_end = [&](std::span<const std::byte>) {
    const std::string parameters = program->parameter_bytes();
    write(fmt::format("{}.{}", dump, std::getenv(elastic::kWorkerVariable)), parameters.data(),
          parameters.size());
  };
  return elastic::run_worker(*program,
                             {.name = name, .epochs = kSteps, .steps = kSteps, .at_end = at_end});
}

bool run_case(const std::string& folder, const std::string& python, const std::string& script,
              const std::string& rubato, const std::string& name) {
  const std::string prefix = folder + "/" + name;
  write_case(prefix, spec_of(name));
  if (!command(
          fmt::format("'{}' '{}' '{}' {} {} {}", python, script, folder, name, kSteps, kBatch))) {
    fmt::print("{}: {} failed\n", name, script);
    return false;
  }
  const bool one = check_job(rubato, prefix, name, 1);
  return check_job(rubato, prefix, name, 2) && one;
}

int run(const std::string& python, const std::string& script, const std::string& rubato) {
  if (!command(fmt::format("'{}' -c 'import torch.distributed, numpy' 2>/dev/null", python))) {
    fmt::print("skipped: {} has no torch (Debian: python3-torch)\n", python);
    return kSkipped;
  }
  pin_torch();
  std::string folder = (std::filesystem::temp_directory_path() / "rubato_ddp_XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    fmt::print("cannot create {}\n", folder);
    return 1;
  }
  const bool mlp = run_case(folder, python, script, rubato, "mlp");
  const bool cnn = run_case(folder, python, script, rubato, "cnn");
  std::filesystem::remove_all(folder);
  return mlp && cnn ? 0 : 1;
}

}  // namespace
}  // namespace rubato::train

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print("usage: {} PYTHON SCRIPT RUBATO | worker mlp|cnn DUMP\n", argv[0]);
    return 2;
  }
  const auto pinned = rubato::elastic::pin_environment(argv, rubato::elastic::Consistency::kD1);
  if (!pinned) {
    fmt::print("{}\n", pinned.error().message);
    return 1;
  }
  if (std::string(argv[1]) == "worker") return rubato::train::work(argv[2], argv[3]);
  return rubato::train::run(argv[1], argv[2], argv[3]);
}
