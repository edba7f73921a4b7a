// Same bits as PyTorch: two logical workers here, on one worker and on two, against
// DistributedDataParallel on two processes (ddp_reference.py).
//
// usage: ddp_check PYTHON SCRIPT
// Exit code 77 (ctest: skipped) where PYTHON has no torch.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "elastic/pinned_environment.h"
#include "train/emulated_job.h"
#include "train/environment.h"
#include "train/models.h"

namespace rubato::train {
namespace {

constexpr std::int64_t kSteps = 50;
constexpr std::int64_t kBatch = 8;
constexpr int kSkipped = 77;

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

// The floating-point statistics in the private state of the CNN: two buffers of 6 floats, each at
// a multiple of 64 bytes.
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

bool run_case(const std::string& folder, const std::string& python, const std::string& script,
              const std::string& name, const ProgramSpec& spec) {
  const std::string prefix = folder + "/" + name;
  write_case(prefix, spec);
  if (!command(
          fmt::format("'{}' '{}' '{}' {} {} {}", python, script, folder, name, kSteps, kBatch))) {
    fmt::print("{}: {} failed\n", name, script);
    return false;
  }
  bool equal = true;
  for (const std::vector<int>& sizes : {std::vector<int>{2}, {1, 1}}) {
    EmulatedJob job([&] { return make_program(spec); }, sizes);
    for (std::int64_t step = 0; step < kSteps; ++step) job.step(step);
    const std::string here = fmt::format("{}, {} worker(s)", name, sizes.size());
    equal = check(here + ": parameters", job.worker(0).program().parameter_bytes(),
                  read(prefix + ".final")) &&
            equal;
    for (int i = 0; spec.model == ModelKind::kCnn && i < 2; ++i) {
      equal = check(fmt::format("{}: statistics of logical worker {}", here, i),
                    statistics(job.private_state(i)),
                    read(fmt::format("{}.statistics{}", prefix, i))) &&
              equal;
    }
  }
  return equal;
}

int run(const std::string& python, const std::string& script) {
  if (!command(fmt::format("'{}' -c 'import torch.distributed, numpy' 2>/dev/null", python))) {
    fmt::print("skipped: {} has no torch (Debian: python3-torch)\n", python);
    return kSkipped;
  }
  pin_torch();
  std::string folder = (std::filesystem::temp_directory_path() / "rubato_ddp_XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    fmt::print("cannot make {}\n", folder);
    return 1;
  }
  const bool mlp = run_case(folder, python, script, "mlp",
                            {.model = ModelKind::kMlp,
                             .optimizer = OptimizerKind::kAdam,
                             .samples = 400,
                             .batch = kBatch});
  const bool cnn = run_case(folder, python, script, "cnn",
                            {.model = ModelKind::kCnn,
                             .optimizer = OptimizerKind::kMomentum,
                             .samples = 400,
                             .batch = kBatch});
  std::filesystem::remove_all(folder);
  return mlp && cnn ? 0 : 1;
}

}  // namespace
}  // namespace rubato::train

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print("usage: {} PYTHON SCRIPT\n", argv[0]);
    return 2;
  }
  const auto pinned = rubato::elastic::pin_environment(argv, rubato::elastic::Consistency::kD1);
  if (!pinned) {
    fmt::print("{}\n", pinned.error().message);
    return 1;
  }
  return rubato::train::run(argv[1], argv[2]);
}
