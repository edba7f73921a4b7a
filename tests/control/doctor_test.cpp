// `rubato doctor` on machines that lack, one by one, each thing it checks, or hold garbage instead.
#include <nlohmann/json.hpp>

#include "control/doctor_machine.h"

namespace rubato::control::doctor {
namespace {

TEST_F(Doctor, IsContentWithAMachineThatHasEverything) {
  const std::vector<Finding> findings = examine(machine_, subject_);
  EXPECT_EQ(findings.size(), 17U);
  for (const Finding& one : findings) {
    EXPECT_STREQ(to_string(one.level), "ok") << one.check << ": " << one.found;
    EXPECT_EQ(one.remedy, "") << one.check;
  }
  EXPECT_EQ(summary(findings), "17 ok, 0 notes, 0 warnings, 0 failures");
}

TEST_F(Doctor, GivesARemedyForEveryThingABareMachineLacks) {
  const TableMachine bare;
  const std::vector<Finding> findings = examine(bare, subject_);
  EXPECT_EQ(findings.size(), 17U);
  for (const Finding& one : findings) {
    EXPECT_EQ(one.remedy.empty(), one.level == Level::kOk) << one.check << ": " << one.found;
  }
  EXPECT_GT(count(findings, Level::kFail), 0);
}

TEST_F(Doctor, PrintsNoControlCharactersOfAMachineFullOfGarbage) {
  for (auto& file : machine_.files) file.second = kGarbage;
  for (auto& program : machine_.programs) program.second.output = kGarbage;
  for (auto& answer : machine_.answers) answer.second.body = kGarbage;
  for (auto& libraries : machine_.loaded) {
    libraries.second = {.loadable = false, .problem = kGarbage, .found = {{kGarbage, kGarbage}}};
  }
  for (const Finding& one : examine(machine_, subject_)) {
    expect(one.check, one.level, "");
  }
}

TEST_F(Doctor, ReportsAsJson) {
  machine_.folders.erase("/dev/shm");
  const auto report = to_json(examine(machine_, subject_));
  EXPECT_EQ(report["version"], 1);
  EXPECT_EQ(report["ready"], false);
  EXPECT_EQ(report["failures"], 1);
  EXPECT_EQ(report["checks"].size(), 17U);
  EXPECT_EQ(report["checks"][5]["check"], "shared memory");
  EXPECT_EQ(report["checks"][5]["level"], "fail");
}

// --- Devices

TEST_F(Doctor, SeesGpus) { expect("gpu", Level::kOk, "2 x NVIDIA H200"); }

TEST_F(Doctor, SeesThatThereIsNoGpu) {
  machine_.programs.erase("nvidia-smi");
  machine_.files.erase("/proc/driver/nvidia/version");
  expect("gpu", Level::kNote, "no NVIDIA GPU");
  EXPECT_NE(finding("gpu").remedy.find("--cpu-slots"), std::string::npos);
}

TEST_F(Doctor, SeesAGpuWithoutDriver) {
  machine_.programs.erase("nvidia-smi");
  machine_.files.erase("/proc/driver/nvidia/version");
  machine_.files["/sys/bus/pci/devices/0000:01:00.0/vendor"] = "0x10de\n";
  machine_.files["/sys/bus/pci/devices/0000:01:00.0/class"] = "0x030200\n";
  expect("gpu", Level::kWarn, "driver is not loaded");
}

TEST_F(Doctor, SeesADriverWithoutDeviceFiles) {
  machine_.programs["nvidia-smi"] = failed("Failed to initialize NVML\n");
  machine_.files.erase("/dev/nvidia0");
  expect("gpu", Level::kWarn, "/dev/nvidia0");
}

TEST_F(Doctor, SeesADriverWithoutItsTools) {
  machine_.programs.erase("nvidia-smi");
  expect("gpu", Level::kWarn, "nvidia-smi is not installed");
}

TEST_F(Doctor, SeesBrokenGpus) {
  machine_.programs["nvidia-smi"] = failed("NVML: Driver/library version mismatch\n");
  expect("gpu", Level::kWarn, "version mismatch");
  EXPECT_NE(finding("gpu").remedy.find("restart"), std::string::npos);
  machine_.programs["nvidia-smi"] = hung();
  expect("gpu", Level::kWarn, "did not answer");
  machine_.programs["nvidia-smi"] = printed("");
  expect("gpu", Level::kWarn, "lists no GPU");
  machine_.programs["nvidia-smi"] = printed(kGarbage);
  expect("gpu", Level::kWarn, "unexpected output of nvidia-smi");
  machine_.programs["nvidia-smi"] = printed("GPU-1, A\nGPU-2, B\n");
  expect("gpu", Level::kWarn, "different types");
}

TEST_F(Doctor, ChecksTheDriver) {
  expect("gpu driver", Level::kOk, "NVIDIA 535.104.05");
  machine_.files["/proc/driver/nvidia/version"] =
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n";
  expect("gpu driver", Level::kOk, "NVIDIA 580.159.04");
  machine_.loaded.erase("libcuda.so.1");
  expect("gpu driver", Level::kWarn, "libcuda.so.1 cannot be loaded");
  machine_.files["/proc/driver/nvidia/version"] = kGarbage;
  expect("gpu driver", Level::kWarn, "has no version");
  machine_.files.erase("/proc/driver/nvidia/version");
  expect("gpu driver", Level::kNote, "no NVIDIA driver");
}

// --- Processors and memory

TEST_F(Doctor, ComparesCpusWithTheDaemonsSlots) {
  expect("cpu", Level::kOk, "4 CPUs");
  subject_.daemon_cpu_slots = 8;
  expect("cpu", Level::kWarn, "8 CPU slots");
  EXPECT_NE(finding("cpu").remedy.find("--cpu-slots 4"), std::string::npos);
}

TEST_F(Doctor, SeesACpuLimitOfEitherCgroupVersion) {
  subject_.daemon_cpu_slots = 0;
  machine_.files["/sys/fs/cgroup/user.slice/cpu.max"] = "150000 100000\n";  // of the group above
  expect("cpu", Level::kWarn, "limits this process to 1.5");
  EXPECT_NE(finding("cpu").remedy.find("--cpu-slots 1"), std::string::npos);
  machine_.files["/sys/fs/cgroup/user.slice/cpu.max"] = kGarbage;
  expect("cpu", Level::kOk, "4 CPUs");
  machine_.files["/proc/self/cgroup"] = "4:cpu,cpuacct:/docker/1\n";
  machine_.files["/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us"] = "200000\n";
  machine_.files["/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us"] = "100000\n";
  expect("cpu", Level::kWarn, "limits this process to 2.0");
  machine_.files["/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us"] = "-1\n";
  expect("cpu", Level::kOk, "4 CPUs");
}

TEST_F(Doctor, ChecksTheInstructionSet) {
  expect("instruction set", Level::kOk, "AVX-512");
  machine_.files["/proc/cpuinfo"] = "flags : sse4_1 avx2\n";
  expect("instruction set", Level::kOk, "AVX2");
  machine_.files["/proc/cpuinfo"] = "flags : sse2 sse4_1\n";
  expect("instruction set", Level::kWarn, "no AVX2");
  machine_.files["/proc/cpuinfo"] = "flags : fpu\n";
  expect("instruction set", Level::kFail, "no SSE4.1");
  machine_.files["/proc/cpuinfo"] = kGarbage;
  expect("instruction set", Level::kNote, "unknown");
  machine_.files.erase("/proc/cpuinfo");
  expect("instruction set", Level::kNote, "unknown");
}

TEST_F(Doctor, ChecksMemory) {
  expect("memory", Level::kOk, "61.4 GB available");
  machine_.files["/sys/fs/cgroup/user.slice/ada/memory.max"] = "300000000\n";
  expect("memory", Level::kWarn, "limited to 300 MB");
  machine_.files["/sys/fs/cgroup/user.slice/ada/memory.max"] = "max\n";
  machine_.files["/proc/meminfo"] = "MemAvailable: 100000 kB\n";
  expect("memory", Level::kWarn, "102 MB available");
  machine_.files["/proc/meminfo"] = "MemAvailable: many kB\n";
  expect("memory", Level::kNote, "unknown");
  machine_.files.erase("/proc/meminfo");
  expect("memory", Level::kNote, "unknown");
}

TEST_F(Doctor, ComparesSharedMemoryWithWhatTrainingNeeds) {
  // Two workers: 8 bytes on the board, and each 12 of state and 13 gradient buffers of 4.
  EXPECT_EQ(shared_bytes_per_parameter(2), 8 + 2 * (12 + 13 * 4));
  expect("shared memory", Level::kOk, "228 million parameters");
  machine_.spaces["/dev/shm"] = {.total_bytes = 64'000'000, .free_bytes = 64'000'000};
  expect("shared memory", Level::kWarn, "64 MB of 64 MB free");
  EXPECT_NE(finding("shared memory").remedy.find("--shm-size"), std::string::npos);
  machine_.spaces["/dev/shm"].free_bytes = 4096;
  expect("shared memory", Level::kFail, "4 kB of 64 MB free");
  machine_.folders["/dev/shm"].writable = false;
  expect("shared memory", Level::kFail, "not writable");
  machine_.spaces.erase("/dev/shm");
  expect("shared memory", Level::kFail, "no /dev/shm");
}

// --- LibTorch

TEST_F(Doctor, FindsTheLibTorchOfTheProgram) {
  expect("libtorch", Level::kOk, "2.3.1+cu121 for train_mlp");
  machine_.loaded[kProgram] = {.loadable = false,
                               .problem = "libtorch_cpu.so.2 is not found",
                               .found = {{"libtorch_cpu.so.2", ""}}};
  expect("libtorch", Level::kFail, "train_mlp cannot start: libtorch_cpu.so.2 is not found");
  machine_.loaded[kProgram] = {.loadable = true, .problem = "", .found = {{"libc.so.6", "/libc"}}};
  expect("libtorch", Level::kNote, "does not link LibTorch");
}

TEST_F(Doctor, SeesALibTorchThatCannotUseTheGpus) {
  only_torch({"libtorch_cpu.so.2", "/opt/torch/lib/libtorch_cpu.so.2"});
  expect("libtorch", Level::kWarn, "without CUDA");
  machine_.programs["nvidia-smi"] = printed("");
  expect("libtorch", Level::kOk, "2.3.1");
}

TEST_F(Doctor, ReadsTheVersionWhereverItIsWritten) {
  machine_.programs["nvidia-smi"] = printed("");
  only_torch({"libtorch_cpu.so.1.13", "/usr/lib/libtorch_cpu.so.1.13"});
  machine_.links["/usr/lib/libtorch_cpu.so.1.13"] = "/usr/lib/libtorch_cpu.so.1.13.0";
  expect("libtorch", Level::kOk, "1.13.0 for");
  machine_.programs["dpkg-query --search"] = printed("libtorch1.13:amd64: /usr/lib/libtorch_cpu\n");
  machine_.programs["dpkg-query --show"] = printed("1.13.1+dfsg-4");
  expect("libtorch", Level::kOk, "1.13.1 for");
  machine_.programs["dpkg-query --show"] = printed("1.8.0");
  expect("libtorch", Level::kWarn, "1.8.0");
  machine_.programs["dpkg-query --show"] = printed(kGarbage);
  expect("libtorch", Level::kWarn, "version unknown");
  only_torch({"libtorch_cpu.so", "/opt/libtorch/lib/libtorch_cpu.so"});
  machine_.files["/opt/libtorch/build-version"] = "2.4.0+cpu\n";
  expect("libtorch", Level::kOk, "2.4.0+cpu");
}

TEST_F(Doctor, FindsLibTorchWithoutAnyProgram) {
  subject_.programs = {"/not/built"};
  machine_.programs["nvidia-smi"] = printed("");
  expect("libtorch", Level::kWarn, "not found");
  expect("blas", Level::kNote, "unknown without LibTorch");
  machine_.programs["python3"] = printed("/venv/torch/__init__.py\n");
  machine_.files["/venv/torch/lib/libtorch_cpu.so"] = "";
  machine_.files["/venv/torch/version.py"] = "__version__ = '2.5.0'\n";
  machine_.loaded["/venv/torch/lib/libtorch_cpu.so"] = {true, "", {}};
  expect("libtorch", Level::kOk, "2.5.0 for programs built here");
  expect("blas", Level::kOk, "inside LibTorch");
  machine_.programs["python3"] = printed(kGarbage);
  expect("libtorch", Level::kWarn, "not found");
  machine_.files["/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"] = "";
  expect("libtorch", Level::kFail, "cannot be loaded");
}

TEST_F(Doctor, WarnsOfTheReferenceBlas) {
  expect("blas", Level::kOk, "openblas");
  machine_.links["/lib/libblas.so.3"] = "/usr/lib/blas/libblas.so.3.11.0";
  expect("blas", Level::kWarn, "reference BLAS");
  EXPECT_NE(finding("blas").remedy.find("libopenblas0-pthread"), std::string::npos);
  machine_.loaded[kProgram].found.pop_back();
  expect("blas", Level::kOk, "inside LibTorch");
  machine_.loaded[kProgram].found.push_back({"libmkl_rt.so.2", "/opt/libmkl_rt.so.2"});
  expect("blas", Level::kOk, "mkl");
}

}  // namespace
}  // namespace rubato::control::doctor
