// A machine made of tables, from which a test takes away whatever it likes.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "control/doctor/checks.h"

namespace rubato::control::doctor {

class TableMachine final : public MachineView {
 public:
  std::map<std::string, std::string> files;
  std::map<std::string, FileInfo> folders;
  std::map<std::string, Space> spaces;
  std::map<std::string, std::string> links;
  std::map<std::string, std::string> variables;
  std::map<std::string, Ran> programs;  // by the command line's start; the longest match counts
  std::map<std::string, Libraries> loaded;
  std::map<std::string, Answer> answers;
  std::map<int, Port> ports;
  unsigned user_id = 1000;
  int cpus = 4;
  Clocks clock{
      .wall_s = 1.8e9, .wall_passed_s = 0.05, .monotonic_passed_s = 0.05, .synchronised = true};
  Limits limit{.open_files = 65536,
               .core_bytes = std::numeric_limits<std::uint64_t>::max(),
               .processes = 30000};

  std::optional<std::string> read(const std::string& path) const override {
    const auto at = files.find(path);
    return at == files.end() ? std::nullopt : std::optional(at->second);
  }
  FileInfo file(const std::string& path) const override {
    if (const auto at = folders.find(path); at != folders.end()) return at->second;
    if (files.contains(path)) return {.exists = true, .mode = 0644, .owner = user_id};
    return {};
  }
  std::vector<std::string> list(const std::string& folder) const override {
    std::set<std::string> names;
    const auto add = [&](const std::string& path) {
      if (!path.starts_with(folder + "/")) return;
      const std::string rest = path.substr(folder.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    };
    for (const auto& one : files) add(one.first);
    for (const auto& one : folders) add(one.first);
    return {names.begin(), names.end()};
  }
  std::string real_path(const std::string& path) const override {
    const auto at = links.find(path);
    return at == links.end() ? path : at->second;
  }
  std::optional<Space> space(const std::string& path) const override {
    const auto at = spaces.find(path);
    return at == spaces.end() ? std::nullopt : std::optional(at->second);
  }
  std::string environment(const std::string& name) const override {
    const auto at = variables.find(name);
    return at == variables.end() ? "" : at->second;
  }
  unsigned user() const override { return user_id; }
  int usable_cpus() const override { return cpus; }
  Clocks clocks() const override { return clock; }
  Limits limits() const override { return limit; }
  Ran run(const std::vector<std::string>& command, std::chrono::milliseconds) const override {
    const std::string line = join(command, " ");
    Ran result;
    std::size_t longest = 0;
    for (const auto& [start, ran] : programs) {
      if (line.starts_with(start) && start.size() >= longest) {
        result = ran;
        longest = start.size();
      }
    }
    return result;
  }
  Libraries libraries(const std::string& program) const override {
    const auto at = loaded.find(program);
    return at == loaded.end() ? Libraries{.problem = program + ": cannot open shared object file"}
                              : at->second;
  }
  Port port(const std::string&, int number) const override {
    const auto at = ports.find(number);
    return at == ports.end() ? Port{} : at->second;
  }
  Answer get(const std::string& url) const override {
    const auto at = answers.find(url);
    return at == answers.end() ? Answer{.problem = "connection refused"} : at->second;
  }
};

inline Ran printed(std::string output) {
  return {.end = Ran::End::kEnded, .code = 0, .output = std::move(output), .errors = ""};
}
inline Ran failed(std::string errors) {
  return {.end = Ran::End::kEnded, .code = 1, .output = "", .errors = std::move(errors)};
}
inline Ran hung() { return {.end = Ran::End::kTimedOut, .code = 0, .output = "", .errors = ""}; }

inline constexpr const char* kProgram = "/opt/rubato/bin/examples/train_mlp";
inline constexpr const char* kState = "/home/ada/.local/state/rubato";
inline constexpr const char* kUrl = "http://127.0.0.1:7117";
inline constexpr const char* kApiDocument = "/api/v1/openapi.json";

inline Subject subject() {
  Subject result;
  result.state_folder = kState;
  result.port = 7117;
  result.server_urls = {kUrl};
  result.programs = {kProgram};
  result.daemon_cpu_slots = 4;
  return result;
}

// A machine on which every check is content.
inline void furnish(TableMachine& machine) {
  const FileInfo own{.exists = true, .folder = true, .writable = true, .mode = 0700, .owner = 1000};
  machine.programs["nvidia-smi"] = printed("GPU-1, NVIDIA H200\nGPU-2, NVIDIA H200\n");
  machine.files["/proc/driver/nvidia/version"] =
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";
  machine.files["/dev/nvidia0"] = "";
  machine.loaded["libcuda.so.1"] = {.loadable = true, .problem = "", .found = {}};
  machine.files["/proc/cpuinfo"] = "processor : 0\nflags\t\t: fpu sse4_1 avx2 avx512f\n";
  machine.files["/proc/meminfo"] = "MemTotal: 64000000 kB\nMemAvailable:   60000000 kB\n";
  machine.files["/proc/self/cgroup"] = "0::/user.slice/ada\n";
  machine.files["/sys/fs/cgroup/cgroup.controllers"] = "cpu io memory pids\n";
  machine.files["/sys/fs/cgroup/user.slice/ada/cpu.max"] = "max 100000\n";
  machine.files["/sys/fs/cgroup/user.slice/ada/memory.max"] = "max\n";
  machine.folders["/sys/fs/cgroup/user.slice/ada"] = own;
  machine.folders["/run/systemd/system"] = own;
  machine.folders["/dev/shm"] = own;
  machine.spaces["/dev/shm"] = {.total_bytes = 32'000'000'000, .free_bytes = 31'000'000'000};
  machine.files["/proc/sys/kernel/core_pattern"] = "core\n";
  machine.files[kProgram] = "";
  machine.loaded[kProgram] = {.loadable = true,
                              .problem = "",
                              .found = {{"libtorch_cpu.so.2", "/opt/torch/lib/libtorch_cpu.so.2"},
                                        {"libtorch_cuda.so.2", "/opt/torch/lib/libtorch_cuda.so.2"},
                                        {"libblas.so.3", "/lib/libblas.so.3"}}};
  machine.files["/opt/torch/version.py"] = "__version__ = '2.3.1+cu121'\n";
  machine.links["/lib/libblas.so.3"] = "/usr/lib/openblas-pthread/libblas.so.3";
  machine.folders[kState] = own;
  machine.spaces[kState] = {.total_bytes = 500'000'000'000,
                            .free_bytes = 80'000'000'000,
                            .free_files = 1'000'000,
                            .counts_files = true};
  machine.ports[7117] = {Port::State::kTaken, ""};
  machine.answers[std::string(kUrl) + kApiDocument] = {
      .status = 200, .body = R"({"info":{"title":"Rubato"}})", .problem = ""};
  machine.programs["sinfo --version"] = printed("slurm-wlm 22.05.8\n");
  machine.programs["sinfo --noheader"] = printed("3\n2\n");
  machine.answers["http://127.0.0.1:2379/version"] = {
      .status = 200, .body = R"({"etcdserver":"3.4.23","etcdcluster":"3.4.0"})", .problem = ""};
}

// What programs and files say when they are broken.
inline constexpr const char* kGarbage = "\x01\xff\x1b[2J%s {{\n\n::\n";

// The checks on a machine that has everything, until the test takes something away.
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

}  // namespace rubato::control::doctor
