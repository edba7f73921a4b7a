// `rubato doctor` on machines that lack, one by one, each thing it checks, or hold garbage instead.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/doctor_machine.h"

namespace rubato::control::doctor {
namespace {

class Doctor : public testing::Test {
 protected:
  Doctor() { furnish(machine_); }

  Finding finding(const std::string& check) const {
    for (const Finding& one : examine(machine_, subject_)) {
      if (one.check == check) return one;
    }
    ADD_FAILURE() << "no check " << check;
    return {};
  }

  // The check's level and words of what it found; whatever is not fine has a remedy.
  void expect(const std::string& check, Level level, const std::string& words) const {
    const Finding one = finding(check);
    EXPECT_STREQ(to_string(one.level), to_string(level)) << one.found;
    EXPECT_NE(one.found.find(words), std::string::npos) << one.found;
    EXPECT_EQ(one.remedy.empty(), level == Level::kOk) << one.remedy;
    for (const char c : one.found + one.remedy) {
      EXPECT_TRUE(c >= ' ' && c < 127) << check << " prints character " << int{c};
    }
  }

  void only_torch(Libraries::Library library) {
    machine_.loaded[kProgram].found = {std::move(library)};
  }

  TableMachine machine_;
  Subject subject_ = subject();
};

constexpr const char* kGarbage = "\x01\xff\x1b[2J%s {{\n\n::\n";

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
  expect("gpu", Level::kWarn, "nvidia-smi said");
  machine_.programs["nvidia-smi"] = printed("GPU-1, A\nGPU-2, B\n");
  expect("gpu", Level::kWarn, "different types");
}

TEST_F(Doctor, ChecksTheDriver) {
  expect("gpu driver", Level::kOk, "NVIDIA 535.104.05");
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

// --- The daemon

TEST_F(Doctor, LooksForARunningDaemon) {
  expect("daemon", Level::kOk, "answers at http://127.0.0.1:7117");
  machine_.answers.erase(std::string(kUrl) + kApiDocument);
  expect("daemon", Level::kWarn, "no rubatod answers");
  subject_.server_urls.clear();
  expect("daemon", Level::kNote, "no daemon runs here");
}

TEST_F(Doctor, KnowsWhoHasThePort) {
  expect("port", Level::kOk, "used by rubatod");
  subject_.server_urls.clear();  // a daemon of somebody else
  expect("port", Level::kOk, "used by rubatod");
  for (const char* body :
       {kGarbage, "{}", "[]", R"({"info":{"title":"Grafana"}})", "{\"info\":1}"}) {
    machine_.answers[std::string(kUrl) + kApiDocument].body = body;
    expect("port", Level::kFail, "another program");
  }
  machine_.ports[7117] = {Port::State::kUnusable, "Cannot assign requested address"};
  expect("port", Level::kFail, "Cannot assign requested address");
  machine_.ports.erase(7117);
  expect("port", Level::kOk, "is free");
}

TEST_F(Doctor, OnlyNotesATakenPortWhenTheDaemonHasAnother) {
  subject_.server_urls = {"http://127.0.0.1:9000"};
  machine_.answers["http://127.0.0.1:9000/api/v1/openapi.json"] =
      machine_.answers[std::string(kUrl) + kApiDocument];
  machine_.answers.erase(std::string(kUrl) + kApiDocument);
  expect("port", Level::kNote, "another program");
}

TEST_F(Doctor, ChecksTheStateFolder) {
  expect("state folder", Level::kOk, "80.0 GB free");
  subject_.server_urls.clear();
  machine_.spaces[kState].free_bytes = 500'000'000;
  expect("state folder", Level::kWarn, "500 MB free");
  machine_.spaces[kState].free_bytes = 1000;
  expect("state folder", Level::kFail, "1 kB free");
  machine_.spaces[kState] = {.free_bytes = 80'000'000'000, .free_files = 3, .counts_files = true};
  expect("state folder", Level::kFail, "3 more files");
  machine_.spaces[kState].network_filesystem = "NFS";
  expect("state folder", Level::kWarn, "NFS");
  machine_.spaces.erase(kState);
  expect("state folder", Level::kNote, "unknown");
}

TEST_F(Doctor, SeesAStateFolderThatTheDaemonCouldNotUse) {
  subject_.server_urls.clear();
  machine_.folders[kState].mode = 0755;
  expect("state folder", Level::kOk, "80.0 GB");  // empty: the daemon makes it private
  machine_.files[std::string(kState) + "/notes.txt"] = "";
  expect("state folder", Level::kFail, "open to others");
  machine_.files[std::string(kState) + "/rubato.lock"] = "";
  expect("state folder", Level::kOk, "80.0 GB");
  machine_.folders[kState].owner = 0;
  expect("state folder", Level::kFail, "belongs to user 0");
  machine_.folders[kState].writable = false;
  expect("state folder", Level::kFail, "not writable");
  machine_.folders.erase(kState);
  machine_.files[kState] = "";
  expect("state folder", Level::kFail, "not a folder");
}

TEST_F(Doctor, SeesWhetherTheStateFolderCouldBeCreated) {
  subject_.server_urls.clear();
  machine_.folders.erase(kState);
  machine_.folders["/home/ada"] = {.exists = true, .folder = true, .writable = true};
  machine_.spaces["/home/ada"] = {.free_bytes = 80'000'000'000};
  expect("state folder", Level::kOk, "rubatod creates it");
  machine_.folders["/home/ada"].writable = false;
  expect("state folder", Level::kFail, "/home/ada is not writable");
}

// --- The operating system

TEST_F(Doctor, ChecksLimits) {
  expect("limits", Level::kOk, "65536 open files");
  machine_.limit.open_files = 256;
  expect("limits", Level::kWarn, "256 open files");
  machine_.limit.open_files = 16;
  expect("limits", Level::kFail, "16 open files");
  machine_.limit = {.open_files = 65536, .core_bytes = 0, .processes = 50};
  expect("limits", Level::kWarn, "50 processes");
}

TEST_F(Doctor, ChecksCoreDumps) {
  expect("core dumps", Level::kOk, "core");
  machine_.limit.core_bytes = 0;
  expect("core dumps", Level::kNote, "off");
}

TEST_F(Doctor, ChecksTheClocks) {
  expect("clock", Level::kOk, "synchronised");
  machine_.clock.synchronised = false;
  expect("clock", Level::kWarn, "not synchronised");
  machine_.clock.synchronised.reset();
  expect("clock", Level::kNote, "does not say");
  machine_.clock.wall_passed_s = -3;
  expect("clock", Level::kWarn, "jumped by -3.0 s");
  machine_.clock.wall_s = 12;
  expect("clock", Level::kFail, "years behind");
  machine_.clock.monotonic_passed_s = 0;
  expect("clock", Level::kFail, "stands still");
}

TEST_F(Doctor, ChecksControlGroups) {
  expect("cgroups", Level::kOk, "version 2 (cpu io memory pids)");
  machine_.folders.erase("/run/systemd/system");
  machine_.folders["/sys/fs/cgroup/user.slice/ada"].writable = false;
  expect("cgroups", Level::kNote, "may not create groups");
  machine_.files.erase("/sys/fs/cgroup/cgroup.controllers");
  machine_.files["/sys/fs/cgroup/unified/cgroup.controllers"] = "";
  expect("cgroups", Level::kNote, "versions 1 and 2");
  machine_.files.erase("/sys/fs/cgroup/unified/cgroup.controllers");
  machine_.files["/proc/self/cgroup"] = "4:memory:/a\n";
  machine_.folders["/sys/fs/cgroup/memory"] = {.exists = true, .folder = true};
  expect("cgroups", Level::kNote, "version 1;");
  machine_.files["/proc/self/cgroup"] = kGarbage;
  expect("cgroups", Level::kNote, "none");
  machine_.files.erase("/proc/self/cgroup");
  expect("cgroups", Level::kNote, "none");
}

// --- Clusters

TEST_F(Doctor, ChecksSlurm) {
  expect("slurm", Level::kOk, "slurm-wlm 22.05.8, 5 nodes");
  machine_.programs["sinfo --noheader"] = printed(kGarbage);
  expect("slurm", Level::kWarn, "sinfo answers");
  machine_.programs["sinfo --noheader"] = failed("slurm_load_partitions: Unable to contact\n");
  expect("slurm", Level::kWarn, "Unable to contact");
  machine_.programs["sinfo --noheader"] = hung();
  expect("slurm", Level::kWarn, "does not answer");
  machine_.programs.erase("sinfo --version");
  machine_.programs.erase("sinfo --noheader");
  expect("slurm", Level::kNote, "not installed");
}

TEST_F(Doctor, ChecksEtcd) {
  expect("etcd", Level::kOk, "3.4.23 at 127.0.0.1:2379");
  machine_.answers["http://127.0.0.1:2379/version"].body = kGarbage;
  expect("etcd", Level::kNote, "not installed");
  machine_.programs["etcdctl version"] = printed("etcdctl version: 3.4.23\n");
  expect("etcd", Level::kNote, "installed, but nothing answers");
  machine_.variables["ETCDCTL_ENDPOINTS"] = "http://a:2379,http://b:2379";
  expect("etcd", Level::kWarn, "nothing answers at http://a:2379,http://b:2379");
  machine_.answers["http://b:2379/version"] = {200, R"({"etcdserver":"3.5.0"})", ""};
  expect("etcd", Level::kOk, "3.5.0 at http://b:2379");
}

}  // namespace
}  // namespace rubato::control::doctor
