// What the checks of `rubato doctor` can see of a machine. The checks do no I/O of their own: tests
// pass a machine that lacks what they look for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rubato::control::doctor {

struct FileInfo {
  bool exists = false;
  bool folder = false;
  bool writable = false;  // by this user
  unsigned mode = 0;      // permission bits
  unsigned owner = 0;
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;    // for this user
  std::uint64_t free_files = 0;    // inodes
  bool counts_files = false;       // whether the file system limits their number
  std::string network_filesystem;  // "NFS", ...; empty for a local one
};

struct Ran {
  enum class End { kNotFound, kTimedOut, kEnded };
  End end = End::kNotFound;
  int code = 0;  // of one that ended; 128 + number after a signal
  std::string output;
  std::string errors;  // what it wrote to standard error
  bool ok() const { return end == End::kEnded && code == 0; }
  const std::string& complaint() const { return errors.empty() ? output : errors; }
};

// What the dynamic loader finds for a program or a library, without running any of its code.
struct Libraries {
  bool loadable = false;  // and all its libraries were found
  std::string problem;    // otherwise: the loader's words
  struct Library {
    std::string name;  // as the program asks for it: "libblas.so.3"
    std::string path;  // empty: not found
  };
  std::vector<Library> found;
};

struct Port {
  enum class State { kFree, kTaken, kUnusable };
  State state = State::kFree;
  std::string problem;  // of an unusable one
};

struct Answer {
  int status = 0;  // of HTTP; 0: no answer
  std::string body;
  std::string problem;  // without an answer
};

// Both clocks, read twice with a pause between.
struct Clocks {
  double wall_s = 0;  // since 1970
  double wall_passed_s = 0;
  double monotonic_passed_s = 0;
  std::optional<bool> synchronised;  // as the kernel says; unknown where it does not tell
};

// Of this process; the largest number where there is no limit.
struct Limits {
  std::uint64_t open_files = 0;
  std::uint64_t core_bytes = 0;
  std::uint64_t processes = 0;
};

class MachineView {
 public:
  MachineView() = default;
  MachineView(const MachineView&) = delete;
  MachineView& operator=(const MachineView&) = delete;
  virtual ~MachineView() = default;

  // The content of a file, a part of it if it is very large; nothing if it cannot be read.
  virtual std::optional<std::string> read(const std::string& path) const = 0;
  virtual FileInfo file(const std::string& path) const = 0;
  // Names of the entries, sorted; none if the folder cannot be read.
  virtual std::vector<std::string> list(const std::string& folder) const = 0;
  virtual std::string real_path(const std::string& path) const = 0;  // the path itself on failure
  virtual std::optional<Space> space(const std::string& path) const = 0;
  virtual std::string environment(const std::string& name) const = 0;
  virtual unsigned user() const = 0;
  virtual int usable_cpus() const = 0;
  virtual Clocks clocks() const = 0;
  virtual Limits limits() const = 0;

  // Finds the program as a shell does and kills it when it takes longer.
  virtual Ran run(const std::vector<std::string>& command,
                  std::chrono::milliseconds at_most) const = 0;
  // A path, or a library's name that is looked up as programs do.
  virtual Libraries libraries(const std::string& program) const = 0;
  virtual Port port(const std::string& host, int number) const = 0;
  virtual Answer get(const std::string& url) const = 0;
};

}  // namespace rubato::control::doctor
